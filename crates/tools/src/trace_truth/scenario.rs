//! What is run: paths, kernels' settings, traffic, and where it is captured.

/// How server and client are joined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// By a path: what is captured has no offload.
    Direct,
    /// The server's device leaves segmentation to a router behind it: captures at the server have
    /// packets of up to 64 kB.
    Offload,
    /// By two paths with a router between them, where a third capture is made.
    Halfway,
}

/// One scenario.
pub struct Scenario {
    pub name: &'static str,
    pub what: &'static str,
    pub topology: Topology,
    /// The path, or both of them, as `mendpath lab` writes paths.
    pub paths: &'static [&'static str],
    /// Settings of both kernels.
    pub settings: &'static [(&'static str, &'static str)],
    /// Sizes of responses, from and to, log-uniform.
    pub bytes: (f64, f64),
    /// Requests on one connection, one after the other.
    pub requests: u32,
    /// Connections at a time.
    pub workers: u32,
    pub connections: u32,
}

const NONE: &[(&str, &str)] = &[];
const NO_PROBES: &[(&str, &str)] = &[("net.ipv4.tcp_early_retrans", "0")];
const OLD: &[(&str, &str)] = &[
    ("net.ipv4.tcp_early_retrans", "0"),
    ("net.ipv4.tcp_sack", "0"),
    ("net.ipv4.tcp_timestamps", "0"),
    ("net.ipv4.tcp_frto", "0"),
    ("net.ipv4.tcp_congestion_control", "reno"),
];
const BBR: &[(&str, &str)] = &[("net.ipv4.tcp_congestion_control", "bbr")];
const NO_STAMPS: &[(&str, &str)] = &[("net.ipv4.tcp_timestamps", "0"), ("net.ipv4.tcp_early_retrans", "0")];

/// All of them.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "random",
        what: "2 % loss both ways, 40 ms, 1 to 300 kB",
        topology: Topology::Direct,
        paths: &["rate=50mbit,delay=40ms,loss=2%,loss-up=2%"],
        settings: NONE,
        bytes: (1e3, 3e5),
        requests: 3,
        workers: 12,
        connections: 300,
    },
    Scenario {
        name: "random-no-probes",
        what: "the same without tail loss probes",
        topology: Topology::Direct,
        paths: &["rate=50mbit,delay=40ms,loss=2%,loss-up=2%"],
        settings: NO_PROBES,
        bytes: (1e3, 3e5),
        requests: 3,
        workers: 12,
        connections: 300,
    },
    Scenario {
        name: "bursts",
        what: "bursts of 5 packets, 3 % in all, 60 ms",
        topology: Topology::Direct,
        paths: &["rate=50mbit,delay=60ms,loss=3%,burst=5,loss-up=1%"],
        settings: NONE,
        bytes: (1e3, 1e6),
        requests: 2,
        workers: 12,
        connections: 240,
    },
    Scenario {
        name: "tail",
        what: "short responses, 5 % loss, 25 ms",
        topology: Topology::Direct,
        paths: &["rate=100mbit,delay=25ms,loss=5%,loss-up=2%"],
        settings: NONE,
        bytes: (500.0, 1.2e4),
        requests: 8,
        workers: 16,
        connections: 240,
    },
    Scenario {
        name: "bufferbloat",
        what: "offload; 4 Mbit/s with a queue of 1 s, 30 ms",
        topology: Topology::Offload,
        paths: &["rate-down=4mbit,rate-up=4mbit,delay=30ms,queue=500kB,loss=0.5%"],
        settings: NO_PROBES,
        bytes: (2e4, 3e6),
        requests: 1,
        workers: 6,
        connections: 60,
    },
    Scenario {
        name: "shallow",
        what: "offload; 20 Mbit/s with a queue of 20 packets, 80 ms",
        topology: Topology::Offload,
        paths: &["rate-down=20mbit,rate-up=20mbit,delay=80ms,queue=20p"],
        settings: NONE,
        bytes: (1e4, 1e6),
        requests: 2,
        workers: 10,
        connections: 200,
    },
    Scenario {
        name: "halfway",
        what: "captured between two paths of 20 and 50 ms, 1 % loss on each",
        topology: Topology::Halfway,
        paths: &["rate=50mbit,delay=20ms,loss=1%,loss-up=1%", "rate=50mbit,delay=50ms,loss=1%,loss-up=1%"],
        settings: NONE,
        bytes: (1e3, 3e5),
        requests: 3,
        workers: 12,
        connections: 240,
    },
    Scenario {
        name: "newreno",
        what: "no SACK, no timestamps, no probes, no F-RTO; 2 % loss, 100 ms",
        topology: Topology::Direct,
        paths: &["rate=20mbit,delay=100ms,loss=2%,loss-up=1%"],
        settings: OLD,
        bytes: (2e3, 3e5),
        requests: 2,
        workers: 16,
        connections: 240,
    },
    Scenario {
        name: "modem",
        what: "offload, no timestamps; 512 kbit/s with a queue of 2 s, 50 ms",
        topology: Topology::Offload,
        paths: &["rate-down=512kbit,rate-up=256kbit,delay=50ms,queue=128kB,loss=2%"],
        settings: NO_STAMPS,
        bytes: (3e3, 1.5e5),
        requests: 1,
        workers: 4,
        connections: 60,
    },
    Scenario {
        name: "paced",
        what: "BBR; 10 Mbit/s, 2 % loss, 60 ms",
        topology: Topology::Direct,
        paths: &["rate=10mbit,delay=60ms,queue=60p,loss=2%,loss-up=1%"],
        settings: BBR,
        bytes: (5e3, 1e6),
        requests: 2,
        workers: 6,
        connections: 120,
    },
];
