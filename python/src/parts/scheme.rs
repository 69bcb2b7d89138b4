//! Schemes on MPTCP.

use pyo3::{exceptions::PyValueError, intern, prelude::*};
use recovery::{PathId, UnackedView as _};
use tcpsim::{
    connection::{Connection, scheme::Scheme},
    schemes::OwnScheme,
    transport::{Io, Timer},
};
use units::{Duration, Instant};

use super::{Class, Object, Path, nonsense, seconds};

/// A segment of one path once more over another.
#[pyclass(frozen, get_all, module = "mendpath.sim")]
pub(crate) struct Copy {
    of: usize,
    on: usize,
    packet: Option<u32>,
}

#[pymethods]
impl Copy {
    #[new]
    #[pyo3(signature = (of, on, packet=None))]
    fn new(of: usize, on: usize, packet: Option<u32>) -> Self {
        Self { of, on, packet }
    }

    fn __repr__(&self) -> String {
        match self.packet {
            Some(packet) => format!("Copy(of={}, on={}, packet={packet})", self.of, self.on),
            None => format!("Copy(of={}, on={})", self.of, self.on),
        }
    }
}

/// Nothing now; to be asked again after so many seconds.
#[pyclass(frozen, get_all, module = "mendpath.sim")]
pub(crate) struct Wait {
    seconds: f64,
}

#[pymethods]
impl Wait {
    #[new]
    fn new(seconds: f64) -> PyResult<Self> {
        let fits = (1e-9..=1e6).contains(&seconds);
        fits.then_some(Self { seconds }).ok_or_else(|| {
            PyValueError::new_err(format!("{seconds} s: it is from a nanosecond to a million seconds"))
        })
    }

    fn __repr__(&self) -> String {
        format!("Wait({})", self.seconds)
    }
}

/// What a scheme wants.
enum Action {
    Copy { of: usize, seq: u32, on: usize },
    Wait(Duration),
    Nothing,
}

/// An object, and which hooks it has.
#[derive(Debug)]
struct Instance {
    object: Object,
    looks_at_sent: bool,
    looks_at_acked: bool,
    looks_at_timeouts: bool,
}

pub(super) fn own(class: Class) -> OwnScheme {
    let name = class.name.clone();
    OwnScheme::new(&name, move |subflows| {
        let object = class.make(|given| given.set_item("subflows", subflows));
        let has = |hook| object.has(hook);
        let (looks_at_sent, looks_at_acked) = (has("on_sent"), has("on_acked"));
        let looks_at_timeouts = has("on_timeout");
        Box::new(Instance { object, looks_at_sent, looks_at_acked, looks_at_timeouts })
    })
}

impl Instance {
    /// What it wants at an opportunity.
    fn action(&self, conn: &Connection, now: Instant) -> Action {
        let ask = |object: &Bound<'_, PyAny>| {
            let paths: Vec<Path> = (0..conn.subflows()).map(|number| Path::of(conn, number)).collect();
            let answer =
                object.call_method1(intern!(object.py(), "on_opportunity"), (seconds(now), paths))?;
            if answer.is_none() {
                return Ok(Action::Nothing);
            }
            if let Ok(wait) = answer.cast::<Wait>() {
                return Ok(Action::Wait(Duration::from_secs_f64(wait.get().seconds)));
            }
            let Ok(copy) = answer.cast::<Copy>() else {
                return Err(nonsense(format!(
                    "it answered {}: it is a Copy, a Wait or None",
                    answer.repr()?
                )));
            };
            checked(conn, copy.get())
        };
        self.object.call("on_opportunity", now, ask).unwrap_or(Action::Nothing)
    }
}

/// A copy that can be sent.
fn checked(conn: &Connection, copy: &Copy) -> PyResult<Action> {
    let wrong = |what: &str| Err(nonsense(format!("it answered {}: {what}", copy.__repr__())));
    let (of, on) = (copy.of, copy.on);
    if of >= conn.subflows() || on >= conn.subflows() {
        return wrong("there is no such path");
    }
    if conn.room(on) == 0 {
        return wrong("the path `on` has no room");
    }
    let oldest = || conn.oldest_resendable(PathId(of as u32)).map(|packet| packet.0 as u32);
    match copy.packet.or_else(oldest) {
        Some(seq) if conn.is_outstanding(of, seq) => Ok(Action::Copy { of, seq, on }),
        Some(_) => wrong("the path `of` has no such segment outstanding"),
        None => wrong("the path `of` has nothing to copy"),
    }
}

impl Scheme for Instance {
    fn on_sent(&mut self, _: &mut Connection, io: &mut Io<'_>, sub: usize, seq: u32, again: bool) {
        if self.looks_at_sent {
            let now = io.now();
            _ = self.object.call("on_sent", now, |object| {
                object.call_method1(intern!(object.py(), "on_sent"), (seconds(now), sub, seq, again))?;
                Ok(())
            });
        }
    }

    fn on_ack(&mut self, _: &mut Connection, io: &mut Io<'_>, sub: usize) {
        if self.looks_at_acked {
            let now = io.now();
            _ = self.object.call("on_acked", now, |object| {
                object.call_method1(intern!(object.py(), "on_acked"), (seconds(now), sub)).map(drop)
            });
        }
    }

    fn on_timeout(&mut self, _: &mut Connection, io: &mut Io<'_>, sub: usize) {
        if self.looks_at_timeouts {
            let now = io.now();
            _ = self.object.call("on_timeout", now, |object| {
                object.call_method1(intern!(object.py(), "on_timeout"), (seconds(now), sub)).map(drop)
            });
        }
    }

    fn on_opportunity(&mut self, conn: &mut Connection, io: &mut Io<'_>) {
        while (0..conn.subflows()).any(|sub| conn.room(sub) > 0) {
            conn.refresh_resend_marks();
            match self.action(conn, io.now()) {
                Action::Copy { of, seq, on } => _ = conn.send_copy(io, of, seq, on),
                Action::Wait(wait) => {
                    let at = io.now() + wait;
                    return io.set_timer(at, Timer::Scheme);
                }
                Action::Nothing => return,
            }
        }
    }

    fn on_timer(&mut self, conn: &mut Connection, io: &mut Io<'_>) {
        if !conn.has_new_data() {
            self.on_opportunity(conn, io);
        }
    }
}
