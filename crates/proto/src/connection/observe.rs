//! Telling the observer, if there is one.

use units::Instant;

use super::{Connection, frames::FrameContext, packet::PacketBuilder};
use crate::{
    PacketPurpose,
    crypto::Level,
    observer::{Observed, Observer},
    stats::RecoveryReasons,
    wire::{PacketKind, PathId},
};

/// The observer, and what it knows already.
#[derive(Default)]
pub(super) struct Watcher {
    observer: Option<Box<dyn Observer>>,
    /// Boxed, since most connections have no observer.
    reasons: Option<Box<RecoveryReasons>>,
}

impl Watcher {
    pub(super) fn new(observer: Option<Box<dyn Observer>>) -> Self {
        Self { observer, ..Self::default() }
    }

    fn tell(&mut self, now: Instant, event: &Observed<'_>) {
        if let Some(observer) = &mut self.observer {
            observer.on_event(now, event);
        }
    }
}

impl Connection {
    /// A packet is complete but for its encryption.
    pub(super) fn observe_sent(
        &mut self,
        now: Instant,
        builder: &PacketBuilder,
        purpose: PacketPurpose,
        size: usize,
        payload: &[u8],
    ) {
        let event = Observed::PacketSent {
            path: builder.path,
            kind: builder.level.kind(),
            number: builder.number,
            size,
            purpose,
            copy_of: builder.frames.copy_of,
            payload,
        };
        self.watcher.tell(now, &event);
    }

    /// The frames of a packet are about to be dealt with.
    pub(super) fn observe_received(
        &mut self,
        now: Instant,
        context: &FrameContext,
        number: u64,
        payload: &[u8],
    ) {
        let FrameContext { path, rebuilt, .. } = *context;
        let kind = context.level.kind();
        self.watcher.tell(now, &Observed::PacketReceived { path, kind, number, rebuilt, payload });
    }

    pub(super) fn observe_lost(&mut self, now: Instant, level: Level, path: PathId, number: u64) {
        self.watcher.tell(now, &Observed::PacketLost { path, kind: level.kind(), number });
    }

    pub(super) fn observe_timeout(&mut self, now: Instant, path: PathId, count: u32) {
        self.watcher.tell(now, &Observed::ProbeTimeout { path, count });
    }

    /// What is known of a path may have changed.
    pub(super) fn observe_metrics(&mut self, now: Instant, id: PathId) {
        if self.watcher.observer.is_none() {
            return;
        }
        let Some(path) = self.paths.get(&id) else { return };
        let rtt = path.rtt();
        let event = Observed::Metrics {
            path: id,
            window: path.congestion_window(),
            in_flight: path.in_flight(),
            rtt: [rtt.latest(), rtt.min(), rtt.smoothed(), rtt.variance()],
            expected_loss: path.learnt().history.loss(),
        };
        self.watcher.tell(now, &event);
    }

    /// Recovery may have done something.
    pub(super) fn observe_reasons(&mut self, now: Instant) {
        if self.watcher.observer.is_none() {
            return;
        }
        let reasons = self.reasons();
        let told = self.watcher.reasons.get_or_insert_default();
        let before = core::mem::replace(&mut **told, reasons);
        for ((reason, count), (_, earlier)) in reasons.named().zip(before.named()) {
            if count > earlier {
                self.watcher.tell(now, &Observed::Recovery { reason, count: count - earlier });
            }
        }
    }
}

impl Level {
    pub(super) const fn kind(self) -> PacketKind {
        match self {
            Self::Initial => PacketKind::Initial,
            Self::Handshake => PacketKind::Handshake,
            Self::OneRtt => PacketKind::OneRtt,
            Self::ZeroRtt => PacketKind::ZeroRtt,
        }
    }
}
