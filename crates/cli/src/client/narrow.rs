//! Whether a server is not reached because packets as large as QUIC's do not get through, or because
//! nothing listens there.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::dial::DialOptions;
use crate::{
    failure::Failure,
    interfaces::{WantedPath, usable_paths},
    probe::{self, Outcome},
    target::Target,
};

/// What to tell a user whose paths are all too narrow, as far as the system knows: the interface says
/// so, or a router that has been asked. A path whose packets vanish may lead to a server that is not
/// there. `refused` is set where a host says that nothing listens on that port: that may come from
/// somebody else, or pass, so it is no reason to stop trying.
pub(super) async fn explanation(options: &DialOptions, refused: &AtomicBool) -> Option<Failure> {
    let mut narrow: Option<(WantedPath, Outcome)> = None;
    for host in options.invitation.hosts() {
        for server in options.addresses(host).await.ok()? {
            for path in usable_paths(&options.paths, server).ok()? {
                let outcome = probe::least(&path, server).await;
                if outcome == Outcome::Refused {
                    refused.store(true, Relaxed);
                }
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

#[cfg(test)]
mod tests {
    use mendpath::KeyPin;

    use super::*;
    use crate::{
        invitation::Invitation,
        token::{Service, TokenSecret},
    };

    /// As with a wrong port.
    #[tokio::test]
    async fn a_port_where_nothing_listens_is_known_and_is_no_reason_to_stop() {
        // TCPMUX, which has no UDP.
        let server = Target::from_addr(([127, 0, 0, 1], 1).into());
        let token = TokenSecret::from_bytes([5; 32]).invitation_token(Service::Proxy);
        let invitation = Invitation { token, server, also: Vec::new(), pin: KeyPin::of_spki(b"key") };
        let refused = AtomicBool::new(false);
        let options = DialOptions::new(invitation, Service::Proxy);
        assert_eq!(explanation(&options, &refused).await, None);
        assert!(refused.into_inner());
    }
}
