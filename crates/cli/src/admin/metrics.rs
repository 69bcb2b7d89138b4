//! What the texts for Prometheus have in common, in the format of OpenMetrics.
//!
//! Statistics keep their names, but for units, which Prometheus has at the end and in base units:
//! `bytes_sent` of the JSON is `sent_bytes_total` here, `rtt_ms` is `rtt_seconds`.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge, info::Info},
    registry::{Registry, Unit},
};

use super::Counters;
use crate::status::Live;

/// The content type.
pub(crate) const METRICS_KIND: &str = "application/openmetrics-text; version=1.0.0";

/// The text of what there is to tell at the moment.
pub(crate) fn metrics_text(scrape: impl Collector) -> String {
    let mut registry = Registry::with_prefix("mendpath");
    registry.register_collector(Box::new(scrape));
    let mut out = String::new();
    text::encode(&mut out, &registry).expect("a string takes everything");
    out
}

/// The name and unit here of what is called `field` in the JSON.
pub(crate) fn name_and_unit(field: &str) -> (String, Option<Unit>) {
    if let Some(name) = field.strip_suffix("_ms") {
        (name.to_owned(), Some(Unit::Seconds))
    } else if let Some(name) = field.strip_suffix("_bytes") {
        (name.to_owned(), Some(Unit::Bytes))
    } else if field.contains("bytes_") {
        (field.replacen("bytes_", "", 1), Some(Unit::Bytes))
    } else {
        (field.to_owned(), None)
    }
}

/// Which program this is, `client` or `server`, since when it runs, and how long what it proxied took.
pub(crate) fn encode_process(role: &str, live: &Live, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let build = Info::new([("version", env!("CARGO_PKG_VERSION")), ("role", role)]);
    build.encode(encoder.encode_descriptor("build", "The program.", None, MetricType::Info)?)?;
    let help = "When the process began, in seconds since 1970.";
    let since = encoder.encode_descriptor("start_time", help, Some(&Unit::Seconds), MetricType::Gauge)?;
    ConstGauge::new(live.began_unix_ms() as f64 / 1e3).encode(since)?;
    live.times.encode(encoder)
}

/// A gauge without labels.
pub(crate) fn encode_gauge(
    name: &str,
    help: &str,
    value: i64,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

/// A counter without labels, called `field` in the JSON.
pub(crate) fn encode_counter(
    field: &str,
    help: &str,
    value: u64,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let (name, unit) = name_and_unit(field);
    let metric = encoder.encode_descriptor(&name, help, unit.as_ref(), MetricType::Counter)?;
    ConstCounter::new(value).encode(metric)
}

/// The counters of connections.
pub(crate) fn encode_counters(counters: &Counters, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    for (counter, value) in counters.iter() {
        encode_counter(counter.name, counter.help, value, encoder)?;
    }
    let help = "Copies and repair symbols by why they were sent, and times that none were and why.";
    let mut reasons = encoder.encode_descriptor("recovery_reasons", help, None, MetricType::Counter)?;
    for (reason, count) in counters.recovery_reasons().named() {
        ConstCounter::new(count).encode(reasons.encode_family(&[("reason", reason)])?)?;
    }
    Ok(())
}
