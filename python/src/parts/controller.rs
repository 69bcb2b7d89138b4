//! Congestion controllers.

use congestion::{PathWindow, Rtt};
use pyo3::{intern, prelude::*};
use tcpsim::{OwnController, WindowControl};
use units::Instant;

use super::{Class, Object, nonsense, seconds};

/// Most segments of a window.
const MOST: f64 = (1_u64 << 30) as f64;

/// New segments were acknowledged.
#[pyclass(frozen, get_all, name = "Ack", module = "mendpath.sim")]
pub(crate) struct Acked {
    now: f64,
    segments: u32,
    sent_at: f64,
    flight: u32,
    limited: bool,
    in_recovery: bool,
    marked: bool,
    /// Smoothed, in seconds, as the other two.
    rtt: f64,
    latest_rtt: f64,
    min_rtt: f64,
    /// All sub-flows' windows in bytes and smoothed round-trip times, and whether it is this one.
    siblings: Vec<(u64, f64, bool)>,
}

/// An object that has a window.
#[derive(Debug)]
struct Controller {
    object: Object,
    window: f64,
    /// When it was last told something: the time of what is told without one.
    told: Instant,
}

pub(super) fn own(class: Class) -> OwnController {
    let name = class.name.clone();
    OwnController::new(&name, move |window| {
        let object = class.make(|given| given.set_item("window", f64::from(window)));
        let mut made = Controller { object, window: window.into(), told: Instant::ORIGIN };
        made.after("__init__", Instant::ORIGIN, |_| Ok(()));
        Box::new(made)
    })
}

impl Controller {
    /// Calls the object and looks at its window.
    fn after(&mut self, hook: &str, at: Instant, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>) {
        self.told = at;
        let window = self.object.call(hook, at, |object| {
            call(object)?;
            let window = object.getattr(intern!(object.py(), "window"))?;
            let segments = window.extract::<f64>().ok().filter(|window| (0.0..=MOST).contains(window));
            match segments {
                Some(window) => Ok(window),
                None => Err(nonsense(format!(
                    "`window` is {}: it is a number of segments from 0 to 2**30",
                    window.repr()?
                ))),
            }
        });
        self.window = window.unwrap_or(self.window);
    }
}

impl WindowControl for Controller {
    fn window(&self) -> f64 {
        self.window
    }

    fn in_slow_start(&self) -> bool {
        let slow = |object: &Bound<'_, PyAny>| object.getattr("in_slow_start")?.is_truthy();
        self.object.call("in_slow_start", self.told, slow).unwrap_or(false)
    }

    fn on_ack(&mut self, acked: &tcpsim::Acked, rtt: &Rtt, siblings: &[PathWindow]) {
        let sibling = |path: &PathWindow| (path.window, path.smoothed_rtt.as_secs_f64(), path.is_self);
        let ack = Acked {
            now: seconds(acked.now),
            segments: acked.segments,
            sent_at: seconds(acked.sent_at),
            flight: acked.flight,
            limited: acked.limited,
            in_recovery: acked.in_recovery,
            marked: acked.marked,
            rtt: rtt.smoothed.as_secs_f64(),
            latest_rtt: rtt.latest.as_secs_f64(),
            min_rtt: rtt.min.as_secs_f64(),
            siblings: siblings.iter().map(sibling).collect(),
        };
        self.after("on_ack", acked.now, |object| {
            object.call_method1(intern!(object.py(), "on_ack"), (ack,)).map(drop)
        });
    }

    fn on_loss(&mut self, now: Instant, flight: u32) {
        self.after("on_loss", now, |object| {
            object.call_method1(intern!(object.py(), "on_loss"), (seconds(now), flight)).map(drop)
        });
    }

    fn on_mark(&mut self, now: Instant, flight: u32) {
        self.after("on_mark", now, |object| {
            object.call_method1(intern!(object.py(), "on_mark"), (seconds(now), flight)).map(drop)
        });
    }

    fn on_timeout(&mut self, now: Instant, flight: u32, first: bool) {
        self.after("on_timeout", now, |object| {
            object.call_method1(intern!(object.py(), "on_timeout"), (seconds(now), flight, first)).map(drop)
        });
    }

    fn on_idle(&mut self, initial: u32) {
        self.after("on_idle", self.told, |object| {
            object.call_method1(intern!(object.py(), "on_idle"), (initial,)).map(drop)
        });
    }
}
