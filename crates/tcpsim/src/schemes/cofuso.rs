//! CoFUSO on MPTCP: at FUSO's opportunities, parities over many un-acknowledged packets first,
//! copies after.
//!
//! Section 4. The decisions are those of `recovery::cofuso`; the code is `fec`'s Reed-Solomon over
//! what the header of section 2.7 codes: data-level number and length of each packet, so that the
//! receiver really learns what it repairs.
//!
//! | paper             | here                                                    |
//! |-------------------|---------------------------------------------------------|
//! | GENERATE_RECOVERY_PACKET | [`BlockProgress::step`], per sub-flow (COF-A10)   |
//! | SF_ID, S_SN, E_SN, K, M, P_Index, L_CODED, D_SN | `Parity`, the packet's header |
//! | sub-flow's circular packet buffer | `Buffer::packets`, as long as the largest block |
//! | parity buffer     | `Buffer::parities`                                    |
//!
//! Coding takes no time (COF-A18). A parity is as large as the largest packet of its block and 20
//! bytes more, whatever the MSS: set [`Tcp::mss`](crate::Tcp) 20 bytes lower if packets must fit
//! ([`Cofuso::tcp`]).

use std::collections::VecDeque;

use recovery::{
    PathLoss, Weights,
    cofuso::{Block, BlockParameters, BlockProgress, Step},
    path_choice,
};

use super::{Mptcp, fuso};
use crate::{
    Tcp,
    connection::{Connection, scheme::Scheme},
    segment::{Header, PARITY, Segment, Words},
    transport::Io,
};

/// Header of a parity (section 5.1), in bytes.
const PARITY_HEADER: u16 = 20;
/// A source symbol: data-level number and length.
const SYMBOL: usize = 6;
/// The code's symbol of it.
const CODED: usize = SYMBOL + fec::PREFIX;

/// Parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cofuso {
    /// The sub-flows.
    pub mptcp: Mptcp,
    /// alpha1 and beta1.
    pub weights: Weights,
    /// alpha2 and beta2.
    pub path_weights: path_choice::cofuso::Weights,
    /// M_max, K_max, rounding.
    pub block: BlockParameters,
    /// Parities per packet of a block instead of the measured loss rate (Fig. 15).
    pub fixed_rate: Option<f64>,
}

impl Cofuso {
    /// The simulation's parameters (section 6.2) with `subflows` sub-flows.
    pub fn simulation(subflows: usize) -> Self {
        Self {
            mptcp: Mptcp::new(subflows).with_early_delivery(),
            weights: Weights::cofuso_simulation(),
            path_weights: Default::default(),
            block: BlockParameters::simulation(),
            fixed_rate: None,
        }
    }

    /// The testbed's (section 5.2): one XOR parity over at most 30 packets.
    pub fn testbed(subflows: usize) -> Self {
        Self {
            weights: Weights::cofuso_testbed(),
            block: BlockParameters::testbed(),
            ..Self::simulation(subflows)
        }
    }

    /// `tcp` with an MSS that leaves room for a parity's header.
    pub fn tcp(tcp: Tcp) -> Tcp {
        Tcp { mss: tcp.mss.saturating_sub(PARITY_HEADER).max(1), ..tcp }
    }
}

/// What a parity carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parity {
    /// SF_ID.
    pub(crate) sub: usize,
    /// S_SN.
    pub(crate) first: u32,
    pub(crate) k: u16,
    index: u8,
    symbol: [u8; CODED],
}

impl Header for Parity {
    fn pack(&self) -> Words {
        let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        let head = u32::from(self.k) << 16 | u32::from(self.index);
        [self.first, self.sub as u32, head, 0, word(&self.symbol[..4]), word(&self.symbol[4..])]
    }

    fn unpack(words: &Words) -> Self {
        let [first, sub, head, _, high, low] = *words;
        let symbol = (u64::from(high) << 32 | u64::from(low)).to_be_bytes();
        Self { sub: sub as usize, first, k: (head >> 16) as u16, index: head as u8, symbol }
    }
}

fn symbol(dsn: u32, payload: u16) -> [u8; SYMBOL] {
    let [a, b, c, d] = dsn.to_be_bytes();
    let [e, f] = payload.to_be_bytes();
    [a, b, c, d, e, f]
}

/// What the receiver keeps of one sub-flow.
#[derive(Clone, Default, Debug)]
struct Buffer {
    /// By number modulo the capacity; newer packets overwrite older ones.
    packets: Vec<Option<(u32, [u8; SYMBOL])>>,
    /// Parities of blocks that cannot be decoded yet, oldest first.
    parities: VecDeque<Parity>,
}

impl Buffer {
    fn keep(&mut self, capacity: usize, seq: u32, symbol: [u8; SYMBOL]) {
        if self.packets.is_empty() {
            self.packets = vec![None; capacity];
        }
        self.packets[seq as usize % capacity] = Some((seq, symbol));
    }

    fn packet(&self, seq: u32) -> Option<&[u8; SYMBOL]> {
        let slot = self.packets.get(seq as usize % self.packets.len().max(1))?.as_ref()?;
        (slot.0 == seq).then_some(&slot.1)
    }

    /// The symbols of the block that starts at `first` which are missing here, if its parities
    /// suffice.
    fn decode(&self, first: u32, k: u16) -> Option<Vec<(u32, [u8; SYMBOL])>> {
        let sources: Vec<Option<&[u8]>> = (first..first + u32::from(k))
            .map(|seq| self.packet(seq).map(|symbol| symbol.as_slice()))
            .collect();
        let missing = sources.iter().filter(|source| source.is_none()).count();
        let parities: Vec<(u8, &[u8])> = self
            .parities
            .iter()
            .filter(|parity| parity.first == first && parity.k == k)
            .map(|parity| (parity.index, parity.symbol.as_slice()))
            .take(missing)
            .collect();
        if parities.len() < missing {
            return None;
        }
        let mut scratch = fec::reed_solomon::DecodeScratch::new();
        let rebuilt = fec::reed_solomon::decode(&sources, &parities, &mut scratch).ok()?;
        Some(rebuilt.map(|(i, bytes)| (first + i as u32, bytes.try_into().unwrap_or_default())).collect())
    }
}

/// Both ends' state.
#[derive(Debug)]
pub(crate) struct State {
    parameters: Cofuso,
    losses: Vec<PathLoss>,
    progress: Vec<BlockProgress>,
    /// Symbols of each sub-flow's open block: its packets may be acknowledged before its last
    /// parity is built.
    open: Vec<(u32, Vec<[u8; SYMBOL]>)>,
    buffers: Vec<Buffer>,
}

impl State {
    pub(crate) fn new(parameters: Cofuso, subflows: usize) -> Self {
        Self {
            parameters,
            losses: vec![PathLoss::new(parameters.weights); subflows],
            progress: vec![BlockProgress::new(); subflows],
            open: vec![Default::default(); subflows],
            buffers: vec![Buffer::default(); subflows],
        }
    }

    /// One recovery packet. False if there is none to send.
    fn recover(&mut self, conn: &mut Connection, io: &mut Io<'_>) -> bool {
        conn.refresh_resend_marks();
        if !fuso::budget(conn).allows_recovery() {
            return false;
        }
        let samples = fuso::samples(conn, &self.losses);
        let weights = self.parameters.path_weights;
        let Some(on) = path_choice::cofuso::best(&samples, weights) else { return false };
        let Some(of) = path_choice::cofuso::worst(&samples, weights) else { return false };
        let loss = self.parameters.fixed_rate.unwrap_or(self.losses[of.0 as usize].estimate());
        let step = self.progress[of.0 as usize].step(&self.parameters.block, loss, of, conn);
        let (of, on) = (of.0 as usize, on.0 as usize);
        let sent = match step {
            Step::Parity { block, index } => self.send_parity(conn, io, of, on, &block, index),
            Step::Resend { packet } => conn.send_copy(io, of, packet.0 as u32, on),
            Step::Nothing => false,
        };
        if sent {
            self.progress[of].on_sent(&step);
            fuso::count(&mut self.losses[on], false);
        }
        sent
    }

    fn send_parity(
        &mut self,
        conn: &mut Connection,
        io: &mut Io<'_>,
        of: usize,
        on: usize,
        block: &Block,
        index: u16,
    ) -> bool {
        let first = block.first.0 as u32;
        let (started, symbols) = &mut self.open[of];
        if index == 0 {
            *started = first;
            let packet = |seq| conn.outstanding(of, seq).map(|sent| symbol(sent.dsn, sent.payload));
            *symbols = (first..=block.last.0 as u32).filter_map(packet).collect();
        }
        let sources: Vec<&[u8]> = symbols.iter().map(|symbol| symbol.as_slice()).collect();
        let mut coded = [0; CODED];
        let whole = *started == first && sources.len() == usize::from(block.k);
        if !whole || fec::reed_solomon::encode(&sources, index as u8, &mut coded).is_err() {
            self.progress[of].abandon();
            return false;
        }
        let longest =
            symbols.iter().map(|symbol| u16::from_be_bytes([symbol[4], symbol[5]])).max().unwrap_or(0);
        let parity = Parity { sub: of, first, k: block.k, index: index as u8, symbol: coded };
        conn.send_coded(io, on, longest + PARITY_HEADER, &parity);
        true
    }

    /// Delivers what the block `first`, `k` of sub-flow `sub` gives away now.
    fn try_decode(&mut self, conn: &mut Connection, io: &mut Io<'_>, sub: usize, first: u32, k: u16) {
        let Some(rebuilt) = self.buffers[sub].decode(first, k) else { return };
        self.buffers[sub].parities.retain(|parity| (parity.first, parity.k) != (first, k));
        let capacity = usize::from(self.parameters.block.k_max);
        for (seq, found) in rebuilt {
            let [a, b, c, d, ..] = found;
            conn.deliver(io, u32::from_be_bytes([a, b, c, d]), true);
            self.buffers[sub].keep(capacity, seq, found);
        }
    }
}

impl Scheme for State {
    fn on_sent(&mut self, _conn: &mut Connection, _io: &mut Io<'_>, sub: usize, _seq: u32, again: bool) {
        fuso::count(&mut self.losses[sub], again);
    }

    fn on_opportunity(&mut self, conn: &mut Connection, io: &mut Io<'_>) {
        while self.recover(conn, io) {}
    }

    fn on_data(&mut self, conn: &mut Connection, io: &mut Io<'_>, segment: &Segment) {
        if segment.has(PARITY) {
            let parity: Parity = segment.header();
            let Some(buffer) = self.buffers.get_mut(parity.sub) else { return };
            buffer.parities.push_back(parity);
            if buffer.parities.len() > usize::from(self.parameters.block.m_max) {
                buffer.parities.pop_front();
            }
            self.try_decode(conn, io, parity.sub, parity.first, parity.k);
            return;
        }
        let sub = usize::from(segment.sub);
        let capacity = usize::from(self.parameters.block.k_max);
        self.buffers[sub].keep(capacity, segment.seq, symbol(segment.dsn, segment.payload));
        let holds =
            |parity: &&Parity| (parity.first..parity.first + u32::from(parity.k)).contains(&segment.seq);
        if let Some((first, k)) =
            self.buffers[sub].parities.iter().find(holds).map(|parity| (parity.first, parity.k))
        {
            self.try_decode(conn, io, sub, first, k);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parity_survives_its_packing() {
        let parity = Parity { sub: 3, first: 70_000, k: 255, index: 2, symbol: [1, 2, 3, 4, 5, 6, 7, 255] };
        assert_eq!(Parity::unpack(&parity.pack()), parity);
    }

    #[test]
    fn decoding_needs_as_many_parities_as_packets_are_missing() {
        let symbols: Vec<[u8; SYMBOL]> = (0..10).map(|dsn| symbol(500 + dsn, 1_440)).collect();
        let sources: Vec<&[u8]> = symbols.iter().map(|symbol| symbol.as_slice()).collect();
        let mut buffer = Buffer::default();
        for (seq, symbol) in (20..).zip(&symbols).filter(|(seq, _)| ![23, 27].contains(seq)) {
            buffer.keep(255, seq, *symbol);
        }
        for index in 0..2 {
            assert_eq!(buffer.decode(20, 10), None);
            let mut coded = [0; CODED];
            fec::reed_solomon::encode(&sources, index, &mut coded).unwrap();
            buffer.parities.push_back(Parity { sub: 0, first: 20, k: 10, index, symbol: coded });
        }
        assert_eq!(buffer.decode(20, 10).unwrap(), [(23, symbols[3]), (27, symbols[7])]);
        (100..400).for_each(|seq| buffer.keep(255, seq, symbols[0])); // overwrites the block (COF-A12)
        assert_eq!(buffer.decode(20, 10), None);
    }
}
