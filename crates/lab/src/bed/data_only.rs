//! Losses that spare small packets, as where the papers lose "data packets only".

use netsim::{LossModel, loss::PacketInfo};

use crate::SMALL_PACKET;

/// Asks a model about packets larger than [`SMALL_PACKET`] only; these are numbered among
/// themselves.
pub(super) struct DataOnly {
    model: Box<dyn LossModel + Send>,
    asked: u64,
}

impl DataOnly {
    pub(super) fn new(model: Box<dyn LossModel + Send>) -> Self {
        Self { model, asked: 0 }
    }
}

impl LossModel for DataOnly {
    fn lose(&mut self, packet: &PacketInfo) -> bool {
        if packet.size <= SMALL_PACKET {
            return false;
        }
        let index = self.asked;
        self.asked += 1;
        self.model.lose(&PacketInfo { index, ..*packet })
    }
}

#[cfg(test)]
mod tests {
    use netsim::{Loss, Seed};
    use units::Instant;

    use super::*;

    #[test]
    fn small_packets_are_neither_lost_nor_counted() {
        let mut model = DataOnly::new(Loss::nth([1]).model(Seed(1)));
        let sizes = [60, 1_500, 60, 200, 201, 1_500];
        let lost: Vec<bool> = sizes
            .iter()
            .enumerate()
            .map(|(index, size)| {
                model.lose(&PacketInfo { index: index as u64, size: *size, at: Instant::ORIGIN })
            })
            .collect();
        assert_eq!(lost, [false, false, false, false, true, false]);
    }
}
