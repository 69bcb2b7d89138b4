//! `/metrics` of a client: its connection, and its paths by name.

use std::{collections::BTreeSet, fmt};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::{
    admin::{RawRow, TunRow},
    answers::AnswerCounts,
};
use crate::{
    admin::{Metric, encode_counters, metrics_text, sentence},
    status::{Counters, Live, PATH_COUNTERS, PathCounts, PathRow},
};

/// What there is to tell at the moment.
#[derive(Debug)]
pub(super) struct Scrape {
    pub(super) connected: bool,
    pub(super) reconnects: u64,
    pub(super) answers: AnswerCounts,
    /// Of all connections since the client's start.
    pub(super) counters: Counters,
    pub(super) tun: Option<TunRow>,
    /// What paths have counted since the client's start, by name.
    pub(super) counted: Vec<(String, PathCounts)>,
    /// Those that there are, by the same names.
    pub(super) open: Vec<PathRow>,
    /// Names of those that are not there though they should be.
    pub(super) missing: BTreeSet<String>,
}

impl Scrape {
    /// The text.
    pub(super) fn text(self, live: &Live) -> String {
        metrics_text("client", live, self)
    }

    /// The paths that there are; of several with one name the newest.
    fn newest(&self) -> impl Iterator<Item = &PathRow> {
        self.open
            .iter()
            .filter(|path| !self.open.iter().any(|other| other.name == path.name && other.id > path.id))
    }

    fn encode_paths(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let answering = |name: &str| {
            let answers = |path: &PathRow| ["active", "backup", "paused"].contains(&path.state.as_str());
            self.newest().any(|path| path.name == name && answers(path))
        };
        let names: BTreeSet<&str> = self
            .newest()
            .map(|path| path.name.as_str())
            .chain(self.missing.iter().map(String::as_str))
            .collect();
        let values = names.into_iter().map(|name| ([("path", name)], f64::from(u8::from(answering(name)))));
        let help = "Whether the path is there and answers; paths whose interface is gone have none";
        Metric { name: "path_up", help }.gauges(values, encoder)?;
        for (name, help, value) in OF_PATHS {
            let values = self.newest().map(|path| ([("path", path.name.as_str())], value(path)));
            Metric { name, help }.gauges(values, encoder)?;
        }
        let values = self.newest().filter_map(|path| {
            let group = f64::from(path.bottleneck?);
            Some(([("path", path.name.as_str())], group))
        });
        let help = "Which bottleneck it meets others in: paths with the same number share one";
        Metric { name: "path_bottleneck", help }.gauges(values, encoder)?;
        for (index, counter) in PATH_COUNTERS.iter().enumerate() {
            let values =
                self.counted.iter().map(|(name, counts)| ([("path", name.as_str())], counts.value(index)));
            let name = format!("path_{}", counter.name);
            Metric { name: &name, help: sentence(counter.help) }.counters(values, encoder)?;
        }
        Ok(())
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let help = "Whether there is a connection to the server";
        Metric { name: "up", help }.gauge(self.connected.into(), encoder)?;
        for (name, help, value) in [
            ("reconnects", "Connections made after the first", self.reconnects),
            ("early_answers", "Programs answered before the server had", self.answers.early),
            (
                "early_answers_refused",
                "Those of them whose request the server then refused",
                self.answers.refused,
            ),
        ] {
            Metric { name, help }.counter(value, encoder)?;
        }
        let help = "Destinations connected to lately, whose programs are answered at once";
        Metric { name: "destinations_known", help }.gauge(self.answers.known, encoder)?;
        self.tun.as_ref().map_or(Ok(()), |tun| encode_tun(tun, encoder))?;
        encode_counters(&self.counters, encoder)?;
        self.encode_paths(encoder)
    }
}

/// A gauge of a path.
type OfPath = (&'static str, &'static str, fn(&PathRow) -> f64);

static OF_PATHS: [OfPath; 6] = [
    ("path_rtt_seconds", "Smoothed round-trip time", |path| path.rtt_ms / 1e3),
    ("path_rtt_min_seconds", "Smallest round-trip time", |path| path.rtt_min_ms / 1e3),
    ("path_window_bytes", "Congestion window", |path| path.window_bytes as f64),
    ("path_in_flight_bytes", "Bytes sent and not answered for", |path| path.in_flight_bytes as f64),
    ("path_packets_missing", "The server's packets that have not arrived though later ones have", |path| {
        path.packets_missing as f64
    }),
    ("path_loss_estimate", "The share of packets that recovery expects to be lost, 0 to 1", |path| {
        path.loss_estimate
    }),
];

fn encode_tun(tun: &TunRow, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    for (name, help, value) in [
        ("tun_packets", "Packets read from the TUN device", tun.packets),
        ("tun_bytes", "Bytes read from the TUN device", tun.bytes),
        ("tun_rewritten", "TCP packets rewritten", tun.rewritten),
        ("tun_replies", "Packets answered with a reset or an ICMP error", tun.replies),
        ("tun_asked", "TCP connections that programs asked for", tun.asked),
        ("tun_granted", "TCP connections that were granted", tun.granted),
        ("tun_refused", "TCP connections that were refused", tun.refused),
        ("tun_forgotten", "TCP flows forgotten before their end", tun.forgotten),
        ("tun_udp_dropped", "UDP packets of programs that found no room, or no association", tun.udp_dropped),
    ] {
        Metric { name, help }.counter(value, encoder)?;
    }
    for (name, help, value) in [
        ("tun_flows", "TCP flows at the moment", tun.flows),
        ("tun_udp_sockets", "UDP sockets of programs at the moment", tun.udp_sockets),
    ] {
        Metric { name, help }.gauge(value as u64, encoder)?;
    }
    let help = "Packets of the TUN device that were dropped, by reason";
    let values = tun.dropped.iter().map(|(reason, count)| ([("reason", *reason)], *count));
    Metric { name: "tun_dropped", help }.counters(values, encoder)?;
    tun.raw.as_ref().map_or(Ok(()), |raw| encode_raw(raw, encoder))
}

fn encode_raw(raw: &RawRow, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    raw.packets.encode("tun_raw_", encoder)?;
    let help = "Packets from or to addresses that the server has not given to this tunnel";
    Metric { name: "tun_raw_strange", help }.counter(raw.strange, encoder)?;
    let help = "Packets from the device dropped because too many waited for the connection";
    Metric { name: "tun_raw_full", help }.counter(raw.full, encoder)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs, path::Path};

    use mendpath::ConnectionStats;

    use super::*;

    fn path(id: u32, name: &str, state: &str) -> PathRow {
        PathRow {
            id,
            name: name.into(),
            state: state.into(),
            local: format!("192.0.2.1:{}", 5_000 + id),
            rtt_ms: 50.0,
            window_bytes: 14_520,
            ..PathRow::default()
        }
    }

    fn scrape() -> Scrape {
        Scrape {
            connected: false,
            reconnects: 0,
            answers: AnswerCounts::default(),
            counters: Counters::default(),
            tun: None,
            counted: Vec::new(),
            open: Vec::new(),
            missing: BTreeSet::new(),
        }
    }

    fn check(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(text.lines().any(|other| other == *line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[tokio::test]
    async fn those_of_a_tunnel_are_in_the_documentation_and_no_others() {
        let tun = TunRow {
            packets: 0,
            bytes: 0,
            rewritten: 0,
            replies: 0,
            asked: 0,
            granted: 0,
            refused: 0,
            forgotten: 0,
            flows: 0,
            udp_sockets: 0,
            udp_dropped: 0,
            dropped: BTreeMap::from([("malformed", 1)]),
            raw: Some(RawRow::default()),
        };
        let text = Scrape { tun: Some(tun), ..scrape() }.text(&Live::new(true));
        let samples = text.lines().filter(|line| line.starts_with("mendpath_tun_"));
        let printed: BTreeSet<&str> = samples.filter_map(|line| line.split(['{', ' ']).next()).collect();
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate.md");
        let page = fs::read_to_string(page).unwrap();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let documented: BTreeSet<&str> = rows.filter(|name| name.starts_with("mendpath_tun_")).collect();
        assert_eq!(printed, documented);
    }

    #[tokio::test]
    async fn without_a_connection() {
        let text = scrape().text(&Live::new(true));
        let version =
            format!("mendpath_build_info{{version=\"{}\",role=\"client\"}} 1", env!("CARGO_PKG_VERSION"));
        check(&text, &["mendpath_up 0", "mendpath_sent_bytes_total 0", &version]);
        assert!(text.contains("\nprocess_start_time_seconds 1"), "{text}");
        assert!(!text.contains(".."), "{text}");
    }

    #[tokio::test]
    async fn names_have_units_and_totals() {
        let mut stats = ConnectionStats::default();
        (stats.packets_rebuilt, stats.packets_mended, stats.reasons.block) = (5, 7, 2);
        let newest = PathRow { bottleneck: Some(0), ..path(1, "wlan0 (192.0.2.1)", "active") };
        let open = vec![newest, path(0, "wlan0 (192.0.2.1)", "closing"), path(2, "eth0", "active")];
        let counted = ["usb0 (203.0.113.9)", "wlan0 (192.0.2.1)", "wwan0 (198.51.100.7)"];
        let text = Scrape {
            connected: true,
            reconnects: 1,
            answers: AnswerCounts { early: 3, ..AnswerCounts::default() },
            counters: (&stats).into(),
            open,
            counted: counted.map(|name| (name.to_owned(), PathCounts::default())).to_vec(),
            missing: BTreeSet::from([counted[2].to_owned()]),
            ..scrape()
        }
        .text(&Live::new(true));
        check(
            &text,
            &[
                "mendpath_up 1",
                "mendpath_reconnects_total 1",
                "mendpath_early_answers_total 3",
                "mendpath_destinations_known 0",
                "mendpath_packets_rebuilt_total 5",
                "mendpath_packets_mended_total 7",
                "mendpath_recovery_reasons_total{reason=\"block\"} 2",
                "mendpath_path_rtt_seconds{path=\"wlan0 (192.0.2.1)\"} 0.05",
                "mendpath_path_window_bytes{path=\"wlan0 (192.0.2.1)\"} 14520.0",
                "mendpath_path_up{path=\"wlan0 (192.0.2.1)\"} 1.0",
                "mendpath_path_up{path=\"wwan0 (198.51.100.7)\"} 0.0",
                "mendpath_path_copies_sent_total{path=\"wwan0 (198.51.100.7)\"} 0",
                "mendpath_path_sent_bytes_total{path=\"wwan0 (198.51.100.7)\"} 0",
                "mendpath_path_sent_bytes_total{path=\"usb0 (203.0.113.9)\"} 0",
            ],
        );
        let groups = text.lines().filter(|line| line.starts_with("mendpath_path_bottleneck{"));
        assert_eq!(groups.collect::<Vec<_>>(), ["mendpath_path_bottleneck{path=\"wlan0 (192.0.2.1)\"} 0.0"]);
        assert!(!text.contains("mendpath_path_up{path=\"usb0"), "an interface that is gone alarms nobody");
    }
}
