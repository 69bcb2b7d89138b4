//! Nothing is sent on a path that was abandoned (draft-ietf-quic-multipath-21 section 3.4):
//! PATH_ABANDON, and ACKs of its late packets, take other paths. Whoever closes the connection may
//! say so anywhere: no other path may be left.

use proto::{PathState, PathStats};

use super::Broken;

pub(super) fn check(before: &[PathStats], after: &[PathStats], is_closed: bool) -> Result<(), Broken> {
    if is_closed {
        return Ok(());
    }
    for earlier in before.iter().filter(|p| p.state == PathState::Closing) {
        let later = after.iter().find(|p| p.id == earlier.id);
        let sent = later.map_or(0, |p| p.packets_sent - earlier.packets_sent);
        if sent > 0 {
            return Err(Broken::Abandoned { path: earlier.id, packets: sent });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::paths;

    #[test]
    fn a_packet_on_an_abandoned_path_is_seen() {
        let mut before = paths();
        let mut after = before.clone();
        after[1].packets_sent += 1;
        assert_eq!(check(&before, &after, false), Ok(()));
        (before[1].state, after[1].state) = (PathState::Closing, PathState::Closing);
        assert_eq!(check(&before, &after, false), Err(Broken::Abandoned { path: before[1].id, packets: 1 }));
        assert_eq!(check(&before, &after, true), Ok(()), "CONNECTION_CLOSE");
    }
}
