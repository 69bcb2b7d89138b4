# The dumbbell of docs/simulator.md in ns-2: SACK TCP with one-way agents.
# ns dumbbell.tcl FLOWS SECONDS; prints segments delivered, dropped, retransmitted, timeouts.
set flows [lindex $argv 0]
set seconds [lindex $argv 1]

Agent/TCP set tcpTick_ 0.000001
Agent/TCP set minrto_ 0.2
Agent/TCP set window_ 65536
Agent/TCP set packetSize_ 1460
Agent/TCP set windowInit_ 10
Agent/TCP set singledup_ 1
Agent/TCP set overhead_ 0
Agent/TCP set syn_ false
Agent/TCPSink set packetSize_ 40

set ns [new Simulator]
set left [$ns node]
set right [$ns node]
$ns duplex-link $left $right 1000Mb 0.040ms DropTail
$ns queue-limit $left $right 100
$ns queue-limit $right $left 100
for {set i 0} {$i < $flows} {incr i} {
    set from($i) [$ns node]
    set to($i) [$ns node]
    foreach {a b} [list $from($i) $left $right $to($i)] {
        $ns duplex-link $a $b 10000Mb 0.005ms DropTail
        $ns queue-limit $a $b 10000
        $ns queue-limit $b $a 10000
    }
    set tcp($i) [new Agent/TCP/Sack1]
    set sink($i) [new Agent/TCPSink/Sack1]
    $ns attach-agent $from($i) $tcp($i)
    $ns attach-agent $to($i) $sink($i)
    $ns connect $tcp($i) $sink($i)
    set ftp($i) [new Application/FTP]
    $ftp($i) attach-agent $tcp($i)
    $ns at [expr $i * 0.00001] "$ftp($i) start"
}
proc report {} {
    global flows tcp
    set sent 0; set again 0; set timeouts 0; set acked 0
    for {set i 0} {$i < $flows} {incr i} {
        incr sent [$tcp($i) set ndatapack_]
        incr again [$tcp($i) set nrexmitpack_]
        incr timeouts [$tcp($i) set nrexmit_]
        incr acked [expr [$tcp($i) set ack_] + 1]
    }
    puts "delivered $acked sent $sent retransmitted $again timeouts $timeouts"
    exit 0
}
$ns at $seconds "report"
$ns run
