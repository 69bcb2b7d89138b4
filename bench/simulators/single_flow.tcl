# One SACK TCP flow in ns-2 over 12 Mbit/s and 10 ms each way; the data packets with the given indices (from 0) are lost.
# ns single_flow.tcl segments=N lost=INDEX,...; prints when the last acknowledgement arrived, in ms, the timeouts, and
# the slow start threshold in segments.
source [file join [file dirname [info script]] network.tcl]
set segments 10
set lost ""
set trace ""
# Without timestamps ns-2 measures one round trip at a time, with them every acknowledgement gives a sample.
set timestamps 1
read_arguments
configure_tcp 65536 1.0
Agent/TCP set timestamps_ $timestamps
Agent/TCP set ts_option_size_ 0

set ns [new Simulator]
set a [$ns node]
set b [$ns node]
set wire [$ns node]
join_one_way $ns $a $wire 12 10 10000
join_one_way $ns $wire $b 1000000 0 10000
join_one_way $ns $b $a 12000 10 10000
if {$lost ne ""} {
    set errors [new ErrorModel/List]
    $errors unit pkt
    $errors droplist [split $lost ,]
    $errors drop-target [new Agent/Null]
    $ns lossmodel $errors $wire $b
}
connect_tcp $ns $a $b
if {$trace ne ""} {
    $ns trace-queue $a $wire [open $trace w]
}
proc finished {} {
    global ns tcp
    puts [format "%.6f %d %g" [expr [$ns now] * 1000] [$tcp set nrexmit_] [$tcp set ssthresh_]]
    exit 0
}
Agent/TCP instproc done {} { finished }
$ns at 0 "$ftp produce $segments"
$ns at 60 "puts {never 0}; exit 0"
$ns run
