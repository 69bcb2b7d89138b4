//! Whether a server is not reached because packets as large as QUIC's do not get through.

use super::dial::DialOptions;
use crate::{
    failure::Failure,
    interfaces::{WantedPath, usable_paths},
    probe::{self, Outcome},
    target::Target,
};

/// What to tell a user whose paths are all too narrow, as far as the system knows: the interface says
/// so, or a router that has been asked. A path whose packets vanish may lead to a server that is not
/// there.
pub(super) async fn explanation(options: &DialOptions) -> Option<Failure> {
    let mut narrow: Option<(WantedPath, Outcome)> = None;
    for host in options.invitation.hosts() {
        for server in options.addresses(host).await.ok()? {
            for path in usable_paths(&options.paths, server).ok()? {
                let outcome = probe::least(&path, server).await;
                if !matches!(outcome, Outcome::TooLargeHere | Outcome::TooLargeThere) {
                    return None;
                }
                narrow.get_or_insert((path, outcome));
            }
        }
    }
    let (path, outcome) = narrow?;
    Some(failure(&options.invitation.server, &path, outcome))
}

fn failure(server: &Target, path: &WantedPath, outcome: Outcome) -> Failure {
    let least = probe::SIZES[0];
    let wrong = format!("packets of {least} bytes, which QUIC needs, {}", probe::words(outcome));
    let next = format!("Raise the MTU of {path} or of what lies on its way to 1280 or more");
    Failure::new(format!("cannot use the server {server}"), wrong, next)
}
