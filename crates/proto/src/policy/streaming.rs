//! `streaming`: datagrams with deadlines travel with a streaming code, and nothing else is repaired.
//!
//! Ours, after Tambur's idea (NSDI 2023): parity that is spread over the frames that follow makes up
//! for a burst with what all of them have to spare. [`recovery::streaming`] decides how much of it
//! leaves when; the transport carries that out. `auto` does the same where no news of a loss comes in
//! time, and otherwise waits for news, which costs less.

use recovery::UnackedView;
use units::Instant;

use super::{Built, CodeScheme, PathSnapshot, RecoveryAction, RecoveryPolicy, Scheme, StreamCode, Terms};

pub(super) const SCHEME: Scheme = Scheme { name: "streaming", build };

fn build(terms: &Terms<'_>) -> Built {
    if terms.decodes.contains(CodeScheme::Window) {
        Built::new(Streaming)
    } else {
        Built::instead(Streaming, "with blocks or copies")
    }
}

/// The probability with which a frame of some packets may miss its deadline all the same; as `auto`.
const IN_TIME: f64 = 2e-3;

#[derive(Debug)]
struct Streaming;

impl RecoveryPolicy for Streaming {
    fn on_opportunity(&mut self, _: Instant, _: &[PathSnapshot], _: &dyn UnackedView) -> RecoveryAction {
        RecoveryAction::Nothing
    }

    fn keeps_deadlines(&self) -> Option<f64> {
        Some(IN_TIME)
    }

    fn stream_code(&self) -> StreamCode {
        StreamCode::Always
    }
}
