# One transfer FH -- BS -- MH in ns-2.35 with scripted losses behind the last hop, for exact comparison.
#
#   ns bench/ns2_trace.tcl key=value ...
#
# data and acks are the packets that are lost, by the order in which they cross the last hop (0 is the SYN or its answer);
# data before its queue with before_queue=1. version=2.26 sets what ns-default.tcl of ns-2.26 had and 2.35 changed, and
# version=tcpVariants what ns-2's test suite of that name sets; the code stays that of 2.35.
# reset_rto: whether a timestamp ends the back-off (the same as timestamps unless said).
# late: packets, by the order in which they leave the sender, that reach BS late_by seconds later.
# Writes the traces of three links: OUT.snd from the sender on, OUT.ack back to it, OUT.hop the last hop.
array set o {variant Reno wired_rate 10Mb wired_delay 10ms hop_rate 1Mb hop_delay 40ms segments 150 window 20 tick 0.01 minrto 1.0
    version 2.35 timestamps false reset_rto {} limited 0 dupthresh 3 queue 1000 before_queue 0 delack 0 ssthresh 0 bugfix true data {} acks {} late {} late_by 0.05 bugfix_ack false bugfix_ts false T 400 out ./trace}
foreach a $argv {
    lassign [split $a =] key value
    if {![info exists o($key)]} { puts stderr "unknown option $key"; exit 2 }
    set o($key) $value
}
if {$o(reset_rto) eq ""} { set o(reset_rto) $o(timestamps) }
foreach {name value} [list window_ $o(window) packetSize_ 1000 tcpTick_ $o(tick) minrto_ $o(minrto) rfc2988_ true \
    syn_ true delay_growth_ true windowInit_ 2 windowInitOption_ 1 bugFix_ $o(bugfix) bugFix_ack_ $o(bugfix_ack) bugFix_ts_ $o(bugfix_ts) singledup_ $o(limited) numdupacks_ $o(dupthresh) \
    numdupacksFrac_ -1 slow_start_restart_ true overhead_ 0 maxburst_ 0 useHeaders_ true tcpip_base_hdr_size_ 40 aggressive_maxburst_ 1 \
    timestamps_ $o(timestamps) ts_resetRTO_ $o(reset_rto) ts_option_size_ 10 partial_ack_ false] {
    Agent/TCP set $name $value
}
set old [expr {$o(version) ne "2.35"}]
foreach {name now then} {rtxcur_init_ 3.0 6.0 precisionReduce_ true false} { Agent/TCP set $name [expr {$old ? $then : $now}] }
foreach name {newreno_changes1_ partial_window_deflation_} { Agent/TCP/Newreno set $name [expr {!$old}] }
set oldest [expr {$o(version) eq "2.26"}]
foreach {name now then} {maxrto_ 60 100000 exitFastRetrans_ true false bugfix_ss_ 1 0} {
    Agent/TCP set $name [expr {$oldest ? $then : $now}]
}
Agent/TCP/Newreno set exit_recovery_fix_ 0
foreach {name value} {packetSize_ 40 maxSackBlocks_ 3 generateDSacks_ false ts_echo_bugfix_ true} { Agent/TCPSink set $name $value }

set ns [new Simulator]
$defaultRNG seed 1
foreach node {fh bs mh} { set $node [$ns node] }
$ns duplex-link $fh $bs $o(wired_rate) $o(wired_delay) DropTail
$ns duplex-link $bs $mh $o(hop_rate) $o(hop_delay) DropTail
foreach {a b} [list $fh $bs $bs $fh] { $ns queue-limit $a $b 1000 }
foreach {a b} [list $bs $mh $mh $bs] { $ns queue-limit $a $b $o(queue) }

proc lose {from to packets} {
    global ns
    if {$packets eq ""} return
    set model [new ErrorModel/List]
    $model unit pkt
    $model droplist [split $packets ,]
    set link [[$ns link $from $to] link]
    $model target [$link target]
    $link target $model
    $model drop-target [$ns set nullAgent_]
}
if {$o(before_queue)} { lose $fh $bs $o(data) } else { lose $bs $mh $o(data) }
lose $mh $bs $o(acks)
if {$o(late) ne ""} {
    set model [new ErrorModel/List]
    $model unit pkt
    $model droplist [split $o(late) ,]
    foreach {name value} [list drop_ false delay_pkt_ true delay_ $o(late_by)] { $model set $name $value }
    set link [[$ns link $fh $bs] link]
    $model target [$link target]
    $link target $model
}

set tcp [new [expr {$o(variant) eq "Tahoe" ? "Agent/TCP" : "Agent/TCP/$o(variant)"}]]
set sack [expr {$o(variant) in {Sack1 Fack} ? "/Sack1" : ""}]
set sink [new Agent/TCPSink$sack[expr {$o(delack) ? "/DelAck" : ""}]]
if {$o(delack)} { $sink set interval_ 100ms }
$ns attach-agent $fh $tcp
$ns attach-agent $mh $sink
$ns connect $tcp $sink
if {$o(ssthresh) > 0} { $ns at 0 "$tcp set ssthresh_ $o(ssthresh)" }
set ftp [new Application/FTP]
$ftp attach-agent $tcp
$ns at 0 "$ftp produce $o(segments)"

foreach {a b name} [list $fh $bs snd $bs $fh ack $bs $mh hop] {
    set file($name) [open $o(out).$name w]
    $ns trace-queue $a $b $file($name)
}
proc done {} {
    global file
    foreach name {snd ack hop} { close $file($name) }
    exit 0
}
$ns at $o(T) done
$ns run
