# One SACK TCP flow in ns-2 over 12 Mbit/s and 10 ms each way; the data packets with the given indices (from 0) are lost.
# ns single_flow.tcl SEGMENTS INDEX...; prints when the last acknowledgement arrived, in ms, and the timeouts.
set segments [lindex $argv 0]
set lost [lrange $argv 1 end]

Agent/TCP set tcpTick_ 0.000001
Agent/TCP set minrto_ 0.2
Agent/TCP set rtxcur_init_ 1.0
Agent/TCP set window_ 65536
Agent/TCP set packetSize_ 1460
Agent/TCP set windowInit_ 10
Agent/TCP set singledup_ 1
Agent/TCP set overhead_ 0
Agent/TCP set syn_ false
Agent/TCPSink set packetSize_ 40

set ns [new Simulator]
set a [$ns node]
set b [$ns node]
$ns simplex-link $a $b 12Mb 10ms DropTail
$ns simplex-link $b $a 12000Mb 10ms DropTail
$ns queue-limit $a $b 10000
if {[llength $lost] > 0} {
    set errors [new ErrorModel/List]
    $errors unit pkt
    $errors droplist $lost
    $errors drop-target [new Agent/Null]
    $ns link-lossmodel $errors $a $b
}
set tcp [new Agent/TCP/Sack1]
set sink [new Agent/TCPSink/Sack1]
$ns attach-agent $a $tcp
$ns attach-agent $b $sink
$ns connect $tcp $sink
proc finished {} {
    global ns tcp
    puts [format "%.6f %d" [expr [$ns now] * 1000] [$tcp set nrexmit_]]
    exit 0
}
Agent/TCP instproc done {} { finished }
set ftp [new Application/FTP]
$ftp attach-agent $tcp
$ns at 0 "$ftp produce $segments"
$ns at 60 "puts never; exit 0"
$ns run
