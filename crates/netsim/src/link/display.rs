//! Links as text that parses back to the same link.

use std::fmt::{self, Display};

use units::{BitRate, Duration};

use super::{Change, LinkConfig, LossPoint, OutageKind, QueueSize};
use crate::Loss;

/// The form that [`FromStr`](LinkConfig#impl-FromStr-for-LinkConfig) reads, to the last nanosecond
/// and bit; a perfect wire is the empty text. Left out, because the form has no word for them: the
/// capacity, an unlimited rate at a given time, and outages without an end.
impl Display for LinkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut items: Vec<String> = Vec::new();
        items.extend(self.rate.map(|r| format!("rate={}", rate(r))));
        if !self.delay.is_zero() {
            items.push(format!("delay={}", exact(self.delay)));
        }
        if !self.jitter.is_zero() {
            items.push(format!("jitter={}", exact(self.jitter)));
        }
        if self.reorder {
            items.push("reorder".to_owned());
        }
        items.extend(loss(&self.loss));
        if self.loss_point == LossPoint::AfterRate {
            items.push("loss-at=after".to_owned());
        }
        items.extend(self.queue.map(|q| format!("queue={}", size(q))));
        items.extend(self.ecn_threshold.map(|q| format!("ecn={}", size(q))));
        if self.duplicate.get() > 0.0 {
            items.push(format!("duplicate={}", self.duplicate.get()));
        }
        schedule(&self.schedule, &mut items);
        f.write_str(&items.join(","))
    }
}

/// A time in the largest unit that needs no fraction.
fn exact(time: Duration) -> String {
    let nanos = time.as_nanos();
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let unit = units.into_iter().find(|(_, n)| nanos.is_multiple_of(*n));
    unit.map_or_else(|| format!("{nanos}ns"), |(name, n)| format!("{}{name}", nanos / n))
}

fn rate(rate: BitRate) -> String {
    let units = [("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000)];
    let unit = units.into_iter().find(|(_, n)| rate.0.is_multiple_of(*n));
    unit.map_or_else(|| format!("{}bit", rate.0), |(name, n)| format!("{}{name}", rate.0 / n))
}

fn size(size: QueueSize) -> String {
    match size {
        QueueSize::Packets(n) => format!("{n}p"),
        QueueSize::Bytes(bytes) => bytes.0.to_string(),
    }
}

fn loss(loss: &Loss) -> Option<String> {
    match loss {
        // Interference and what programs bring along have no keys of their own: they are for fabrics.
        Loss::None | Loss::Interference(_) | Loss::Custom(_) => None,
        Loss::Bernoulli(rate) => Some(format!("loss={}", rate.get())),
        Loss::GilbertElliott(c) => {
            let parts = [c.good_to_bad, c.bad_to_good, c.loss_in_bad, c.loss_in_good];
            Some(format!("gilbert={}", parts.map(|p| p.get().to_string()).join("/")))
        }
        Loss::Recorded(recording) => Some(format!("replay={}", recording.file())),
        Loss::Nth(packets) => {
            let packets: Vec<String> = packets.iter().map(u64::to_string).collect();
            Some(format!("drop={}", packets.join("/")))
        }
    }
}

fn schedule(changes: &[(Duration, Change)], items: &mut Vec<String>) {
    for (i, (at, change)) in changes.iter().enumerate() {
        match change {
            Change::Rate(Some(new)) => items.push(format!("rate@{}={}", exact(*at), rate(*new))),
            Change::Delay(new) => items.push(format!("delay@{}={}", exact(*at), exact(*new))),
            Change::OutageBegins(kind) => {
                let ends = |(_, c): &&(Duration, Change)| *c == Change::OutageEnds(*kind);
                let Some((end, _)) = changes[i..].iter().find(ends) else { continue };
                let name = if *kind == OutageKind::Hold { "hold" } else { "outage" };
                items.push(format!("{name}={}-{}", exact(*at), exact(*end)));
            }
            Change::Rate(None) | Change::OutageEnds(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use units::{Bytes, LossRate};

    use super::*;
    use crate::loss::GilbertElliott;

    #[test]
    fn text_parses_back_to_the_same_link() {
        let third = LossRate::new(1.0 / 3.0).unwrap();
        let every = LinkConfig::new()
            .rate(BitRate(12_345_678))
            .delay(Duration::from_nanos(1_234_567_891))
            .jitter(Duration::from_micros(7))
            .reordering(true)
            .loss(Loss::GilbertElliott(GilbertElliott::from_stationary(third, 3.7).unwrap()))
            .loss_point(LossPoint::AfterRate)
            .queue(QueueSize::Packets(3))
            .ecn_threshold(QueueSize::Bytes(Bytes(12_345)))
            .duplicate(LossRate::new(0.012_345_678_9).unwrap())
            .outage(Duration::from_secs(1), Duration::from_millis(1_001), OutageKind::Hold)
            .outage(Duration::from_secs(1), Duration::from_secs(2), OutageKind::Drop)
            .change(Duration::from_secs(3), Change::Rate(Some(BitRate(1_000_000_000))))
            .change(Duration::from_secs(4), Change::Delay(Duration::from_nanos(999)));
        let others = [
            LinkConfig::new(),
            LinkConfig::new().random_loss(third),
            LinkConfig::new().loss(Loss::nth([3, 9])),
            "replay=src/loss/recorded.txt".parse().unwrap(),
        ];
        for link in others.into_iter().chain([every]) {
            let text = link.to_string();
            assert_eq!(text.parse(), Ok(link), "{text}");
        }
        let usual = LinkConfig::new().rate(BitRate::from_mbps(50)).delay(Duration::from_millis(20));
        assert_eq!(usual.to_string(), "rate=50mbit,delay=20ms");
    }
}
