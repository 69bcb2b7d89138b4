//! Long flows of two kinds over one bottleneck, all from the start: `measured` flows of `bytes`
//! each are looked at, beside `rivals` that outlast them: the run ends with the last of the
//! measured ones. `measured_scheme` and `rival_scheme` are `scheme` or `tcp` (plain TCP with the
//! plan's parameters). The n-th flow goes from the n-th host of `from` to the n-th of `to`; rivals
//! come after the measured ones. `rivals_later_ms` lets them start later.

use netsim::fabric::workload::HostRange;
use plans::{Keys, PlanError};
use units::{Duration, Instant};

use super::{Network, Party, Traffic, TrafficError, Workload};
use crate::outcome::Role;

/// More than any run carries.
const ENDLESS: u64 = 1 << 40;

#[derive(Clone, Debug)]
struct Rivals {
    measured: u32,
    rivals: u32,
    bytes: u64,
    measured_is_tcp: bool,
    rival_is_tcp: bool,
    later: Duration,
    from: HostRange,
    to: HostRange,
}

const KINDS: &[(&str, bool)] = &[("scheme", false), ("tcp", true)];

pub(super) fn read(keys: &mut Keys<'_>, network: &Network) -> Result<Box<dyn Workload>, PlanError> {
    let from = network.group(keys, "from")?;
    let to = network.group(keys, "to")?;
    let (from, to) =
        (keys.need("from", from, "the hosts that send")?, keys.need("to", to, "the hosts that receive")?);
    let most = (from.end - from.start).min(to.end - to.start);
    let bytes = keys.int("bytes", 1..=ENDLESS - 1)?;
    let measured = keys.count("measured", 1..=most)?.unwrap_or(1);
    Ok(Box::new(Rivals {
        measured,
        rivals: keys.count("rivals", 0..=most - measured)?.unwrap_or(0),
        bytes: keys.need("bytes", bytes, "the size of a measured flow")?,
        measured_is_tcp: keys.named("measured_scheme", KINDS)?.unwrap_or(false),
        rival_is_tcp: keys.named("rival_scheme", KINDS)?.unwrap_or(true),
        later: keys.millis("rivals_later_ms")?.unwrap_or(Duration::ZERO),
        from,
        to,
    }))
}

impl Workload for Rivals {
    fn generate(&self, traffic: &mut Traffic<'_>) -> Result<(), TrafficError> {
        let mut draw = traffic.seed.stream("rivals");
        for n in 0..self.measured + self.rivals {
            let rival = n >= self.measured;
            let is_tcp = if rival { self.rival_is_tcp } else { self.measured_is_tcp };
            let party = if is_tcp { Party::Background } else { Party::Tested };
            let role = if rival { Role::Unmeasured } else { Role::Tested(None) };
            let bytes = if rival { ENDLESS } else { self.bytes };
            let later = if rival { self.later } else { Duration::ZERO };
            // Flows that start at the same instant would lose the same packets.
            let at = Instant::ORIGIN + later + Duration::from_nanos(draw.below(1_000_000));
            traffic.long_flow((self.from.start + n, self.to.start + n), bytes, at, party, role)?;
        }
        Ok(())
    }
}
