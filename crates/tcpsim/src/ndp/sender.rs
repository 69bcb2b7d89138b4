//! NDP's sending end: tokens, what to send next, and the timeouts that hardly anything needs.

use std::collections::{BTreeMap, BTreeSet};

use netsim::{Rng, Seed};
use units::Instant;

use super::MAX_PATHS;
use crate::{Tcp, rtt::RttEstimator};

/// A packet to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sending {
    pub(super) seq: u32,
    /// Its payload if it is the last of what was written in one go; the others are full.
    pub(super) tail: Option<u16>,
    pub(super) again: bool,
    pub(super) path: u8,
}

/// Paths in an order that is drawn anew after each round.
#[derive(Debug)]
struct Paths {
    order: [u8; MAX_PATHS as usize],
    count: u8,
    at: u8,
    rng: Rng,
}

impl Paths {
    fn new(count: u8, conn: u32) -> Self {
        let mut order = [0; MAX_PATHS as usize];
        (0..).zip(&mut order).for_each(|(path, place)| *place = path);
        Self { order, count, at: count, rng: Rng::new(Seed(conn.into()).child("ndp paths", 0)) }
    }

    fn next(&mut self) -> u8 {
        if self.at >= self.count {
            self.at = 0;
            for n in (1..usize::from(self.count)).rev() {
                self.order.swap(n, self.rng.below(n as u64 + 1) as usize);
            }
        }
        self.at += 1;
        self.order[usize::from(self.at) - 1]
    }
}

/// What is known of a packet that was sent and not answered.
#[derive(Clone, Copy, Debug)]
struct Out {
    /// When it left the host.
    left: Instant,
    /// It was sent more than once: its answer gives no round-trip time (RFC 6298 section 3).
    again: bool,
}

#[derive(Debug)]
pub(super) struct Sender {
    window: u32,
    /// Packets that may be sent now.
    tokens: u32,
    /// The highest PULL's number.
    pulled: u32,
    next: u32,
    end: u32,
    /// The last packets of what was written, and their payloads, until acknowledged.
    tails: BTreeMap<u32, u16>,
    out: BTreeMap<u32, Out>,
    /// NACKed, and not sent again yet.
    wanted: BTreeSet<u32>,
    rtt: RttEstimator,
    /// When the receiver was last heard of, or something was sent because it was not.
    heard: Instant,
    paths: Paths,
}

impl Sender {
    pub(super) fn new(window: u32, paths: u8, conn: u32) -> Self {
        Self {
            window,
            tokens: window,
            pulled: 0,
            next: 0,
            end: 0,
            tails: BTreeMap::new(),
            out: BTreeMap::new(),
            wanted: BTreeSet::new(),
            rtt: RttEstimator::default(),
            heard: Instant::ORIGIN,
            paths: Paths::new(paths, conn),
        }
    }

    pub(super) fn tokens(&self) -> u32 {
        self.tokens
    }

    pub(super) fn next_number(&self) -> u32 {
        self.next
    }

    /// Whether all that was written is acknowledged.
    pub(super) fn is_idle(&self) -> bool {
        self.out.is_empty() && self.wanted.is_empty() && self.next == self.end
    }

    /// The application writes so many packets, the last of which has a payload of `tail` bytes. The
    /// number behind it.
    pub(super) fn write(&mut self, now: Instant, packets: u32, tail: u16) -> u32 {
        if self.is_idle() {
            (self.tokens, self.heard) = (self.window, now);
        }
        self.end = self.end.saturating_add(packets);
        self.tails.insert(self.end - 1, tail);
        self.end
    }

    /// The next packet, if there is one and a token: one that the receiver asks for again, or a new
    /// one.
    pub(super) fn next(&mut self) -> Option<Sending> {
        if self.tokens == 0 {
            return None;
        }
        let sending = self.choose()?;
        self.tokens -= 1;
        Some(sending)
    }

    fn choose(&mut self) -> Option<Sending> {
        if let Some(seq) = self.wanted.pop_first() {
            return Some(self.sending(seq, true));
        }
        let seq = self.next;
        (seq < self.end).then(|| {
            self.next += 1;
            self.sending(seq, false)
        })
    }

    fn sending(&mut self, seq: u32, again: bool) -> Sending {
        Sending { seq, tail: self.tails.get(&seq).copied(), again, path: self.paths.next() }
    }

    /// A packet was handed to the host's port, which it leaves at `left`.
    pub(super) fn on_sent(&mut self, seq: u32, left: Instant, again: bool) {
        self.out.insert(seq, Out { left, again });
    }

    fn hear(&mut self, now: Instant) {
        self.heard = now;
        self.rtt.reset_backoff();
    }

    /// The receiver has a packet; `complete` if it has all, and has dropped its PULLs.
    pub(super) fn on_ack(&mut self, now: Instant, seq: u32, complete: bool) {
        self.hear(now);
        self.wanted.remove(&seq);
        self.tails.remove(&seq);
        if let Some(out) = self.out.remove(&seq)
            && !out.again
        {
            self.rtt.sample(now.saturating_duration_since(out.left));
        }
        if complete {
            self.tokens = self.window.saturating_sub(self.out.len() as u32);
        }
    }

    /// The receiver has a packet's header, and wants it again.
    pub(super) fn on_nack(&mut self, now: Instant, seq: u32) {
        self.hear(now);
        if self.out.remove(&seq).is_some() {
            self.wanted.insert(seq);
        }
    }

    /// The receiver wants as many packets as `number` is above the last such.
    pub(super) fn on_pull(&mut self, now: Instant, number: u32) {
        self.hear(now);
        let more = number.wrapping_sub(self.pulled);
        if more <= u32::MAX / 2 {
            self.pulled = number;
            self.tokens = self.tokens.saturating_add(more).min(self.window);
        }
    }

    /// When the first timeout is: of a packet that is not answered, or of silence while there is
    /// something to send and no token.
    pub(super) fn deadline(&self, tcp: &Tcp) -> Instant {
        if self.is_idle() {
            return Instant::MAX;
        }
        let first = self.out.values().map(|out| out.left).min();
        // Before the first answer the smallest, not TCP's second: in a network that trims, answers
        // take a round trip and short queues.
        first.unwrap_or(self.heard).max(self.heard) + self.rtt.rto_or(tcp, tcp.min_rto)
    }

    /// The deadline is here: what is sent without a token.
    pub(super) fn on_deadline(&mut self, tcp: &Tcp, now: Instant) -> Option<Sending> {
        if self.deadline(tcp) > now {
            return None;
        }
        self.heard = now;
        self.rtt.back_off();
        let oldest = self.out.iter().min_by_key(|(seq, out)| (out.left, **seq)).map(|(seq, _)| *seq);
        match oldest {
            Some(seq) => Some(self.sending(seq, true)),
            None => self.choose(),
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ORIGIN + Duration::from_micros(us)
    }

    fn tcp() -> Tcp {
        Tcp { min_rto: Duration::from_millis(5), ..Tcp::default() }
    }

    /// Sends what may be sent, which leaves at once.
    fn send(sender: &mut Sender, now: Instant) -> Vec<u32> {
        let mut sent = Vec::new();
        while let Some(sending) = sender.next() {
            sender.on_sent(sending.seq, now, sending.again);
            sent.push(sending.seq);
        }
        sent
    }

    #[test]
    fn a_window_is_pushed_and_the_rest_is_pulled() {
        let mut sender = Sender::new(4, 3, 0);
        assert_eq!(sender.write(at(0), 9, 100), 9);
        assert_eq!(send(&mut sender, at(0)), [0, 1, 2, 3]);
        sender.on_ack(at(300), 0, false);
        sender.on_nack(at(300), 2);
        assert_eq!(send(&mut sender, at(300)), [], "neither is a PULL");
        sender.on_pull(at(310), 1);
        assert_eq!(send(&mut sender, at(310)), [2], "first what is wanted again");
        // The second PULL is lost; the third says so.
        sender.on_pull(at(340), 3);
        assert_eq!(send(&mut sender, at(340)), [4, 5]);
        sender.on_pull(at(341), 2);
        assert_eq!(send(&mut sender, at(341)), []);
        assert_eq!(sender.tails.get(&8), Some(&100));
    }

    #[test]
    fn a_pull_that_overtakes_its_nack_is_kept() {
        let mut sender = Sender::new(2, 3, 0);
        sender.write(at(0), 2, 100);
        send(&mut sender, at(0));
        sender.on_pull(at(300), 1);
        assert_eq!(send(&mut sender, at(300)), []);
        sender.on_nack(at(301), 1);
        assert_eq!(send(&mut sender, at(301)), [1]);
        // No more are kept than a window.
        sender.on_pull(at(302), 99);
        assert_eq!(sender.tokens(), 2);
    }

    #[test]
    fn what_comes_later_is_pushed_again() {
        let mut sender = Sender::new(2, 3, 0);
        sender.write(at(0), 2, 100);
        send(&mut sender, at(0));
        sender.on_ack(at(300), 0, false);
        // While a packet is out, there is no token; when the receiver has all, it waits for no PULL.
        sender.write(at(310), 5, 100);
        assert_eq!(send(&mut sender, at(310)), []);
        sender.on_ack(at(320), 1, true);
        assert_eq!(send(&mut sender, at(320)), [2, 3]);
        for seq in 2..7 {
            sender.on_pull(at(400), seq - 1);
            send(&mut sender, at(400));
            sender.on_ack(at(400), seq, seq == 6);
        }
        assert!(sender.is_idle() && sender.deadline(&tcp()) == Instant::MAX);
        sender.write(at(900), 9, 100);
        assert_eq!(send(&mut sender, at(900)), [7, 8]);
    }

    #[test]
    fn a_packet_without_an_answer_and_silence_have_timeouts() {
        let mut sender = Sender::new(2, 3, 0);
        sender.write(at(0), 4, 100);
        send(&mut sender, at(0));
        sender.on_ack(at(300), 1, false);
        assert_eq!(sender.deadline(&tcp()), at(5_300));
        assert_eq!(sender.on_deadline(&tcp(), at(5_299)), None);
        let again = sender.on_deadline(&tcp(), at(5_300)).unwrap();
        assert_eq!((again.seq, again.again), (0, true));
        sender.on_sent(0, at(5_300), true);
        assert_eq!(sender.deadline(&tcp()), at(15_300), "backed off");
        // Nothing is out any more, and the PULLs of both were lost.
        sender.on_ack(at(5_600), 0, false);
        assert_eq!(sender.rtt.latest, Duration::from_micros(300), "of the first only");
        assert_eq!(sender.deadline(&tcp()), at(10_600));
        let probe = sender.on_deadline(&tcp(), at(10_600)).unwrap();
        assert_eq!((probe.seq, probe.again), (2, false));
    }

    #[test]
    fn each_round_takes_every_path_once() {
        let mut paths = Paths::new(3, 5);
        let rounds: Vec<Vec<u8>> = (0..40).map(|_| (0..3).map(|_| paths.next()).collect()).collect();
        for round in &rounds {
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2]);
        }
        assert!(rounds.iter().any(|round| *round != rounds[0]));
    }
}
