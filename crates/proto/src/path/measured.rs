//! What was found out about the network between two addresses: it stays behind when the path moves
//! elsewhere.

use core::num::NonZeroU32;

use congestion::{Careful, Controller};
use recovery::loss_history::LossHistory;
use units::{Duration, Instant};

use super::{
    Path, ecn::PathEcn, mtu::MtuSearch, pacer::Pacer, rtt::RttEstimator, sent::Epoch, steadiness::Steadiness,
};
use crate::{NetworkPath, PathStore, config::TransportConfig, path_store::Remembered};

/// Least round-trip time that is assumed of a path which an earlier connection knew: ends need time
/// for the handshake, too, and a probe timeout of three of these is soon enough.
const LEAST_INITIAL_RTT: Duration = Duration::from_millis(50);
/// The most that is assumed, unless the configuration says more. What an earlier connection measured while a
/// host stood still, or behind seconds of queue, would keep a lost first packet from being sent again before
/// everybody has given up.
const MOST_INITIAL_RTT: Duration = Duration::from_secs(1);

/// Round-trip time, window and datagram size between two addresses, and what is in flight there.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(super) epoch: Epoch,
    /// Bytes in flight, all packet number spaces together.
    pub(super) in_flight: u64,
    pub(super) rtt: RttEstimator,
    pub(super) controller: Box<dyn Controller>,
    /// Whether the controller has yet to be told what an earlier connection saw of the path.
    pub(super) resumes: bool,
    pub(super) pacer: Pacer,
    pub(super) mtu: MtuSearch,
    pub(super) ecn: PathEcn,
    /// How it loses, remembered for the next connections.
    pub(super) history: LossHistory,
    pub(super) steadiness: Steadiness,
    /// Its first round trip in microseconds, until the next connections are told.
    began_with: Option<NonZeroU32>,
}

/// More than any path holds; what is computed with the window is far from overflowing.
const MAX_INITIAL_WINDOW_PACKETS: u64 = 1 << 20;

impl Measured {
    /// Nothing yet.
    pub(super) fn new(config: &TransportConfig, network: &NetworkPath, now: Instant, epoch: Epoch) -> Self {
        let mtu = MtuSearch::new(config.initial_datagram_size, config.max_datagram_size);
        let size = u64::from(mtu.current());
        let Remembered { history, rtt, load, .. } = config.path_store.recall(network);
        let load = load.fresh(now);
        let initial_window_packets = config.initial_window_packets.min(MAX_INITIAL_WINDOW_PACKETS);
        let limits = congestion::Config {
            initial_window_packets,
            max_datagram_size: size,
            ..congestion::Config::default()
        };
        let mut controller: Box<dyn Controller> = match config.careful_resume {
            true => Box::new(Careful::new(config.controller, &limits)),
            false => config.controller.build(&limits),
        };
        controller.recall(&load);
        let pacer = Pacer::new(now, initial_window_packets, size);
        let default_rtt = Duration::from(config.initial_rtt);
        let most = MOST_INITIAL_RTT.max(default_rtt);
        let initial_rtt = rtt.map_or(default_rtt, |rtt| rtt.clamp(LEAST_INITIAL_RTT, most));
        let rtt = RttEstimator::new(initial_rtt).with_known_base(load.base_rtt());
        let ecn = PathEcn::new(config.ecn);
        Self {
            epoch,
            in_flight: 0,
            rtt,
            controller,
            resumes: config.careful_resume,
            pacer,
            mtu,
            ecn,
            history,
            steadiness: Steadiness::default(),
            began_with: None,
        }
    }

    /// Bytes left the path: answered, lost, or given up.
    pub(super) fn leave_flight(&mut self, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    /// Takes a sample of the round-trip time, and the delay that the peer says it has added.
    pub(super) fn on_round_trip(&mut self, now: Instant, sample: Duration, ack_delay: Duration) {
        if self.rtt.first_sample_at().is_none() {
            self.began_with = NonZeroU32::new(sample.saturating_micros());
        }
        self.rtt.update(now, sample, ack_delay);
    }

    /// Its first round trip, once.
    pub(super) fn take_beginning(&mut self) -> Option<Duration> {
        self.began_with.take().map(|micros| Duration::from_micros(micros.get().into()))
    }

    /// Whether the next connections have yet to be told of its first round trip.
    pub(super) fn has_beginning(&self) -> bool {
        self.began_with.is_some()
    }

    /// The controller and the pacer hear of the size that datagrams have now.
    pub(super) fn tell_mtu(&mut self) {
        let size = u64::from(self.mtu.current());
        self.controller.on_mtu(size);
        self.pacer.on_mtu(size);
    }
}

impl Path {
    /// Has the controller begin with what earlier connections have seen the path carry, once the
    /// peer has answered over it: an address that only somebody else claims to have takes nothing.
    pub(crate) fn resume(&mut self, store: &PathStore) {
        let measured = &self.recovery.measured;
        if !measured.resumes || measured.rtt.first_sample_at().is_none() {
            return;
        }
        let carried = store.take_carried(&self.network());
        let measured = &mut self.recovery.measured;
        measured.resumes = false;
        if let Some(carried) = carried {
            measured.controller.resume_from(carried);
        }
    }

    /// Puts other measurements in place of the present ones, which it returns.
    pub(super) fn swap_measured(&mut self, new: Measured) -> Measured {
        self.recovery.forget_reordering();
        self.space.lost = Default::default();
        core::mem::replace(&mut self.recovery.measured, new)
    }

    /// Puts old measurements back; what was in flight then and has been answered since counts no
    /// more, and is not waited for.
    pub(super) fn restore(&mut self, old: Measured) {
        self.swap_measured(old);
        let measured = &mut self.recovery.measured;
        let (epoch, carried) = (measured.epoch, measured.mtu.current());
        let here = || self.space.sent.iter().map(|(_, packet)| packet).filter(move |p| p.epoch == epoch);
        measured.in_flight = here().filter(|p| p.is_in_flight()).map(|p| u64::from(p.size)).sum();
        if !here().any(|p| p.probes_mtu(carried)) {
            measured.mtu.forget_probe();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::{
        PacketPurpose,
        crypto::Level,
        path::{
            loss::LossOutcome,
            sending::NewPacket,
            sent::SentFrames,
            source::Source,
            space::{Space, test_support::at},
        },
        path_store::Finding,
        wire::{ConnectionId, PathId},
    };

    /// It was lost, or arrived, while the path ran elsewhere: the search waited for it ever after.
    #[test]
    fn a_probe_whose_fate_nobody_saw_does_not_end_the_search() {
        let network = |host: u8| NetworkPath {
            local: SocketAddr::from(([10, 0, 0, 1], 443)),
            remote: SocketAddr::from(([10, 0, 0, host], 1_000)),
        };
        let config = TransportConfig::default();
        let mut path = Path::new(PathId::ZERO, network(2), &config, at(0));
        path.open();
        path.trust_address();
        let size = path.mtu_probe(at(0)).unwrap();
        let probe = NewPacket {
            number: 0,
            level: Level::OneRtt,
            size: size.into(),
            purpose: PacketPurpose::MtuProbe,
            ack_eliciting: true,
            frames: SentFrames::default(),
            source: Source::Nothing,
        };
        path.on_packet_sent(at(0), Space::Data, probe);
        assert_eq!(path.mtu_probe(at(1)), None, "one at a time");
        path.move_to(at(1), network(3), ConnectionId::EMPTY, &config, None);
        path.give_up(at(2), 0, Duration::ZERO, &[], &mut LossOutcome::default());
        assert!(path.move_back().is_some());
        assert_eq!(path.mtu_probe(at(3)), Some(size));
    }

    /// What is assumed of a path for which an earlier connection had a smoothed round-trip time of so many ms.
    fn assumed(config: &TransportConfig, known_ms: u64) -> Duration {
        let end = |port: u16| ([127, 0, 0, 1], port).into();
        let network = NetworkPath { local: end(1), remote: end(2) };
        let known = Remembered { rtt: Some(Duration::from_millis(known_ms)), ..Remembered::new() };
        let found = Finding { now: Instant::ORIGIN, began_with: None, evidence: 0.0 };
        config.path_store.remember(&network, known, &found);
        Measured::new(config, &network, Instant::ORIGIN, Epoch::default()).rtt.smoothed()
    }

    #[test]
    fn what_a_host_that_stood_still_has_measured_is_not_waited_for() {
        let config = TransportConfig::default();
        let known = [5, 60, 700, 75_000].map(|ms| assumed(&config, ms));
        assert_eq!(known, [50, 60, 700, 1_000].map(Duration::from_millis));
        let patient = TransportConfig { initial_rtt: core::time::Duration::from_secs(3), ..config };
        assert_eq!(assumed(&patient, 75_000), Duration::from_secs(3));
    }
}
