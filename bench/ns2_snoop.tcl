# FH -- BS -- MH in ns-2.35 with Snoop at BS (snoop=0: a plain link layer).
#
#   ns bench/ns2_snoop.tcl key=value ...
#
# For exact comparison one transfer of `segments`: data and acks are the packets that are lost, by the order in which they cross
# the last hop (0 is the SYN or its answer). For statistics (segments=0) an endless flow and random loss; counts are printed.
# The last hop is a LAN of ns-2's plain MAC: no contention, 64 bytes more for each frame, and a frame arrives `hop_delay`
# after it *starts*. With `out` it writes traces: OUT.snd from the sender on, OUT.ack back to it, OUT.hop what BS sends on the LAN.
array set o {variant Reno wired_rate 10Mb wired_delay 10ms hop_rate 2Mb hop_delay 20ms segments 150 window 20 tick 0.01 minrto 1.0
    limited 0 queue 150 snooptick 0.1 snoop 1 data {} acks {} loss 0 both 0 seed 1 T 400 out {}}
foreach a $argv {
    lassign [split $a =] key value
    if {![info exists o($key)]} { puts stderr "unknown option $key"; exit 2 }
    set o($key) $value
}
foreach {name value} [list window_ $o(window) packetSize_ 1000 tcpTick_ $o(tick) minrto_ $o(minrto) maxrto_ 60 rtxcur_init_ 3.0 rfc2988_ true \
    syn_ true delay_growth_ true windowInit_ 2 windowInitOption_ 1 bugFix_ true singledup_ $o(limited) numdupacks_ 3 \
    numdupacksFrac_ -1 slow_start_restart_ true overhead_ 0 maxburst_ 0 useHeaders_ true tcpip_base_hdr_size_ 40 aggressive_maxburst_ 1 \
    timestamps_ false partial_ack_ false] {
    Agent/TCP set $name $value
}
Agent/TCP/Newreno set newreno_changes1_ 1
Agent/TCP/Newreno set partial_window_deflation_ 1
Agent/TCP/Newreno set exit_recovery_fix_ 0
foreach {name value} {packetSize_ 40 maxSackBlocks_ 3 generateDSacks_ false ts_echo_bugfix_ true} { Agent/TCPSink set $name $value }
Snoop set snoopTick_ $o(snooptick)

set ns [new Simulator]
$defaultRNG seed $o(seed)
foreach node {fh bs mh} { set $node [$ns node] }
$ns duplex-link $fh $bs $o(wired_rate) $o(wired_delay) DropTail
foreach {a b} [list $fh $bs $bs $fh] { $ns queue-limit $a $b 1000 }
Queue set limit_ $o(queue)
set lan [$ns make-lan [list $mh] $o(hop_rate) 0ms LL Queue/DropTail Mac Channel]
$lan addNode [list $bs] $o(hop_rate) 0ms [expr {$o(snoop) ? "LL/LLSnoop" : "LL"}] Queue/DropTail Mac
[$lan set channel_] set delay_ $o(hop_delay)
foreach node [list $mh $bs] {
    set interface($node) [$lan set lanIface_($node)]
    [$interface($node) set ll_] set delay_ 0
    [$interface($node) set mac_] set bandwidth_ $o(hop_rate)
}

# Loss between MAC and link layer of the receiving side: a lost packet has used its air time.
proc behind {interface model} {
    global ns
    $model unit pkt
    $model target [$interface set ll_]
    [$interface set mac_] up-target $model
    $model drop-target [$ns set nullAgent_]
}
proc lose {interface packets} {
    if {$packets eq ""} return
    set model [new ErrorModel/List]
    behind $interface $model
    $model droplist [split $packets ,]
}
proc lose_some {interface substream} {
    global o
    set rng [new RNG]
    for {set i 0} {$i < $substream} {incr i} { $rng next-substream }
    set uniform [new RandomVariable/Uniform]
    $uniform set min_ 0
    $uniform set max_ 1
    $uniform use-rng $rng
    set model [new ErrorModel]
    behind $interface $model
    $model set rate_ $o(loss)
    $model ranvar $uniform
}
if {$o(loss) > 0} {
    lose_some $interface($mh) 1
    if {$o(both)} { lose_some $interface($bs) 2 }
} else {
    lose $interface($mh) $o(data)
    lose $interface($bs) $o(acks)
}

set tcp [new Agent/TCP/$o(variant)]
set sink [new Agent/TCPSink[expr {$o(variant) eq "Sack1" ? "/Sack1" : ""}]]
$ns attach-agent $fh $tcp
$ns attach-agent $mh $sink
$ns connect $tcp $sink
set ftp [new Application/FTP]
$ftp attach-agent $tcp
$ns at 0 [expr {$o(segments) > 0 ? "$ftp produce $o(segments)" : "$ftp start"}]

set files {}
if {$o(out) ne ""} {
    foreach {a b name} [list $fh $bs snd $bs $fh ack] {
        lappend files [open $o(out).$name w]
        $ns trace-queue $a $b [lindex $files end]
    }
    lappend files [open $o(out).hop w]
    $interface($bs) trace $ns [lindex $files end]
}
proc done {} {
    global o files tcp sink
    foreach file $files { close $file }
    if {$o(segments) == 0} {
        puts "delivered [expr ([$sink set bytes_] - 40) / 1040] data [$tcp set ndatapack_] retransmitted [$tcp set nrexmitpack_] timeouts [$tcp set nrexmit_] cuts [$tcp set ncwndcuts_]"
    }
    exit 0
}
$ns at $o(T) done
$ns run
