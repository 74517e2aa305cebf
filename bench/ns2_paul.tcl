# S -- R1 -- BS -- MH in ns-2.35, the network of paul2005, with losses that a file names: one endless flow, and a constant stream to BS.
#
#   ns bench/ns2_paul.tcl key=value ...
#
# down and up are files with the ordinals, from 0, of the packets that the last hop loses towards MH and back, in increasing order:
# a chain that moves once per packet is drawn elsewhere, and two simulators meet the same one. Counts are printed.
array set o {variant Newreno wired 2Mb udp none down {} up {} seed 1 window 20 minrto 0.2 T 100}
foreach a $argv {
    lassign [split $a =] key value
    if {![info exists o($key)]} { puts stderr "unknown option $key"; exit 2 }
    set o($key) $value
}
foreach {name value} [list window_ $o(window) packetSize_ 1000 tcpTick_ 0.01 minrto_ $o(minrto) maxrto_ 60 rtxcur_init_ 3.0 rfc2988_ true \
    syn_ true delay_growth_ true windowInit_ 2 windowInitOption_ 1 bugFix_ true singledup_ 1 numdupacks_ 3 \
    numdupacksFrac_ -1 slow_start_restart_ true overhead_ 0 maxburst_ 0 useHeaders_ true tcpip_base_hdr_size_ 40 aggressive_maxburst_ 1 \
    timestamps_ false partial_ack_ false] {
    Agent/TCP set $name $value
}
Agent/TCP/Newreno set newreno_changes1_ 1
Agent/TCP/Newreno set partial_window_deflation_ 1
Agent/TCP/Newreno set exit_recovery_fix_ 0
foreach {name value} {packetSize_ 40 maxSackBlocks_ 3 generateDSacks_ false ts_echo_bugfix_ true} { Agent/TCPSink set $name $value }

set ns [new Simulator]
$defaultRNG seed $o(seed)
foreach node {s u r1 bs mh} { set $node [$ns node] }
foreach {a b rate delay} [list $s $r1 $o(wired) 1ms $u $r1 $o(wired) 1ms $r1 $bs $o(wired) 1ms $bs $mh 1Mb 5ms] {
    $ns duplex-link $a $b $rate $delay DropTail
    $ns queue-limit $a $b 50
    $ns queue-limit $b $a 50
}
# Behind the link: a lost packet has used its air time.
proc lose {a b file} {
    global ns
    if {$file eq ""} return
    set model [new ErrorModel/List]
    $model unit pkt
    set f [open $file]
    $model droplist [read $f]
    close $f
    set link [[$ns link $a $b] link]
    $model target [$link target]
    $link target $model
    $model drop-target [$ns set nullAgent_]
}
lose $bs $mh $o(down)
lose $mh $bs $o(up)

set tcp [new Agent/TCP[expr {$o(variant) eq "Tahoe" ? "" : "/$o(variant)"}]]
set sink [new Agent/TCPSink[expr {$o(variant) eq "Sack1" ? "/Sack1" : ""}]]
$ns attach-agent $s $tcp
$ns attach-agent $mh $sink
$ns connect $tcp $sink
set ftp [new Application/FTP]
$ftp attach-agent $tcp
$ns at 0 "$ftp start"
if {$o(udp) eq "bs"} {
    set source [new Agent/UDP]
    set null [new Agent/Null]
    $ns attach-agent $u $source
    $ns attach-agent $bs $null
    $ns connect $source $null
    set cbr [new Application/Traffic/CBR]
    foreach {name value} {packetSize_ 1000 rate_ 512kb random_ 0} { $cbr set $name $value }
    $cbr attach-agent $source
    $ns at 0 "$cbr start"
}
proc done {} {
    global o tcp sink
    puts "delivered [expr ([$sink set bytes_] - 40) / 1040] data [$tcp set ndatapack_] retransmitted [$tcp set nrexmitpack_] timeouts [$tcp set nrexmit_]"
    exit 0
}
$ns at $o(T) done
$ns run
