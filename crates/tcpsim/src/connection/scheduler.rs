//! Asking a scheduler.

use units::Instant;

use super::Connection;
use crate::{
    own::{SubflowView, Unsent},
    subflow::Subflow,
};

impl Connection {
    /// What `scheduler` answers: a sub-flow without room is none.
    pub(super) fn scheduled(&mut self, now: Instant, failed: Option<usize>) -> Option<usize> {
        let tcp = &self.ends.tcp;
        let view = |(sub, flow): (usize, &mut Subflow)| SubflowView {
            sub,
            rtt: flow.rtt.smoothed,
            rtt_variance: flow.rtt.variance,
            window: flow.control.window(),
            in_flight: flow.board.pipe(),
            room: if flow.takes_data(tcp) { flow.room(tcp) } else { 0 },
            failed: failed == Some(sub),
        };
        let views: Vec<SubflowView> = self.subs.iter_mut().enumerate().map(view).collect();
        if views.iter().all(|view| view.room == 0) {
            return None;
        }
        let unsent = Unsent {
            segments: self.dsn_end - self.dsn_next + self.reinjections.len() as u32,
            allowed: tcp.receive_window.saturating_sub(self.dsn_next - self.dsn_una),
        };
        let chosen = self.scheduler.as_mut()?.choose(now, unsent, &views)?;
        views.get(chosen).filter(|view| view.room > 0).map(|view| view.sub)
    }
}
