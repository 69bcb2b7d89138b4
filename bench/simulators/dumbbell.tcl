# Long SACK TCP flows over a dumbbell in ns-2, with the arguments of `cargo run -p mendpath-tools -- dumbbell`.
# Prints segments acknowledged after the warm-up, in all and of each flow, then what was sent again, timeouts, the mean queue.
source [file join [file dirname [info script]] network.tcl]
set flows 10
set mbps 1000
set rtt_ms 0.1
set queue 100
set loss 0
set seed 1
set warmup 0
set seconds 1
set window 65536
read_arguments
configure_tcp $window 1.0

set ns [new Simulator]
set left [$ns node]
set right [$ns node]
# Losses happen behind the rate limit: on a wire of its own, without delay, that the queue feeds.
set wire [$ns node]
set side [expr $rtt_ms / 20.0]
set middle [expr $rtt_ms / 2.0 - 2 * $side]
if {$loss > 0} {
    join_one_way $ns $left $wire $mbps $middle $queue
    join_one_way $ns $wire $right 1000000 0 100000
    set random [new RNG]
    $random seed $seed
    set uniform [new RandomVariable/Uniform]
    $uniform use-rng $random
    set errors [new ErrorModel]
    $errors unit pkt
    $errors set rate_ $loss
    $errors ranvar $uniform
    $errors drop-target [new Agent/Null]
    $ns lossmodel $errors $wire $right
    set head [list $left $wire]
} else {
    join_one_way $ns $left $right $mbps $middle $queue
    set head [list $left $right]
}
join_one_way $ns $right $left $mbps $middle $queue
for {set i 0} {$i < $flows} {incr i} {
    set from($i) [$ns node]
    set to($i) [$ns node]
    foreach {a b} [list $from($i) $left $right $to($i)] {
        join_one_way $ns $a $b [expr 10 * $mbps] $side 10000
        join_one_way $ns $b $a [expr 10 * $mbps] $side 10000
    }
    connect_tcp $ns $from($i) $to($i)
    set senders($i) $tcp
    $ns at [expr $i * 0.00001] "$ftp start"
}
set monitor [$ns monitor-queue [lindex $head 0] [lindex $head 1] ""]
set waited [$monitor get-pkts-integrator]

proc acknowledged {i} {
    global senders
    return [expr [$senders($i) set ack_] + 1]
}
proc begin {} {
    global flows before waited queue_before ns
    for {set i 0} {$i < $flows} {incr i} { set before($i) [acknowledged $i] }
    $waited newpoint [$ns now] [$waited set lasty_]
    set queue_before [$waited set sum_]
}
proc report {} {
    global ns flows senders before waited queue_before seconds warmup
    set all 0; set again 0; set timeouts 0
    for {set i 0} {$i < $flows} {incr i} {
        set each [expr [acknowledged $i] - $before($i)]
        incr all $each
        lappend shares $each
        incr again [$senders($i) set nrexmitpack_]
        incr timeouts [$senders($i) set nrexmit_]
    }
    $waited newpoint [$ns now] [$waited set lasty_]
    set mean [expr ([$waited set sum_] - $queue_before) / ($seconds - $warmup)]
    puts "{\"delivered\":$all,\"shares\":\[[join $shares ,]\],\"retransmissions\":$again,\"timeouts\":$timeouts,\"queue\":[format %.3f $mean]}"
    exit 0
}
$ns at $warmup "begin"
$ns at $seconds "report"
$ns run
