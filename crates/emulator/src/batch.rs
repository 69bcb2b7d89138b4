//! Packets that leave in one call.

use std::{io, net::SocketAddr};

use quinn_udp::{EcnCodepoint, Transmit};

use crate::socket::Socket;

/// The largest batch: what fits a UDP length field, with room for headers.
const LARGEST_BATCH: usize = 65_000;

/// Packets for one destination, in order, all of one size but for a shorter last one.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    segment: usize,
    segments: usize,
    ecn: Option<EcnCodepoint>,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.segments == 0
    }

    /// Whether `packet` may follow what is there.
    pub(crate) fn takes(&self, packet: &[u8], ecn: Option<EcnCodepoint>, max_segments: usize) -> bool {
        if self.is_empty() {
            return true;
        }
        let last_is_full = self.bytes.len() == self.segment * self.segments;
        // Empty packets travel alone: a segment needs a size.
        last_is_full
            && (1..=self.segment).contains(&packet.len())
            && ecn == self.ecn
            && self.segments < max_segments
            && self.bytes.len() + packet.len() <= LARGEST_BATCH
    }

    /// Appends a packet for which [`takes`](Self::takes) holds.
    pub(crate) fn push(&mut self, packet: &[u8], ecn: Option<EcnCodepoint>) {
        if self.is_empty() {
            self.segment = packet.len();
            self.ecn = ecn;
        }
        self.segments += 1;
        self.bytes.extend_from_slice(packet);
    }

    /// Sends everything and returns how many packets that were; on failure, how many were not sent,
    /// and why.
    pub(crate) fn flush(
        &mut self,
        socket: &Socket,
        destination: SocketAddr,
    ) -> Result<u64, (u64, io::Error)> {
        let segments = std::mem::take(&mut self.segments) as u64;
        if segments == 0 {
            return Ok(0);
        }
        let transmit = Transmit {
            destination,
            ecn: self.ecn,
            contents: &self.bytes,
            segment_size: (segments > 1).then_some(self.segment),
            src_ip: None,
        };
        let result = socket.send(&transmit);
        self.bytes.clear();
        result.map(|()| segments).map_err(|error| (segments, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_equal_packets_and_a_shorter_last_one() {
        let mut batch = Batch::default();
        assert!(batch.takes(&[0; 1_200], None, 1));
        batch.push(&[0; 1_200], None);
        assert!(!batch.takes(&[0; 1_200], None, 1));
        assert!(!batch.takes(&[0; 1_201], None, 64));
        assert!(!batch.takes(&[0; 1_200], Some(EcnCodepoint::Ect0), 64));
        assert!(!batch.takes(&[], None, 64));
        assert!(batch.takes(&[0; 700], None, 64));
        batch.push(&[0; 700], None);
        assert!(!batch.takes(&[0; 700], None, 64));
    }

    #[test]
    fn an_empty_packet_travels_alone() {
        let mut batch = Batch::default();
        batch.push(&[], None);
        assert!(!batch.is_empty());
        assert!(!batch.takes(&[], None, 64) && !batch.takes(&[1], None, 64));
    }
}
