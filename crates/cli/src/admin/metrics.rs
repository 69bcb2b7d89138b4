//! What the texts for Prometheus have in common, in the format of OpenMetrics.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, text},
    metrics::{MetricType, counter::ConstCounter},
    registry::Registry,
};

use super::Counters;

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

/// The counters of connections.
pub(crate) fn encode_counters(counters: &Counters, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    for (counter, value) in counters.iter() {
        let metric = encoder.encode_descriptor(counter.name, counter.help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)?;
    }
    let help = "Copies and repair symbols by why they were sent, and times that none were and why.";
    let mut reasons = encoder.encode_descriptor("recovery_reasons", help, None, MetricType::Counter)?;
    for (reason, count) in counters.recovery_reasons().named() {
        ConstCounter::new(count).encode(reasons.encode_family(&[("reason", reason)])?)?;
    }
    Ok(())
}
