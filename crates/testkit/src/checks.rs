//! stub
use crate::world::ConnectionId;
use proto::*;
use units::Instant;
#[derive(Clone, Debug)]
pub struct Violation;
pub struct Checks;
impl Checks {
    pub fn new(_: ConnectionId, _: &TransportConfig) -> Self {
        Self
    }
    pub fn on_timeout(&mut self, _: &[PathStats], _: &[PathStats]) {}
    pub fn after_timeout(&mut self, _: Instant, _: &Connection, _: u64) -> Result<(), Violation> {
        Ok(())
    }
    pub fn on_arrival(&mut self, _: NetworkPath, _: u64) {}
    pub fn on_transmit(
        &mut self,
        _: Instant,
        _: &Transmit,
        _: usize,
        _: usize,
        _: &[PathStats],
        _: &Connection,
    ) -> Result<(), Violation> {
        Ok(())
    }
    pub fn on_event(&mut self, _: &Event, _: &Connection) {}
}
