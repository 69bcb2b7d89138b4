//! What the texts for Prometheus have in common, in the format of OpenMetrics.
//!
//! Names are those of the JSON, with the unit at the end: `bytes_sent` of a path is
//! `mendpath_path_sent_bytes_total` here. What is about the process is called as it is of every
//! program.

use std::{fmt, fs};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};

use crate::{
    descriptors,
    status::{Counters, Live},
};

/// The content type.
pub(crate) const METRICS_KIND: &str = "application/openmetrics-text; version=1.0.0";

/// The text of what there is to tell at the moment. `role`: `client` or `server`.
pub(crate) fn metrics_text(role: &'static str, live: &Live, scrape: impl Collector) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Process { began: live.began_unix() }));
    let ours = registry.sub_registry_with_prefix("mendpath");
    ours.register_collector(Box::new(Build { role }));
    ours.register_collector(Box::new(scrape));
    let times = &live.times;
    let help = "Time from a program's request to the end of what it asked for";
    ours.register_with_unit("request_duration", help, Unit::Seconds, times.requests.clone());
    let help = "Time from a request to the news that its destination is connected, or cannot be";
    ours.register_with_unit("connect_duration", help, Unit::Seconds, times.connects.clone());
    let mut out = String::new();
    text::encode(&mut out, &registry).expect("a string takes everything");
    out
}

/// One metric with its values by label.
pub(crate) struct Metric<'a> {
    /// As the JSON has it.
    pub(crate) name: &'a str,
    pub(crate) help: &'a str,
}

impl Metric<'_> {
    /// The unit, and the name without it.
    fn parts(&self) -> (String, Option<Unit>) {
        let all = self.name.split('_');
        let unit = all.clone().find_map(|word| match word {
            "bytes" => Some(Unit::Bytes),
            "seconds" => Some(Unit::Seconds),
            _ => None,
        });
        let is_unit = |word: &&str| unit.as_ref().is_some_and(|unit| unit.as_str() == *word);
        (all.filter(|word| !is_unit(word)).collect::<Vec<_>>().join("_"), unit)
    }

    fn help(&self) -> String {
        format!("{}.", self.help)
    }

    /// A counter with labels.
    pub(crate) fn counters<L: EncodeLabelSet>(
        &self,
        values: impl IntoIterator<Item = (L, u64)>,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        let (name, unit) = self.parts();
        let mut metric =
            encoder.encode_descriptor(&name, &self.help(), unit.as_ref(), MetricType::Counter)?;
        for (labels, value) in values {
            ConstCounter::new(value).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// A gauge with labels.
    pub(crate) fn gauges<L: EncodeLabelSet>(
        &self,
        values: impl IntoIterator<Item = (L, f64)>,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        let (name, unit) = self.parts();
        let mut metric = encoder.encode_descriptor(&name, &self.help(), unit.as_ref(), MetricType::Gauge)?;
        for (labels, value) in values {
            ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// A counter without labels.
    pub(crate) fn counter(&self, value: u64, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (name, unit) = self.parts();
        let metric = encoder.encode_descriptor(&name, &self.help(), unit.as_ref(), MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)
    }

    /// A gauge without labels that is a whole number.
    pub(crate) fn gauge(&self, value: u64, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (name, unit) = self.parts();
        let metric = encoder.encode_descriptor(&name, &self.help(), unit.as_ref(), MetricType::Gauge)?;
        ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(metric)
    }
}

/// The counters of connections.
pub(crate) fn encode_counters(counters: &Counters, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    for (counter, value) in counters.iter() {
        Metric { name: counter.name, help: sentence(counter.help) }.counter(value, encoder)?;
    }
    let help = "Copies and repair symbols by why they were sent, and times that none were and why";
    let reasons = counters.recovery_reasons().named();
    let values = reasons.into_iter().map(|(reason, count)| ([("reason", reason)], count));
    Metric { name: "recovery_reasons", help }.counters(values, encoder)
}

/// The workers of a server, by number: `connections` of each, and packets that came to another one
/// than theirs.
pub(crate) fn encode_workers(
    connections: &[usize],
    misdirected: u64,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let values = connections.iter().enumerate();
    let values = values.map(|(worker, count)| ([("worker", worker.to_string())], *count as f64));
    let help = "QUIC connections of the worker, those that are closing included";
    Metric { name: "worker_connections", help }.gauges(values, encoder)?;
    let help = "Packets that came to another worker than theirs, which handed them on";
    Metric { name: "packets_misdirected", help }.counter(misdirected, encoder)
}

/// A description without its full stop, as [`Metric`] has it.
pub(crate) fn sentence(help: &'static str) -> &'static str {
    help.trim_end_matches('.')
}

/// Which program this is.
#[derive(Debug)]
struct Build {
    role: &'static str,
}

impl Collector for Build {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let labels = [("version", env!("CARGO_PKG_VERSION")), ("role", self.role)];
        let help = "Always 1; the labels tell the program's version and what it is.";
        let mut metric = encoder.encode_descriptor("build_info", help, None, MetricType::Gauge)?;
        ConstGauge::new(1_i64).encode(metric.encode_family(&labels)?)
    }
}

/// What every program tells of its process. Memory and processor time are known on Linux only.
#[derive(Debug)]
struct Process {
    /// In seconds since 1970.
    began: f64,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let gauges = [
            ("process_start_time_seconds", "When the process began its work, since 1970", Some(self.began)),
            ("process_resident_memory_bytes", "Memory in use", resident_bytes()),
            ("process_open_fds", "Open files and sockets", open_files()),
            ("process_max_fds", "Files and sockets that may be open", Some(descriptors::limit() as f64)),
        ];
        for (name, help, value) in gauges {
            let Some(value) = value else { continue };
            let of = Metric { name, help };
            let (name, unit) = of.parts();
            let metric = encoder.encode_descriptor(&name, &of.help(), unit.as_ref(), MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)?;
        }
        let Some(seconds) = processor_seconds() else { return Ok(()) };
        let unit = Unit::Seconds;
        let metric = encoder.encode_descriptor(
            "process_cpu",
            "Processor time used.",
            Some(&unit),
            MetricType::Counter,
        )?;
        ConstCounter::new(seconds).encode(metric)
    }
}

fn resident_bytes() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1_024.0)
}

fn open_files() -> Option<f64> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count() as f64)
}

fn processor_seconds() -> Option<f64> {
    /// Linux's USER_HZ, the same on all machines that Rust runs on.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name, in parentheses, and may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_stand_at_the_end() {
        for (name, rest, unit) in [
            ("bytes_sent", "sent", Some("bytes")),
            ("stream_bytes_received", "stream_received", Some("bytes")),
            ("packets_lost", "packets_lost", None),
            ("path_rtt_seconds", "path_rtt", Some("seconds")),
        ] {
            let (found, of) = Metric { name, help: "" }.parts();
            assert_eq!((found.as_str(), of.as_ref().map(Unit::as_str)), (rest, unit));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_process_is_known() {
        assert!(resident_bytes().unwrap() > 1e5 && open_files().unwrap() >= 3.0);
        assert!(processor_seconds().unwrap() >= 0.0);
    }
}
