//! TCP with a tail loss probe: "TLP" in FUSO, "Reactive" in CoFUSO. `fack` (on) is the loss detection
//! by the highest SACK that Linux had with it; `probe_min_ms` (0) is the least wait of a probe, 10
//! in the Linux of FUSO's time, which never waits longer than the retransmission timer.

use tcpsim::{Profile, Tcp, schemes::reactive};

use plans::{Keys, PlanError};

pub(super) fn read(keys: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    let mut tcp = reactive(tcp);
    tcp.fack = keys.flag("fack")?.unwrap_or(tcp.fack);
    if let (Some(least), Some(probe)) = (keys.millis("probe_min_ms")?, &mut tcp.tlp) {
        probe.min = least;
    }
    Ok(Profile::tcp(tcp))
}
