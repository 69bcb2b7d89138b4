//! Keeps rules, routes and the device's addresses as they should be: in step with the machine's own
//! addresses, and there although somebody takes them away.

use std::{collections::BTreeSet, io, net::IpAddr, time::Duration};

use tokio::time::{MissedTickBehavior, interval};
use tracing::debug;

use super::{
    Machine,
    laid::{Laid, Steady, laid},
    locals::{adapt, own_addresses},
};
use crate::{
    console::say,
    failure::Failure,
    tun::links::{add_addresses, loosen_reverse_paths, netlink},
};

/// How often it looks, as for paths.
const LOOK: Duration = Duration::from_secs(1);

const THERE_AGAIN: &str =
    "something took rules, routes or addresses of the tunnel away; they are there again";
const LOST: &str = "something took rules, routes or addresses of the tunnel away, and they cannot be put back: \
                    packets may go around it";

/// Looks again and again, until packets of IPv6 go around a tunnel that carries none.
pub(super) async fn follow(machine: &Machine) -> Failure {
    let wanted = machine.steady;
    let mut lost = false;
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        // Where a line of sysctl.d is about all devices, systemd has made it strict again since, a moment after udev
        // heard of it. Where it may not be changed, that was said at the start.
        let _ = loosen_reverse_paths();
        let (Ok(have), Ok(mut laid)) = (own_addresses(), netlink(laid).await) else { continue };
        if let Some(leak) = machine.leak(&have) {
            return leak;
        }
        if laid.steady.lacks(wanted) {
            match put_back(machine, &have, wanted).await {
                Ok(now) => {
                    say(THERE_AGAIN);
                    (laid, lost) = (now, false);
                }
                Err(error) => {
                    debug!(%error, "they cannot be put back");
                    if !lost {
                        say(LOST);
                    }
                    lost = true;
                }
            }
        } else if std::mem::take(&mut lost) {
            say(THERE_AGAIN);
        }
        if have != laid.own {
            let adapted = netlink(async |handle| adapt(handle, &laid.own, &have).await).await;
            debug!(?have, ?adapted, "this machine's addresses changed");
        }
    }
}

/// Adds what is missing, the device's addresses too, and nothing twice.
async fn put_back(machine: &Machine, have: &BTreeSet<IpAddr>, wanted: Steady) -> io::Result<Laid> {
    let now = netlink(async |handle| {
        add_addresses(handle, machine.plan.given).await?;
        machine.lead(handle, have).await?;
        laid(handle).await
    });
    let now = now.await?;
    if now.steady.lacks(wanted) { Err(io::ErrorKind::NotFound.into()) } else { Ok(now) }
}
