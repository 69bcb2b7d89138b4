//! How long proxied connections and requests took, as histograms for Prometheus.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, histogram::Histogram},
    registry::Unit,
};
use tokio::time::{Duration, Instant};

/// Upper bounds in seconds: from a request on loopback to a download of minutes.
const BOUNDS: [f64; 17] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// What became of a request for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Granted,
    Refused,
}

/// What lasted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lasting {
    /// A connection of a program, from when it was granted until both directions ended.
    Connection,
    /// A request to the HTTP proxy, from when it was passed on until its answer was whole.
    HttpRequest,
}

/// The histograms.
#[derive(Debug)]
pub(crate) struct Times {
    granted: Histogram,
    refused: Histogram,
    connections: Histogram,
    http_requests: Histogram,
}

/// Measures until it is dropped.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    since: Instant,
    of: Histogram,
}

impl Default for Times {
    fn default() -> Self {
        let [granted, refused, connections, http_requests] = [(); 4].map(|()| Histogram::new(BOUNDS));
        Self { granted, refused, connections, http_requests }
    }
}

impl Times {
    /// A request for a connection was answered after `time`.
    pub(crate) fn answered(&self, outcome: Outcome, time: Duration) {
        let histogram = match outcome {
            Outcome::Granted => &self.granted,
            Outcome::Refused => &self.refused,
        };
        histogram.observe(time.as_secs_f64());
    }

    /// Begins to measure.
    pub(crate) fn begin(&self, what: Lasting) -> Stopwatch {
        let of = match what {
            Lasting::Connection => &self.connections,
            Lasting::HttpRequest => &self.http_requests,
        };
        Stopwatch { since: Instant::now(), of: of.clone() }
    }

    /// All of them as text.
    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Time until a request for a connection was answered.";
        let mut answers = encode_histogram("connect_duration", help, encoder)?;
        for (outcome, histogram) in [("granted", &self.granted), ("refused", &self.refused)] {
            histogram.encode(answers.encode_family(&[("outcome", outcome)])?)?;
        }
        let help = "Time from when a proxied connection was granted until both directions had ended.";
        self.connections.encode(encode_histogram("proxied_connection_duration", help, encoder)?)?;
        let help = "Time from when the HTTP proxy passed a request on until its answer was whole.";
        self.http_requests.encode(encode_histogram("http_request_duration", help, encoder)?)
    }
}

fn encode_histogram<'a>(
    name: &'a str,
    help: &'a str,
    encoder: &'a mut DescriptorEncoder<'_>,
) -> Result<prometheus_client::encoding::MetricEncoder<'a>, fmt::Error> {
    encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        self.of.observe(self.since.elapsed().as_secs_f64());
    }
}
