//! Schedulers.

use pyo3::{intern, prelude::*};
use tcpsim::{OwnScheduler, Scheduler, SubflowView};
use units::Instant;

use super::{Class, Object, Path, nonsense, seconds};

/// What is to be sent, in segments.
#[pyclass(frozen, get_all, module = "mendpath.sim")]
pub(crate) struct Unsent {
    segments: u32,
    /// New ones that the receive window has room for.
    allowed: u32,
}

#[derive(Debug)]
struct Chooser(Object);

pub(super) fn own(class: Class) -> OwnScheduler {
    let name = class.name.clone();
    OwnScheduler::new(&name, move |subflows| {
        Box::new(Chooser(class.make(|given| given.set_item("subflows", subflows))))
    })
}

impl Scheduler for Chooser {
    fn choose(&mut self, now: Instant, unsent: tcpsim::Unsent, subflows: &[SubflowView]) -> Option<usize> {
        let choose = |object: &Bound<'_, PyAny>| {
            let unsent = Unsent { segments: unsent.segments, allowed: unsent.allowed };
            let paths: Vec<Path> = subflows.iter().map(Path::seen).collect();
            let answer =
                object.call_method1(intern!(object.py(), "choose"), (seconds(now), paths, unsent))?;
            if answer.is_none() {
                return Ok(None);
            }
            let chosen = answer.extract::<usize>().ok();
            match chosen.filter(|chosen| subflows.get(*chosen).is_some_and(|view| view.room > 0)) {
                Some(chosen) => Ok(Some(chosen)),
                None => Err(nonsense(format!(
                    "it answered {}: it is the number of a path with room, or None",
                    answer.repr()?
                ))),
            }
        };
        self.0.call("choose", now, choose).flatten()
    }
}
