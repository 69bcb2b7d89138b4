//! A path of the laboratory as users describe it: `rate=50mbit,delay=20ms,loss=2%`.

use std::{fmt, str::FromStr};

use netsim::{
    LinkConfig,
    link::{Change, ParseLinkError, QueueSize},
};
use units::{Bytes, Duration, ParseUnitError};

/// Packets up to this size (pure ACKs, handshakes without data) are spared by a path with
/// `data-only`, bytes.
pub const SMALL_PACKET: u64 = 200;

/// The least that may wait without `queue`, bytes: 32 full packets, as [`LinkConfig::queue_size`] has it.
const LEAST_QUEUE: u64 = 32 * 1_500;

/// One emulated path, both directions.
///
/// Written as comma-separated properties: those of [`LinkConfig`], with these differences.
///
/// | key | meaning |
/// |---|---|
/// | `delay`, `delay@5s` | **round-trip** time without queues: half of it in each direction |
/// | `loss`, `burst`, `drop`, `replay` | from server to client, unless they end in `-up` |
/// | `outage`, `hold`, `rate@5s`, `delay@5s` | counted from the start of each fetch, transfer, call or load |
/// | `KEY-up`, `KEY-down` | any property of one direction alone |
/// | `queue` | also `1bdp` or `0.25bdp`: a share of rate times round-trip time; without, `1bdp`, but at least 48 kB |
/// | `data-only` | packets of at most [`SMALL_PACKET`] bytes are neither lost nor counted by `loss` and `drop` |
/// | `direct` | alone: the kernel's own pair of devices, as fast as the machine, instead of emulated links |
/// | `through=0` | alone: another address over the links of path 0, so that both meet in one queue |
#[derive(Clone, PartialEq, Debug)]
pub struct PathSpec {
    /// From client to server.
    pub up: LinkConfig,
    /// From server to client.
    pub down: LinkConfig,
    /// Whether small packets are spared.
    pub data_only: bool,
    /// Whether nothing is emulated.
    pub direct: bool,
    /// The path whose links it goes through, if it has none of its own.
    pub through: Option<usize>,
    text: String,
}

/// Text that describes no path.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ParsePathError {
    /// A property of a link is wrong.
    #[error(transparent)]
    Link(#[from] ParseLinkError),
    /// A delay is wrong.
    #[error("{key}: {source}")]
    Delay {
        /// The key.
        key: String,
        /// What is wrong.
        source: ParseUnitError,
    },
    /// A queue in bandwidth-delay products without a rate, or no number.
    #[error(
        "queue: `{0}bdp` is no share of rate times round-trip time: give a rate, and a number such as 0.25bdp"
    )]
    Queue(String),
    /// Neither that small packets are spared nor that they are not.
    #[error("data-only: `{0}` is not `yes` or `no`")]
    DataOnly(String),
    /// A path without emulation that is to have properties.
    #[error("a path that is `direct` has no other properties: the machine is what it is")]
    NotAlone,
    /// A path over another one's links that is to have properties.
    #[error("`through` stands alone: rate, delay and losses are those of the path that it goes through")]
    ThroughNotAlone,
    /// No path's number.
    #[error("through: `{0}` is no path's number, from 0")]
    Through(String),
    /// More than anybody has.
    #[error("a path needs a delay of at most 10 s")]
    TooLong,
}

impl FromStr for PathSpec {
    type Err = ParsePathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim() == "direct" {
            return Ok(Self { direct: true, ..Self::without_links(text) });
        }
        if let Some(path) = text.trim().strip_prefix("through=").filter(|path| !path.contains(',')) {
            let through = path.trim().parse().map_err(|_| ParsePathError::Through(path.to_owned()))?;
            return Ok(Self { through: Some(through), ..Self::without_links(text) });
        }
        let mut parts = Parts::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            parts.item(item)?;
        }
        parts.finish(text)
    }
}

impl PathSpec {
    /// A path that is emulated by no links of its own.
    fn without_links(text: &str) -> Self {
        let [up, down] = [LinkConfig::new(), LinkConfig::new()];
        Self { up, down, data_only: false, direct: false, through: None, text: text.to_owned() }
    }

    /// Whether these paths can be those of one network.
    ///
    /// # Errors
    /// In words, if one goes through another that has no emulated links of its own, or stands behind it.
    pub fn check(paths: &[Self]) -> Result<(), String> {
        let has_links = |path: &Self| !path.direct && path.through.is_none();
        for (index, through) in
            paths.iter().enumerate().filter_map(|(index, path)| Some((index, path.through?)))
        {
            if through >= index || !has_links(&paths[through]) {
                return Err(format!(
                    "path {index} goes through path {through}: that must stand before it and have links of its own"
                ));
            }
        }
        Ok(())
    }
}

/// One direction while being read.
#[derive(Default)]
struct Side {
    /// What [`LinkConfig`] understands.
    items: Vec<String>,
    /// A share of the bandwidth-delay product.
    queue: Option<String>,
    /// Keys of which not all uses are among the items, where a second one would be found.
    given: Vec<String>,
}

impl Side {
    fn once(&mut self, key: &str) -> Result<(), ParsePathError> {
        if !matches!(key, "delay" | "queue") {
            return Ok(());
        }
        let key = key.to_owned();
        if self.given.contains(&key) {
            return Err(ParseLinkError::Twice { key }.into());
        }
        self.given.push(key);
        Ok(())
    }
}

#[derive(Default)]
struct Parts {
    up: Side,
    down: Side,
    delays: Vec<(Duration, Duration)>,
    data_only: bool,
}

impl Parts {
    fn item(&mut self, item: &str) -> Result<(), ParsePathError> {
        let (key, value) = item.split_once('=').unwrap_or((item, ""));
        let (key, value) = (key.trim(), value.trim());
        match key {
            "direct" => return Err(ParsePathError::NotAlone),
            "through" => return Err(ParsePathError::ThroughNotAlone),
            "data-only" => {
                self.data_only = match value {
                    "" | "yes" => true,
                    "no" => false,
                    other => return Err(ParsePathError::DataOnly(other.to_owned())),
                };
                return Ok(());
            }
            _ => {}
        }
        let (name, up, down) = match key {
            // Not a direction: where the loss is.
            "loss-at" => (key, true, true),
            "loss" | "burst" | "drop" | "replay" => (key, false, true),
            _ => match (key.strip_suffix("-up"), key.strip_suffix("-down")) {
                (Some(name), _) => (name, true, false),
                (_, Some(name)) => (name, false, true),
                _ => (key, true, true),
            },
        };
        for (side, _) in
            [(&mut self.up, up), (&mut self.down, down)].into_iter().filter(|(_, wanted)| *wanted)
        {
            side.once(name)?;
        }
        if up && down && (name == "delay" || name.starts_with("delay@")) {
            return self.delay(name, value);
        }
        let queue_in_bdp = if name == "queue" { value.strip_suffix("bdp") } else { None };
        for (side, wanted) in [(&mut self.up, up), (&mut self.down, down)] {
            match queue_in_bdp {
                _ if !wanted => {}
                Some(share) => side.queue = Some(share.trim().to_owned()),
                None if value.is_empty() => side.items.push(name.to_owned()),
                None => side.items.push(format!("{name}={value}")),
            }
        }
        Ok(())
    }

    /// A round-trip time, from the start or from a later moment on.
    fn delay(&mut self, key: &str, value: &str) -> Result<(), ParsePathError> {
        let wrong = |source| ParsePathError::Delay { key: key.to_owned(), source };
        let rtt: Duration = value.parse().map_err(wrong)?;
        let wrong = |source| ParsePathError::Delay { key: key.to_owned(), source };
        let after = match key.split_once('@') {
            Some((_, after)) => after.parse().map_err(wrong)?,
            None => Duration::ZERO,
        };
        if rtt > Duration::from_secs(10) {
            return Err(ParsePathError::TooLong);
        }
        self.delays.push((after, rtt));
        Ok(())
    }

    fn finish(self, text: &str) -> Result<PathSpec, ParsePathError> {
        let mut links = [LinkConfig::new(), LinkConfig::new()];
        for (side, link) in [&self.up, &self.down].into_iter().zip(&mut links) {
            *link = side.items.join(",").parse()?;
            for (after, rtt) in &self.delays {
                if after.is_zero() {
                    link.delay = *rtt / 2;
                } else {
                    link.schedule.push((*after, Change::Delay(*rtt / 2)));
                }
            }
        }
        let [mut up, mut down] = links;
        let rtt = up.delay + down.delay;
        for (link, share) in [(&mut up, self.up.queue), (&mut down, self.down.queue)] {
            let Some(share) = share else {
                // A link of its own would take twice its own delay for the round trip.
                if let (None, Some(rate)) = (link.queue, link.rate) {
                    link.queue = Some(QueueSize::Bytes(Bytes(rate.bytes_in(rtt).max(LEAST_QUEUE))));
                }
                continue;
            };
            let wrong = || ParsePathError::Queue(share.clone());
            let factor = share.parse::<f64>().ok().filter(|f| f.is_finite() && (0.0..=1e3).contains(f));
            let (factor, rate) = factor.zip(link.rate).ok_or_else(wrong)?;
            let bytes = (rate.bytes_in(rtt) as f64 * factor) as u64;
            link.queue = Some(QueueSize::Bytes(Bytes(bytes)));
        }
        Ok(PathSpec { up, down, data_only: self.data_only, ..PathSpec::without_links(text) })
    }
}

impl fmt::Display for PathSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use netsim::{Loss, loss::GilbertElliott};
    use units::{BitRate, LossRate};

    use super::*;

    #[test]
    fn delay_is_round_trip_and_loss_is_towards_the_client() {
        let spec: PathSpec = "rate=50mbit, delay=20ms, loss=2%, jitter=5ms".parse().unwrap();
        let half = Duration::from_millis(10);
        assert_eq!((spec.up.delay, spec.down.delay), (half, half));
        assert_eq!(spec.up.loss, Loss::None);
        assert_eq!(spec.down.loss, Loss::Bernoulli(LossRate::new(0.02).unwrap()));
        assert_eq!(spec.up.jitter, spec.down.jitter);
        assert_eq!(spec.to_string(), "rate=50mbit, delay=20ms, loss=2%, jitter=5ms");
    }

    #[test]
    fn a_chain_is_said_of_one_direction() {
        let spec: PathSpec =
            "rate=50mbit,delay=40ms,queue=1bdp,gilbert-down=0.005/0.3/0.5/0".parse().unwrap();
        let [good_to_bad, bad_to_good, loss_in_bad] = [0.005, 0.3, 0.5].map(|p| LossRate::new(p).unwrap());
        let chain = GilbertElliott { good_to_bad, bad_to_good, loss_in_bad, loss_in_good: LossRate::ZERO };
        assert_eq!(spec.down.loss, Loss::GilbertElliott(chain));
        assert_eq!(spec.up.loss, Loss::None);
    }

    #[test]
    fn directions_can_differ() {
        let text = "rate-down=50mbit,rate-up=5mbit,delay=40ms,loss-up=1%,drop=3/5,data-only,outage=1s-2s,delay@3s=100ms";
        let spec: PathSpec = text.parse().unwrap();
        assert_eq!(spec.up.rate, Some(BitRate::from_mbps(5)));
        assert_eq!(spec.down.rate, Some(BitRate::from_mbps(50)));
        assert_eq!(spec.up.loss, Loss::Bernoulli(LossRate::new(0.01).unwrap()));
        assert_eq!(spec.down.loss, Loss::nth([3, 5]));
        assert!(spec.data_only);
        let later = (Duration::from_secs(3), Change::Delay(Duration::from_millis(50)));
        assert!(spec.up.schedule.contains(&later) && spec.down.schedule.contains(&later));
    }

    #[test]
    fn queues_in_bandwidth_delay_products() {
        let queue = |text: &str| text.parse::<PathSpec>().map(|spec| spec.down.queue);
        let bytes = |n| Ok(Some(QueueSize::Bytes(Bytes(n))));
        assert_eq!(queue("rate=25mbit,delay=25ms,queue=1bdp"), bytes(78_125));
        assert_eq!(queue("queue=0.25bdp,rate=25mbit,delay=25ms"), bytes(19_531));
        assert_eq!(queue("rate=25mbit,delay=25ms,queue=52p"), Ok(Some(QueueSize::Packets(52))));
        let error = queue("delay=25ms,queue=1bdp").unwrap_err().to_string();
        assert!(error.contains("give a rate"), "{error}");
    }

    #[test]
    fn without_a_queue_there_is_one_of_a_round_trip() {
        let queues = |text: &str| {
            let spec: PathSpec = text.parse().unwrap();
            [spec.up, spec.down].map(|link| link.queue_size())
        };
        let bytes = |n| QueueSize::Bytes(Bytes(n));
        // Half of it in either direction, an odd number of nanoseconds, and most of it in one.
        for delays in ["delay=25ms", "delay=25000001ns", "delay-up=1ms,delay-down=24ms"] {
            assert_eq!(queues(&format!("rate=25mbit,{delays}")), [bytes(78_125); 2], "{delays}");
        }
        assert_eq!(queues("rate-down=25mbit,rate-up=1mbit,delay-up=1ms"), [bytes(48_000); 2]);
        assert_eq!(queues("delay-up=1ms,delay-down=24ms"), [bytes(1_000_000); 2]);
        assert_eq!(queues("rate=25mbit,queue=5p,delay-up=25ms"), [QueueSize::Packets(5); 2]);
    }

    #[test]
    fn errors_teach() {
        let error = |text: &str| text.parse::<PathSpec>().unwrap_err().to_string();
        assert!(error("speed=1").starts_with("`speed` is no property of a link"));
        assert!(error("delay=20").starts_with("delay: `20` is not a time"));
        assert!(error("delay=20s").contains("at most 10 s"));
        for twice in [
            "loss=2%,loss=3%",
            "delay=2ms,delay=3ms",
            "delay-up=2ms,delay=3ms",
            "rate=1mbit,delay=2ms,queue=1bdp,queue-down=5p",
        ] {
            assert!(error(twice).contains("is given twice"), "{twice}");
        }
        assert_eq!(error("data-only=maybe"), "data-only: `maybe` is not `yes` or `no`");
        assert!("data-only=no".parse::<PathSpec>().is_ok_and(|spec| !spec.data_only));
        assert!(error("direct,loss=2%").contains("no other properties"));
        assert!("direct".parse::<PathSpec>().is_ok_and(|spec| spec.direct));
        assert!(error("through=0,loss=2%").contains("stands alone"));
        assert!(error("loss=2%,through=0").contains("stands alone"));
        assert_eq!(error("through=first"), "through: `first` is no path's number, from 0");
    }

    #[test]
    fn a_path_goes_through_one_with_links_that_stands_before_it() {
        let check = |texts: &[&str]| {
            let paths: Vec<PathSpec> = texts.iter().map(|text| text.parse().unwrap()).collect();
            PathSpec::check(&paths)
        };
        assert_eq!(check(&["rate=5mbit", "through=0", "delay=2ms", "through=2"]), Ok(()));
        for wrong in [&["through=0"][..], &["through=1", ""], &["", "through=2"], &["direct", "through=0"]] {
            assert!(check(wrong).unwrap_err().contains("links of its own"), "{wrong:?}");
        }
        assert!(
            check(&["", "through=0", "through=1"]).unwrap_err().starts_with("path 2 goes through path 1")
        );
    }
}
