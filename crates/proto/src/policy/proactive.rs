//! Proactive: every data packet twice on its own path, at once (the baseline of papers FUSO and
//! CoFUSO; the bad example).
//!
//! The duplicate is sent within the window. If the window is full, it is made up for when window is
//! spare again.

use recovery::{UnackedView, fuso::Reinjection};
use units::Instant;

use super::{Ahead, Built, Carried, PathSnapshot, RecoveryAction, RecoveryPolicy, Scheme, SentData, paced};

pub(super) const SCHEME: Scheme = Scheme { name: "proactive", build: |_| Built::new(Proactive::default()) };

#[derive(Debug, Default)]
struct Proactive {
    /// The packet that has just left, whose duplicate is next.
    owed: Option<Reinjection>,
}

impl RecoveryPolicy for Proactive {
    fn ahead_of_data(&mut self, _now: Instant, _waiting: Option<u64>) -> Ahead {
        match self.owed {
            Some(Reinjection { packet, of, on }) => Ahead::Copy { packet, of, on },
            None => Ahead::Nothing,
        }
    }

    fn on_data(&mut self, _now: Instant, packet: &SentData, _paths: &[PathSnapshot]) {
        self.owed = Some(Reinjection { packet: packet.number, of: packet.path, on: packet.path });
    }

    fn on_done(&mut self, _action: &RecoveryAction, _sent: Option<Carried>) {
        self.owed = None;
    }

    fn on_opportunity(
        &mut self,
        _now: Instant,
        paths: &[PathSnapshot],
        unacked: &dyn UnackedView,
    ) -> RecoveryAction {
        let owing = paths.iter().filter(|p| p.protectable && p.has_window());
        let step = owing.filter_map(|p| recovery::proactive::step(p.id, unacked)).next();
        match step {
            Some(step) => {
                let Reinjection { packet, of, on } = step;
                paced(RecoveryAction::Reinject { packet, of, on }, on, paths)
            }
            None => RecoveryAction::Nothing,
        }
    }
}
