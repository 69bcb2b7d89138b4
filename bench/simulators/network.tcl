# What the scripts beside it share: arguments as key=value, and SACK TCP as this project's simulator has it.

# Sets a global variable for each key=value of the command line; a key that the script has no default for is refused.
proc read_arguments {} {
    global argv
    foreach word $argv {
        foreach {key value} [split $word =] break
        if {![uplevel #0 info exists $key]} {
            puts stderr "unknown argument: $word"
            exit 2
        }
        uplevel #0 [list set $key $value]
    }
}

# TCP with the window in segments, initial timeout in seconds; clocks of a microsecond, every segment acknowledged.
proc configure_tcp {window initial_rto} {
    Agent/TCP set tcpTick_ 0.000001
    Agent/TCP set minrto_ 0.2
    Agent/TCP set rtxcur_init_ $initial_rto
    Agent/TCP set window_ $window
    Agent/TCP set packetSize_ 1460
    Agent/TCP set windowInit_ 10
    Agent/TCP set singledup_ 1
    Agent/TCP set overhead_ 0
    Agent/TCP set syn_ false
    # The first acknowledgement opens the window like any other.
    Agent/TCP set delay_growth_ false
    Agent/TCPSink set packetSize_ 40
}

# A sender on node `from`, its receiver on node `to`, and an application; sets tcp, sink and ftp in the caller.
proc connect_tcp {ns from to} {
    upvar tcp tcp sink sink ftp ftp
    set tcp [new Agent/TCP/Sack1]
    set sink [new Agent/TCPSink/Sack1]
    $ns attach-agent $from $tcp
    $ns attach-agent $to $sink
    $ns connect $tcp $sink
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp
}

# A link in one direction; `packets` may wait, the one that is being sent not counted (ns-2 keeps one place free).
proc join_one_way {ns from to mbps ms packets} {
    $ns simplex-link $from $to ${mbps}Mb ${ms}ms DropTail
    $ns queue-limit $from $to [expr $packets + 1]
}
