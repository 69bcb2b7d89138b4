//! A station behind an access point: pairs of hosts over one radio channel, as a link of the rate
//! that 802.11b leaves to one sender. Hosts: `left` (servers), `right` (stations). Links: `air`
//! (forward to the stations), `access`.
//!
//! Keys: `air_mbps`, the rate at which frames are on the air; `rtt_us`; `queue_packets` (50);
//! `pairs` (1). A packet of 1,500 bytes takes [`OVERHEAD`] besides its time on the air, and the
//! link's rate is what that leaves. The way back has the same rate of its own: the collisions of
//! data and acknowledgements of one channel are not modelled.

use netsim::fabric::topology::Dumbbell;
use plans::{Keys, PlanError};
use units::{BitRate, Duration};

use super::Network;

/// What 802.11b adds to every frame: DIFS (50 us), half of a window of 31 slots of 20 us, a long
/// preamble (192 us), SIFS (10 us) and the acknowledgement at 1 Mbit/s with its own preamble (304
/// us). IEEE 802.11-1999 and 802.11b-1999, section 18.
const OVERHEAD: Duration = Duration::from_micros(50 + 310 + 192 + 10 + 304);
/// The rate is that for packets of this size.
const PACKET: u64 = 1_500;

/// What is left of `air` for packets of 1,500 bytes.
fn net_rate(air: BitRate) -> BitRate {
    let time = air.time_to_send(PACKET) + OVERHEAD;
    BitRate((PACKET as f64 * 8.0 / time.as_secs_f64()).round() as u64)
}

pub(super) fn build(keys: &mut Keys<'_>) -> Result<Network, PlanError> {
    let pairs = keys.count("pairs", 1..=100_000)?.unwrap_or(1);
    let rtt = Duration::from_secs_f64(keys.float("rtt_us", 0.0..=1e8)?.unwrap_or(10_000.0) / 1e6);
    let air = keys.float("air_mbps", 0.1..=1e5)?;
    let air = keys.need("air_mbps", air, "the rate at which frames are on the air")?;
    let queue = keys.count("queue_packets", 1..=u32::MAX)?.unwrap_or(50);
    let network = Dumbbell::new(pairs, net_rate(BitRate((air * 1e6).round() as u64)), rtt, queue);
    let topology = network.build();
    let links = |level| topology.links_at(level).collect();
    Ok(Network {
        hosts: vec![("all", 0..2 * pairs), ("left", 0..pairs), ("right", pairs..2 * pairs)],
        links: vec![("air", links(1)), ("access", links(0))],
        access: network.access.rate,
        topology,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_eleven_megabits_are_left() {
        // 1,091 us on the air and 866 us around it.
        assert_eq!(net_rate(BitRate::from_mbps(11)).0 / 1_000, 6_132);
        assert!(net_rate(BitRate::from_mbps(1)).0 > 930_000);
    }
}
