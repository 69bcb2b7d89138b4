//! Loss models.

use netsim::{
    Seed,
    loss::{LossModel, OwnLoss, PacketInfo},
};
use pyo3::{intern, prelude::*};

use super::{Class, Object, nonsense, seconds};

/// A packet that may be lost.
#[pyclass(frozen, get_all, module = "mendpath.sim")]
pub(crate) struct Packet {
    index: u64,
    size: u64,
    at: f64,
}

struct Model(Object);

pub(super) fn own(class: Class) -> OwnLoss {
    let name = class.name.clone();
    OwnLoss::new(&name, move |seed: Seed| {
        let random = |given: &Bound<'_, pyo3::types::PyDict>| {
            let random = given.py().import("random")?.getattr("Random")?.call1((seed.0,))?;
            given.set_item("random", random)
        };
        Box::new(Model(class.make(random)))
    })
}

impl LossModel for Model {
    fn lose(&mut self, packet: &PacketInfo) -> bool {
        let told = Packet { index: packet.index, size: packet.size, at: seconds(packet.at) };
        let lose = |object: &Bound<'_, PyAny>| {
            let answer = object.call_method1(intern!(object.py(), "lose"), (told,))?;
            match answer.extract::<bool>() {
                Ok(answer) => Ok(answer),
                Err(_) => Err(nonsense(format!("it answered {}: it is true or false", answer.repr()?))),
            }
        };
        self.0.call("lose", packet.at, lose).unwrap_or(false)
    }
}
