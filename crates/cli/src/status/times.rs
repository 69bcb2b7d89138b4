//! How long proxied requests and connections to their destinations take, as histograms.

use std::sync::Arc;

use prometheus_client::metrics::{family::Family, histogram::Histogram};
use tokio::time::Instant;

use super::Live;
use crate::{protocol::Status, splice::Ended};

/// Upper ends of the buckets, in seconds.
const BUCKETS: [f64; 17] =
    [0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

type Label = (&'static str, &'static str);
type Histograms<const LABELS: usize> = Family<[Label; LABELS], Histogram, fn() -> Histogram>;

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

/// The histograms of a process. Labels have few values, all of them ours.
#[derive(Debug)]
pub(crate) struct Times {
    /// Of proxied requests, by `protocol` and `outcome`.
    pub(crate) requests: Histograms<2>,
    /// Of connecting to destinations, by `outcome`.
    pub(crate) connects: Histograms<1>,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            requests: Family::new_with_constructor(histogram),
            connects: Family::new_with_constructor(histogram),
        }
    }
}

/// How a program asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// SOCKS5's CONNECT.
    Socks5,
    /// HTTP's CONNECT.
    HttpConnect,
    /// A plain `http://` request.
    Http,
    /// A forwarded port.
    Forward,
    /// A TUN device.
    #[cfg_attr(
        not(all(feature = "tunnel", target_os = "linux")),
        allow(dead_code, reason = "of tunnels only")
    )]
    Tun,
    /// On a server, whatever the client's program spoke.
    Tcp,
}

impl Protocol {
    const fn name(self) -> &'static str {
        match self {
            Self::Socks5 => "socks5",
            Self::HttpConnect => "http-connect",
            Self::Http => "http",
            Self::Forward => "forward",
            Self::Tun => "tun",
            Self::Tcp => "tcp",
        }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Both directions reached their ends.
    Complete,
    /// One side failed, or went away.
    Broken,
    /// Nothing passed for too long.
    Idle,
    /// There was no connection to its destination.
    Refused,
}

impl Outcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Broken => "broken",
            Self::Idle => "idle",
            Self::Refused => "refused",
        }
    }
}

impl From<&Ended> for Outcome {
    fn from(ended: &Ended) -> Self {
        match ended {
            Ended::Complete => Self::Complete,
            Ended::Broken(_) | Ended::Unheard => Self::Broken,
            Ended::Idle => Self::Idle,
        }
    }
}

/// A request whose time runs until this is dropped; broken unless something else was said.
#[derive(Debug)]
pub(crate) struct Timed {
    live: Arc<Live>,
    protocol: Protocol,
    began: Instant,
    outcome: Outcome,
}

impl Timed {
    /// It begins now.
    pub(crate) fn new(live: &Arc<Live>, protocol: Protocol) -> Self {
        Self { live: live.clone(), protocol, began: Instant::now(), outcome: Outcome::Broken }
    }

    /// How it ends.
    pub(crate) fn ends(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        let labels = [("protocol", self.protocol.name()), ("outcome", self.outcome.name())];
        let seconds = self.began.elapsed().as_secs_f64();
        self.live.times.requests.get_or_create(&labels).observe(seconds);
    }
}

impl Times {
    /// How many requests ended so.
    #[cfg(test)]
    pub(crate) fn count(&self, protocol: Protocol, outcome: Outcome) -> u64 {
        use prometheus_client::{encoding::text, registry::Registry};
        let mut registry = Registry::default();
        registry.register("requests", "", self.requests.clone());
        let mut out = String::new();
        text::encode(&mut out, &registry).expect("text takes everything");
        let name =
            format!("requests_count{{protocol=\"{}\",outcome=\"{}\"}} ", protocol.name(), outcome.name());
        let count = out.lines().find_map(|line| line.strip_prefix(&name));
        count.map_or(0, |count| count.parse().expect("it is a number"))
    }

    /// Connecting to a destination that began then has come to this.
    pub(crate) fn connected(&self, began: Instant, status: Status) {
        let outcome = match status {
            Status::Ok => "connected",
            Status::Forbidden => "forbidden",
            Status::NetworkUnreachable | Status::HostUnreachable => "unreachable",
            Status::Refused => "refused",
            Status::TimedOut => "timed-out",
            Status::NameUnknown => "name-unknown",
            _ => "failed",
        };
        let seconds = began.elapsed().as_secs_f64();
        self.connects.get_or_create(&[("outcome", outcome)]).observe(seconds);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::{encoding::text, registry::Registry};

    use super::*;

    fn text(live: &Live) -> String {
        let mut registry = Registry::default();
        registry.register("requests", "", live.times.requests.clone());
        registry.register("connects", "", live.times.connects.clone());
        let mut out = String::new();
        text::encode(&mut out, &registry).unwrap();
        out
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_timed_until_they_are_dropped() {
        let live = Arc::new(Live::new(true));
        let mut complete = Timed::new(&live, Protocol::Socks5);
        let broken = Timed::new(&live, Protocol::Http);
        tokio::time::advance(Duration::from_millis(20)).await;
        complete.ends(Outcome::Complete);
        drop(complete);
        tokio::time::advance(Duration::from_secs(400)).await;
        drop(broken);
        let text = text(&live);
        for line in [
            "requests_bucket{le=\"0.01\",protocol=\"socks5\",outcome=\"complete\"} 0",
            "requests_bucket{le=\"0.025\",protocol=\"socks5\",outcome=\"complete\"} 1",
            "requests_bucket{le=\"300.0\",protocol=\"http\",outcome=\"broken\"} 0",
            "requests_bucket{le=\"+Inf\",protocol=\"http\",outcome=\"broken\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_status_of_a_connection_has_one_of_few_outcomes() {
        let live = Live::new(true);
        for number in 0..=u8::MAX {
            if let Some(status) = Status::from_number(number) {
                live.times.connected(Instant::now(), status);
            }
        }
        assert_eq!(text(&live).matches("connects_count{").count(), 7);
    }
}
