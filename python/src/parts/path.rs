//! A sub-flow, as schemes and schedulers see it.

use pyo3::prelude::*;
use recovery::{PathId, UnackedView as _};
use tcpsim::{Phase, SubflowView, connection::Connection};

/// What is known of a sub-flow at one moment.
#[pyclass(frozen, get_all, module = "mendpath.sim")]
pub(crate) struct Path {
    number: usize,
    /// Smoothed, in seconds; zero before the first sample.
    rtt: f64,
    /// RTTVAR of RFC 6298, in seconds.
    rtt_variance: f64,
    window: u32,
    in_flight: u32,
    room: u32,
    /// The oldest segment that may be copied.
    oldest: Option<u64>,
    ever_sent: bool,
    /// It repairs what a timeout lost.
    timed_out: bool,
    /// It sent the next segment already and did not deliver it.
    failed: bool,
}

impl Path {
    /// Sub-flow `number` of a connection that has nothing new to send.
    pub(super) fn of(conn: &Connection, number: usize) -> Self {
        Self {
            number,
            rtt: conn.smoothed_rtt(number).as_secs_f64(),
            rtt_variance: conn.rtt_variance(number).as_secs_f64(),
            window: conn.window(number),
            in_flight: conn.pipe(number),
            room: conn.room(number),
            oldest: conn.oldest_resendable(PathId(number as u32)).map(|packet| packet.0),
            ever_sent: conn.ever_sent(number),
            timed_out: conn.phase(number) == Phase::Loss,
            failed: false,
        }
    }

    /// One that may take new data.
    pub(super) fn seen(view: &SubflowView) -> Self {
        Self {
            number: view.sub,
            rtt: view.rtt.as_secs_f64(),
            rtt_variance: view.rtt_variance.as_secs_f64(),
            window: view.window,
            in_flight: view.in_flight,
            room: view.room,
            oldest: None,
            ever_sent: !view.rtt.is_zero(),
            timed_out: false,
            failed: view.failed,
        }
    }
}

#[pymethods]
impl Path {
    fn __repr__(&self) -> String {
        let oldest = self.oldest.map_or("None".to_owned(), |oldest| oldest.to_string());
        format!(
            "<Path {}: rtt {:.6}, window {}, in_flight {}, room {}, oldest {oldest}>",
            self.number, self.rtt, self.window, self.in_flight, self.room
        )
    }
}
