# The flows of a file over a leaf-spine fabric in ns-2: four leaves of 16 hosts, four spines, as `cargo run -p mendpath-tools -- simulator-speed leaf-spine`.
# A line of the file is a flow: start in ns, sender, receiver, bytes. Prints flows that arrived, the packet-hops that carried them, the mean completion time.
source [file join [file dirname [info script]] network.tcl]
if {[llength $argv] != 1} {
    puts stderr "usage: leaf_spine.tcl FILE, with a flow on each line"
    exit 2
}
configure_tcp 128 1.0
Agent/TCP set minrto_ 0.005

set ns [new Simulator]
$ns rtproto Manual
set leaves 4
set spines 4
set hosts 64
set rack [expr $hosts / $leaves]
for {set i 0} {$i < $leaves} {incr i} { set leaf($i) [$ns node] }
for {set i 0} {$i < $spines} {incr i} { set spine($i) [$ns node] }
for {set i 0} {$i < $hosts} {incr i} { set host($i) [$ns node] }

# `node` sends what is for host `to` over its link to `next`.
proc route {node to next} {
    global ns host
    $node add-route [$host($to) id] [[$ns link $node $next] head]
}
for {set i 0} {$i < $hosts} {incr i} {
    set own $leaf([expr $i / $rack])
    join_one_way $ns $host($i) $own 10000 0.005 10000
    join_one_way $ns $own $host($i) 10000 0.005 250
    route $own $i $host($i)
    for {set to 0} {$to < $hosts} {incr to} {
        if {$to != $i} { route $host($i) $to $own }
    }
}
for {set i 0} {$i < $leaves} {incr i} {
    for {set j 0} {$j < $spines} {incr j} {
        join_one_way $ns $leaf($i) $spine($j) 40000 0.005 250
        join_one_way $ns $spine($j) $leaf($i) 40000 0.005 250
        for {set to 0} {$to < $hosts} {incr to} {
            # Every receiver has a spine of its own.
            if {$to / $rack == $i} {
                route $spine($j) $to $leaf($i)
            } elseif {$to % $spines == $j} {
                route $leaf($i) $to $spine($j)
            }
        }
    }
}

set left 0
set arrived 0
set sum 0.0
set hops 0
# All of a flow's segments are acknowledged.
Agent/TCP instproc done {} {
    global ns left arrived sum started hops
    set sum [expr $sum + [$ns now] - $started($self)]
    incr arrived
    if {[incr left -1] == 0} {
        puts "{\"flows\":$arrived,\"hops\":$hops,\"mean_ms\":[format %.3f [expr $sum / $arrived * 1e3]]}"
        exit 0
    }
}
set file [open [lindex $argv 0]]
while {[gets $file line] >= 0} {
    foreach {start from to bytes} $line break
    set segments [expr ($bytes + 1459) / 1460]
    connect_tcp $ns $host($from) $host($to)
    set at [expr $start / 1e9]
    set started($tcp) $at
    $ns at $at "$ftp producemore $segments"
    incr left
    incr hops [expr 2 * $segments * ($from / $rack == $to / $rack ? 2 : 4)]
}
close $file
$ns at 100 "exit 1"
$ns run
