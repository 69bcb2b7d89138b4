//! `/metrics`: paths and connection for Prometheus, in the text format of OpenMetrics.

use std::{collections::BTreeMap, fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use super::admin::{StatsRow, TunRow};
use crate::{
    admin::{encode_counter, encode_counters, encode_gauge, encode_process, metrics_text, name_and_unit},
    status::{Live, PathRow},
};

/// The text. Counters of a connection start again when it is made anew.
pub(super) fn metrics(paths: Vec<PathRow>, stats: Option<StatsRow>, live: Arc<Live>) -> String {
    // One that is closing may have the name of its successor, whose id is larger.
    let by_name: BTreeMap<String, PathRow> =
        paths.into_iter().map(|path| (path.name.clone(), path)).collect();
    metrics_text(Scrape { paths: by_name, stats, live })
}

/// What there is to tell at the moment.
#[derive(Debug)]
struct Scrape {
    paths: BTreeMap<String, PathRow>,
    stats: Option<StatsRow>,
    live: Arc<Live>,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let up = i64::from(self.stats.is_some());
        encode_gauge("up", "Whether there is a connection to the server.", up, &mut encoder)?;
        encode_process("client", &self.live, &mut encoder)?;
        if let Some(stats) = &self.stats {
            encode_connection(stats, &mut encoder)?;
        }
        OF_PATHS.iter().try_for_each(|metric| metric.encode(&self.paths, &mut encoder))
    }
}

fn encode_connection(stats: &StatsRow, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let counters = [
        ("reconnects", "Connections made after the first.", stats.reconnects),
        ("early_answers", "Programs answered before the server had.", stats.early_answers),
        (
            "early_answers_refused",
            "Those of them whose request the server then refused.",
            stats.early_answers_refused,
        ),
    ];
    for (name, help, value) in counters {
        encode_counter(name, help, value, encoder)?;
    }
    let help = "Destinations connected to lately, whose programs are answered at once.";
    encode_gauge("destinations_known", help, stats.destinations_known as i64, encoder)?;
    stats.tun.as_ref().map_or(Ok(()), |tun| encode_tun(tun, encoder))?;
    encode_counters(&stats.counters, encoder)
}

fn encode_tun(tun: &TunRow, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let counters = [
        ("tun_packets", "Packets read from the TUN device.", tun.packets),
        ("tun_read_bytes", "Bytes of them.", tun.bytes),
        ("tun_rewritten", "TCP packets rewritten.", tun.rewritten),
        ("tun_replies", "Packets answered with a reset or an ICMP error.", tun.replies),
        ("tun_asked", "TCP connections that programs asked for.", tun.asked),
        ("tun_granted", "TCP connections that were granted.", tun.granted),
        ("tun_refused", "TCP connections that were refused.", tun.refused),
        ("tun_forgotten", "TCP flows forgotten before their end.", tun.forgotten),
        ("tun_udp_dropped", "UDP packets of programs that found no room.", tun.udp_dropped),
    ];
    for (name, help, value) in counters {
        encode_counter(name, help, value, encoder)?;
    }
    let gauges = [
        ("tun_flows", "TCP flows at the moment.", tun.flows),
        ("tun_udp_sockets", "UDP sockets of programs at the moment.", tun.udp_sockets),
    ];
    for (name, help, value) in gauges {
        encode_gauge(name, help, value as i64, encoder)?;
    }
    let help = "Packets of the TUN device that were dropped, by reason.";
    let mut dropped = encoder.encode_descriptor("tun_dropped", help, None, MetricType::Counter)?;
    for (reason, count) in &tun.dropped {
        ConstCounter::new(*count).encode(dropped.encode_family(&[("reason", *reason)])?)?;
    }
    Ok(())
}

/// A metric that each path has.
struct OfPath {
    /// As [`PathRow`] calls it.
    field: &'static str,
    help: &'static str,
    value: Value,
}

enum Value {
    /// In the unit of its name.
    Gauge(fn(&PathRow) -> f64),
    Counter(fn(&PathRow) -> u64),
}

macro_rules! counter {
    ($field:ident, $help:literal) => {
        OfPath { field: stringify!($field), help: $help, value: Value::Counter(|path| path.$field) }
    };
}

static OF_PATHS: [OfPath; 16] = [
    OfPath::gauge("rtt_ms", "Smoothed round-trip time.", |path| path.rtt_ms / 1e3),
    OfPath::gauge("rtt_min_ms", "Smallest round-trip time.", |path| path.rtt_min_ms / 1e3),
    OfPath::gauge("window_bytes", "Congestion window.", |path| path.window_bytes as f64),
    OfPath::gauge("in_flight_bytes", "Bytes sent and not answered for.", |path| path.in_flight_bytes as f64),
    OfPath::gauge("loss_estimate", "The share of packets lost that recovery goes by, 0 to 1.", |path| {
        path.loss_estimate
    }),
    counter!(bytes_sent, "UDP payload bytes sent."),
    counter!(bytes_received, "UDP payload bytes received."),
    counter!(packets_sent, "Packets sent."),
    counter!(packets_received, "Packets received."),
    counter!(packets_lost, "Packets declared lost."),
    counter!(packets_mended, "Lost packets whose data had reached the peer by a copy or a repair symbol."),
    counter!(packets_rebuilt_by_peer, "Packets of ours that the peer rebuilt."),
    counter!(repair_symbols_sent, "Repair symbols sent."),
    counter!(copies_sent, "Copies of packets sent."),
    OfPath::gauge("packets_missing", "Packets of the peer that later ones have overtaken.", |path| {
        path.packets_missing as f64
    }),
    OfPath::gauge("metered", "Whether the user said that it costs money.", |path| {
        f64::from(u8::from(path.metered))
    }),
];

impl OfPath {
    const fn gauge(field: &'static str, help: &'static str, value: fn(&PathRow) -> f64) -> Self {
        Self { field, help, value: Value::Gauge(value) }
    }

    fn encode(&self, paths: &BTreeMap<String, PathRow>, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let kind = match self.value {
            Value::Gauge(_) => MetricType::Gauge,
            Value::Counter(_) => MetricType::Counter,
        };
        let (name, unit) = name_and_unit(self.field);
        let name = format!("path_{name}");
        let mut metric = encoder.encode_descriptor(&name, self.help, unit.as_ref(), kind)?;
        for (path, row) in paths {
            let label = [("path", path.as_str())];
            let of_path = metric.encode_family(&label)?;
            match self.value {
                Value::Gauge(value) => ConstGauge::new(value(row)).encode(of_path)?,
                Value::Counter(value) => ConstCounter::new(value(row)).encode(of_path)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mendpath::ConnectionStats;

    use super::*;
    use crate::client::answers::AnswerCounts;

    fn live() -> Arc<Live> {
        Arc::new(Live::new(true))
    }

    fn path() -> PathRow {
        PathRow {
            id: 1,
            name: "wlan0 192.0.2.1".into(),
            local: "192.0.2.1:5000".into(),
            rtt_ms: 50.0,
            window_bytes: 14_520,
            copies_sent: 3,
            ..PathRow::default()
        }
    }

    #[test]
    fn without_a_connection() {
        let text = metrics(Vec::new(), None, live());
        assert!(text.starts_with("# HELP mendpath_up "), "{text}");
        assert!(text.contains("\nmendpath_up 0\n") && text.ends_with("# EOF\n"), "{text}");
        for sample in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(!sample.contains("packets") && !sample.contains("path="), "{sample}");
        }
    }

    #[test]
    fn paths_are_told_of_in_the_words_of_the_json() {
        let shown = serde_json::to_value(path()).unwrap();
        for metric in &OF_PATHS {
            assert!(shown.get(metric.field).is_some(), "{}", metric.field);
        }
    }

    #[test]
    fn a_path_has_one_name_and_one_row_in_each_life() {
        let closing = PathRow { id: 1, copies_sent: 9, ..path() };
        let anew = PathRow { id: 2, local: "192.0.2.1:6000".into(), ..path() };
        let text = metrics(vec![closing, anew], None, live());
        let rows: Vec<_> =
            text.lines().filter(|line| line.starts_with("mendpath_path_copies_sent_total{")).collect();
        assert_eq!(rows, ["mendpath_path_copies_sent_total{path=\"wlan0 192.0.2.1\"} 3"]);
    }

    #[test]
    fn names_have_units_and_totals() {
        let mut stats = ConnectionStats::default();
        (stats.packets_rebuilt, stats.packets_mended, stats.reasons.block) = (5, 7, 2);
        let text = metrics(
            vec![path()],
            Some(StatsRow::new(&stats, 1, AnswerCounts { early: 3, ..AnswerCounts::default() })),
            live(),
        );
        let labels = "{path=\"wlan0 192.0.2.1\"}";
        for line in [
            "mendpath_up 1",
            "mendpath_reconnects_total 1",
            "mendpath_early_answers_total 3",
            "mendpath_destinations_known 0",
            "mendpath_sent_bytes_total 0",
            "mendpath_stream_received_bytes_total 0",
            "mendpath_connect_duration_seconds_count{outcome=\"granted\"} 0",
            concat!("mendpath_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\",role=\"client\"} 1"),
            "mendpath_packets_rebuilt_total 5",
            "mendpath_packets_mended_total 7",
            "mendpath_recovery_reasons_total{reason=\"block\"} 2",
            &format!("mendpath_path_rtt_seconds{labels} 0.05"),
            &format!("mendpath_path_window_bytes{labels} 14520.0"),
            &format!("mendpath_path_copies_sent_total{labels} 3"),
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let value = line.rsplit(' ').next().unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
}
