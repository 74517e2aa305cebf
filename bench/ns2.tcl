# Bulk flows FH -- BS -- MH in ns-2.35, for comparison: speed (many packets, no tracing) and goodput under random loss.
#
#   ns bench/ns2.tcl key=value ...
#
# Prints: delivered SEGMENTS data PACKETS retransmitted PACKETS timeouts N cuts N acked SEGMENTS
# (delivered is counted in bytes by ns-2 and overflows at 2 GB; acked does not)
array set o {variant Reno wired 10Mb hop 2Mb delay 20ms T 200 seed 1 flows 1 window 100 queue 150 loss 0 both 0 bugfix true limited 1 minrto 0.2 data {} acks {} far 20ms segment 1000 ca {}}
foreach a $argv {
    lassign [split $a =] key value
    if {![info exists o($key)]} { puts stderr "unknown option $key"; exit 2 }
    set o($key) $value
}
remove-all-packet-headers
add-packet-header IP TCP Flags
foreach {name value} [list window_ $o(window) packetSize_ $o(segment) tcpTick_ 0.01 minrto_ $o(minrto) maxrto_ 60 rtxcur_init_ 3.0 rfc2988_ true \
    syn_ true delay_growth_ true windowInit_ 2 windowInitOption_ 1 bugFix_ $o(bugfix) singledup_ $o(limited) numdupacks_ 3 numdupacksFrac_ -1 \
    slow_start_restart_ true overhead_ 0 maxburst_ 0 useHeaders_ true tcpip_base_hdr_size_ 40 aggressive_maxburst_ 1] {
    Agent/TCP set $name $value
}
Agent/TCP/Newreno set newreno_changes1_ 1
Agent/TCP/Newreno set partial_window_deflation_ 1
Agent/TCP/Newreno set exit_recovery_fix_ 0
Agent/TCPSink set packetSize_ 40
Agent/TCPSink set maxSackBlocks_ 3
Agent/TCPSink set generateDSacks_ false

set ns [new Simulator]
$defaultRNG seed $o(seed)
foreach node {fh bs mh} { set $node [$ns node] }
$ns duplex-link $fh $bs $o(wired) $o(far) DropTail
$ns duplex-link $bs $mh $o(hop) $o(delay) DropTail
foreach {a b} [list $fh $bs $bs $fh $mh $bs] { $ns queue-limit $a $b 100000 }
$ns queue-limit $bs $mh $o(queue)

# Loss behind the link: a lost packet has used its air time. Each direction has a separate substream.
proc air_loss {from to substream} {
    global ns o
    set rng [new RNG]
    for {set i 0} {$i < $substream} {incr i} { $rng next-substream }
    set uniform [new RandomVariable/Uniform]
    $uniform set min_ 0
    $uniform set max_ 1
    $uniform use-rng $rng
    set model [new ErrorModel]
    $model unit pkt
    $model set rate_ $o(loss)
    $model ranvar $uniform
    set link [[$ns link $from $to] link]
    $model target [$link target]
    $link target $model
    $model drop-target [$ns set nullAgent_]
}
# Or these frames are lost, by their place in the order in which they cross the last hop.
proc list_loss {from to frames} {
    global ns
    if {$frames eq ""} return
    set model [new ErrorModel/List]
    $model unit pkt
    $model droplist [split $frames ,]
    set link [[$ns link $from $to] link]
    $model target [$link target]
    $link target $model
    $model drop-target [$ns set nullAgent_]
}
list_loss $bs $mh $o(data)
list_loss $mh $bs $o(acks)
if {$o(loss) > 0} {
    air_loss $bs $mh 1
    if {$o(both)} { air_loss $mh $bs 2 }
}
set agent [expr {$o(variant) eq "Tahoe" ? "Agent/TCP" : "Agent/TCP/$o(variant)"}]
# Linux' congestion control (Agent/TCP/Linux, Wei and Cao 2006) with SACK and delayed ACKs.
array set receivers {Sack1 Agent/TCPSink/Sack1 Fack Agent/TCPSink/Sack1 Linux Agent/TCPSink/Sack1/DelAck}
set receiver [expr {[info exists receivers($o(variant))] ? $receivers($o(variant)) : "Agent/TCPSink"}]
for {set i 0} {$i < $o(flows)} {incr i} {
    set tcp($i) [new $agent]
    set sink($i) [new $receiver]
    $ns attach-agent $fh $tcp($i)
    $ns attach-agent $mh $sink($i)
    $ns connect $tcp($i) $sink($i)
    if {$o(ca) ne ""} { $tcp($i) select_ca $o(ca) }
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp($i)
    $ns at [expr 0.01 * $i] "$ftp start"
}
proc done {} {
    global o tcp sink
    foreach total {delivered data again timeouts cuts acked} { set $total 0 }
    for {set i 0} {$i < $o(flows)} {incr i} {
        incr delivered [expr ([$sink($i) set bytes_] - 40) / 1040]
        incr data [$tcp($i) set ndatapack_]
        incr again [$tcp($i) set nrexmitpack_]
        incr timeouts [$tcp($i) set nrexmit_]
        incr cuts [$tcp($i) set ncwndcuts_]
        incr acked [$tcp($i) set ack_]
    }
    puts "delivered $delivered data $data retransmitted $again timeouts $timeouts cuts $cuts acked $acked"
    exit 0
}
$ns at $o(T) done
$ns run
