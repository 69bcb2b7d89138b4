//! `/metrics`: paths and connection for Prometheus, in the text format of OpenMetrics.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

use super::admin::{StatsRow, TunRow};
use crate::{
    admin::{encode_counters, metrics_text},
    status::PathRow,
};

/// The text. Counters of a connection start again when it is made anew.
pub(super) fn metrics(paths: Vec<PathRow>, stats: Option<StatsRow>) -> String {
    metrics_text(Scrape { paths, stats })
}

/// What there is to tell at the moment.
#[derive(Debug)]
struct Scrape {
    paths: Vec<PathRow>,
    stats: Option<StatsRow>,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Whether there is a connection to the server.";
        let up = encoder.encode_descriptor("up", help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::from(self.stats.is_some())).encode(up)?;
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
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)?;
    }
    let help = "Destinations connected to lately, whose programs are answered at once.";
    let known = encoder.encode_descriptor("destinations_known", help, None, MetricType::Gauge)?;
    ConstGauge::new(stats.destinations_known as f64).encode(known)?;
    stats.tun.as_ref().map_or(Ok(()), |tun| encode_tun(tun, encoder))?;
    encode_counters(&stats.counters, encoder)
}

fn encode_tun(tun: &TunRow, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let counters = [
        ("tun_packets", "Packets read from the TUN device.", tun.packets),
        ("tun_rewritten", "TCP packets rewritten.", tun.rewritten),
        ("tun_replies", "Packets answered with a reset or an ICMP error.", tun.replies),
        ("tun_asked", "TCP connections that programs asked for.", tun.asked),
        ("tun_granted", "TCP connections that were granted.", tun.granted),
        ("tun_refused", "TCP connections that were refused.", tun.refused),
        ("tun_forgotten", "TCP flows forgotten before their end.", tun.forgotten),
        ("tun_udp_dropped", "UDP packets of programs that found no room.", tun.udp_dropped),
    ];
    for (name, help, value) in counters {
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)?;
    }
    let gauges = [
        ("tun_flows", "TCP flows at the moment.", tun.flows),
        ("tun_udp_sockets", "UDP sockets of programs at the moment.", tun.udp_sockets),
    ];
    for (name, help, value) in gauges {
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value as f64).encode(metric)?;
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
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
    value: Value,
}

enum Value {
    Gauge(fn(&PathRow) -> f64),
    Counter(fn(&PathRow) -> u64),
}

static OF_PATHS: [OfPath; 8] = [
    OfPath::gauge("path_rtt", Unit::Seconds, "Smoothed round-trip time.", |path| path.rtt_ms / 1e3),
    OfPath::gauge("path_window", Unit::Bytes, "Congestion window.", |path| path.window_bytes as f64),
    OfPath::gauge("path_in_flight", Unit::Bytes, "Bytes sent and not answered for.", |path| {
        path.in_flight_bytes as f64
    }),
    OfPath::counter("path_bytes_sent", "UDP payload bytes sent.", |path| path.bytes_sent),
    OfPath::counter("path_bytes_received", "UDP payload bytes received.", |path| path.bytes_received),
    OfPath::counter("path_packets_lost", "Packets declared lost.", |path| path.packets_lost),
    OfPath::counter("path_repair_symbols_sent", "Repair symbols sent.", |path| path.repair_symbols_sent),
    OfPath::counter("path_copies_sent", "Copies of packets sent.", |path| path.copies_sent),
];

impl OfPath {
    const fn gauge(name: &'static str, unit: Unit, help: &'static str, value: fn(&PathRow) -> f64) -> Self {
        Self { name, unit: Some(unit), help, value: Value::Gauge(value) }
    }

    const fn counter(name: &'static str, help: &'static str, value: fn(&PathRow) -> u64) -> Self {
        Self { name, unit: None, help, value: Value::Counter(value) }
    }

    fn encode(&self, paths: &[PathRow], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let kind = match self.value {
            Value::Gauge(_) => MetricType::Gauge,
            Value::Counter(_) => MetricType::Counter,
        };
        let mut metric = encoder.encode_descriptor(self.name, self.help, self.unit.as_ref(), kind)?;
        for path in paths {
            let labels = [("path", path.id.to_string()), ("local", path.local.clone())];
            let of_path = metric.encode_family(&labels)?;
            match self.value {
                Value::Gauge(value) => ConstGauge::new(value(path)).encode(of_path)?,
                Value::Counter(value) => ConstCounter::new(value(path)).encode(of_path)?,
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

    fn path() -> PathRow {
        PathRow {
            id: 1,
            local: "192.0.2.1:5000".into(),
            rtt_ms: 50.0,
            window_bytes: 14_520,
            copies_sent: 3,
            ..PathRow::default()
        }
    }

    #[test]
    fn without_a_connection() {
        let text = metrics(Vec::new(), None);
        assert!(text.starts_with("# HELP mendpath_up "), "{text}");
        assert!(text.contains("\nmendpath_up 0\n") && text.ends_with("# EOF\n"), "{text}");
        let values = text.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(values.count(), 1, "{text}");
    }

    #[test]
    fn paths_are_told_of_in_the_words_of_the_json() {
        let shown = serde_json::to_value(path()).unwrap();
        for metric in &OF_PATHS {
            let name = metric.name.strip_prefix("path_").unwrap();
            let known = ["", "_ms", "_bytes"].map(|unit| shown.get(format!("{name}{unit}")).is_some());
            assert!(known.contains(&true), "{name}");
        }
    }

    #[test]
    fn names_have_units_and_totals() {
        let mut stats = ConnectionStats::default();
        (stats.packets_rebuilt, stats.packets_mended, stats.reasons.block) = (5, 7, 2);
        let text = metrics(
            vec![path()],
            Some(StatsRow::new(&stats, 1, AnswerCounts { early: 3, ..AnswerCounts::default() })),
        );
        let labels = "{path=\"1\",local=\"192.0.2.1:5000\"}";
        for line in [
            "mendpath_up 1",
            "mendpath_reconnects_total 1",
            "mendpath_early_answers_total 3",
            "mendpath_destinations_known 0.0",
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
            assert_eq!(line.split(' ').count(), 2, "{line}");
        }
    }
}
