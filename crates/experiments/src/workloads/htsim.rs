//! The connections of a matrix of htsim: `matrix`, a file `.cm` beside the plan
//! ([`netsim::fabric::workload::matrix`]), each on a connection of its own. Node n is host n of the
//! network. `start_unit`: `ps` (the default) or `us`, as older files have it.

use netsim::fabric::workload::{
    FlowSpec,
    matrix::{StartUnit, parse},
};
use plans::{Keys, PlanError};

use super::{Network, Party, Traffic, TrafficError, Workload};
use crate::inputs;

#[derive(Clone, Debug)]
struct Matrix(Vec<FlowSpec>);

const UNITS: &[(&str, StartUnit)] = &[("ps", StartUnit::Picos), ("us", StartUnit::Micros)];

pub(super) fn read(keys: &mut Keys<'_>, network: &Network) -> Result<Box<dyn Workload>, PlanError> {
    let unit = keys.named("start_unit", UNITS)?.unwrap_or_default();
    let found = inputs::read(keys, inputs::MATRIX, |text| {
        parse(text, unit, network.topology.hosts()).map_err(|error| (error.line, error.what))
    })?;
    let flows = keys.need(inputs::MATRIX, found, "a file `.cm` of htsim")?;
    Ok(Box::new(Matrix(flows)))
}

impl Workload for Matrix {
    fn generate(&self, traffic: &mut Traffic<'_>) -> Result<(), TrafficError> {
        for flow in &self.0 {
            traffic.flow(flow, Party::Tested)?;
        }
        Ok(())
    }
}
