//! What packets carry, overheard before they are sealed: statistics do not tell it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto::{
    Observe, Observed, Observer,
    wire::{ConnectionId, Frame, Frames, PacketKind, Side},
};
use units::Instant;

/// Listens to the connections of a world. Clones hear the same.
#[derive(Clone, Debug, Default)]
pub struct Overheard {
    packets: Arc<Mutex<Packets>>,
    /// Who is told besides.
    other: Option<Arc<dyn Observe>>,
}

/// Packets that were sent.
#[derive(Debug, Default)]
struct Packets {
    sent: u32,
    /// Those of them that no window holds back.
    free: u32,
}

impl Overheard {
    /// The same, which hands on to `other` what it hears.
    pub fn beside(&self, other: Option<Arc<dyn Observe>>) -> Self {
        Self { packets: Arc::clone(&self.packets), other }
    }

    /// Whether something has been sent since the last time, and nothing but packets that may leave
    /// regardless of the window.
    pub(super) fn take_free(&self) -> bool {
        let Packets { sent, free } = core::mem::take(&mut *lock(&self.packets));
        sent > 0 && sent == free
    }
}

impl Observe for Overheard {
    fn connection(&self, now: Instant, side: Side, original: &ConnectionId) -> Option<Box<dyn Observer>> {
        let other = self.other.as_ref().and_then(|other| other.connection(now, side, original));
        Some(Box::new(Listener { packets: Arc::clone(&self.packets), other }))
    }
}

/// Listens to one connection.
struct Listener {
    packets: Arc<Mutex<Packets>>,
    other: Option<Box<dyn Observer>>,
}

impl Observer for Listener {
    fn on_event(&mut self, now: Instant, event: &Observed<'_>) {
        if let Observed::PacketSent { kind, payload, .. } = *event {
            let mut packets = lock(&self.packets);
            packets.sent += 1;
            packets.free += u32::from(is_free(kind, payload));
        }
        if let Some(other) = &mut self.other {
            other.on_event(now, event);
        }
    }
}

fn lock(packets: &Mutex<Packets>) -> MutexGuard<'_, Packets> {
    packets.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a packet validates a path (RFC 9000 section 8.2), or is of the handshake's flights, which early
/// data must not hold back.
fn is_free(kind: PacketKind, payload: &[u8]) -> bool {
    let validates = |frame: Frame<'_>| matches!(frame, Frame::PathChallenge(_) | Frame::PathResponse(_));
    matches!(kind, PacketKind::Initial | PacketKind::Handshake)
        || Frames::new(payload).map_while(Result::ok).any(validates)
}

#[cfg(test)]
mod tests {
    use proto::{
        PacketPurpose, PathId,
        wire::{PathChallenge, PathResponse},
    };

    use super::*;

    /// Whether packets with these frames are free together.
    fn free(packets: &[(PacketKind, &[Frame<'_>])]) -> bool {
        let overheard = Overheard::default();
        let id = ConnectionId::new(&[1; 8]).unwrap();
        let mut listener =
            overheard.beside(None).connection(Instant::ORIGIN, Side::Client, &id).expect("it always listens");
        for (kind, frames) in packets {
            let mut payload = Vec::new();
            frames.iter().for_each(|frame| frame.encode(&mut payload));
            let sent = Observed::PacketSent {
                path: PathId::ZERO,
                kind: *kind,
                number: 0,
                size: 1_200,
                purpose: PacketPurpose::Data,
                copy_of: None,
                payload: &payload,
            };
            listener.on_event(Instant::ORIGIN, &sent);
        }
        let free = overheard.take_free();
        assert!(!overheard.take_free(), "it has been asked");
        free
    }

    #[test]
    fn what_validates_a_path_is_known_by_its_frames_and_not_by_its_size() {
        let padding = Frame::Padding { len: 1_100 };
        let challenge = [Frame::PathChallenge(PathChallenge([1; 8])), padding.clone()];
        let response = [Frame::Ping, Frame::PathResponse(PathResponse([2; 8])), padding.clone()];
        let full = [Frame::Ping, padding];
        assert!(free(&[(PacketKind::OneRtt, &challenge)]));
        assert!(free(&[(PacketKind::OneRtt, &response)]));
        assert!(free(&[(PacketKind::Initial, &full), (PacketKind::Handshake, &full)]));
        assert!(!free(&[(PacketKind::OneRtt, &full)]));
        assert!(!free(&[(PacketKind::ZeroRtt, &full)]));
        assert!(!free(&[(PacketKind::OneRtt, &challenge), (PacketKind::OneRtt, &full)]));
        assert!(!free(&[]));
    }
}
