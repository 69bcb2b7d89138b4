//! What the demonstration compares.

use mendpath::{ControllerKind, RecoveryKind, TransportConfig};
use netsim::Seed;
use serde::Serialize;
use units::{BitRate, Bytes, Duration, LossRate};

use super::PathSpec;

/// What the demonstration compares.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// The emulated paths, the first of which carries the handshake.
    pub paths: Vec<PathSpec>,
    /// The size of each response.
    pub size: Bytes,
    /// Responses per row.
    pub count: u32,
    /// The schemes to compare over all paths.
    pub recovery: Vec<RecoveryKind>,
    /// The congestion controller of every path.
    pub congestion: ControllerKind,
    /// UDP payload of a full packet in bytes, 1,200 to 1,472. 1,452 fits an IPv4 or IPv6 packet of
    /// 1,500 bytes.
    pub datagram: u16,
    /// From which all losses derive.
    pub seed: u64,
    /// Responses under way at a time, each on links of its own.
    pub lanes: usize,
    /// Whose time passes.
    pub clock: Clock,
}

/// What the demonstration runs on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Real endpoints, UDP sockets and emulated links on this machine, whose noise shows.
    #[default]
    Real,
    /// The same transport on simulated links in virtual time: as fast as the processor allows, and
    /// the same numbers every time.
    Virtual,
}

impl Default for DemoOptions {
    fn default() -> Self {
        use RecoveryKind::{Auto, Cofuso, Fuso, None, Proactive};
        Self {
            paths: default_paths(),
            size: Bytes(60_000),
            count: 200,
            recovery: vec![None, Proactive, Fuso, Cofuso, Auto],
            congestion: ControllerKind::Auto,
            datagram: 1_452,
            seed: 1,
            lanes: 12,
            clock: Clock::Real,
        }
    }
}

impl DemoOptions {
    /// The transport of both sides. The packet size is given, since a connection that lives for one
    /// response has no time to find it out.
    pub(super) fn transport(&self, recovery: RecoveryKind) -> TransportConfig {
        TransportConfig {
            recovery,
            controller: self.congestion,
            initial_datagram_size: self.datagram,
            max_datagram_size: self.datagram,
            ..TransportConfig::default()
        }
    }

    /// From which the path at `place` draws what it loses of the `index`-th response: the same in every
    /// row, and nothing that another path draws. The last path, of two often the only one that loses, has
    /// the response's own seed.
    pub(super) fn seed_of(&self, index: u32, place: usize) -> Seed {
        let seed = Seed(self.seed).child("response", index.into());
        match self.paths.len().saturating_sub(place + 1) {
            0 => seed,
            from_last => seed.child("path", from_last as u64),
        }
    }
}

/// Two paths of 100 Mbit/s and 50 ms round trip, of which the second loses 2 % from server to
/// client.
pub fn default_paths() -> Vec<PathSpec> {
    let clean = PathSpec::new(BitRate::from_mbps(100), Duration::from_millis(50));
    let lossy = PathSpec { loss: LossRate::new(0.02).expect("2 % is a probability"), ..clean.clone() };
    vec![clean, lossy]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_loses_what_another_loses() {
        let paths = [default_paths(), default_paths()].concat();
        let options = DemoOptions { paths, ..DemoOptions::default() };
        let first = |place| options.seed_of(3, place).child("down", 0).stream("loss").next_u64();
        let mut drawn = [0, 1, 2, 3].map(first).to_vec();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 4);
    }
}
