//! Packets that were rebuilt: those of the peer here, and those of ours there (RECOVERED,
//! docs/wire-format.md).

use units::Instant;

use crate::{
    connection::{Connection, frames::FrameContext},
    crypto::Level,
    path::sent::{Content, ControlFrame},
    wire::{PathId, Recovered, TransportError, TransportErrorCode},
};

impl Connection {
    /// A packet arrived that may be a source symbol: it is kept, and may complete a block.
    pub(in crate::connection) fn on_source_packet(
        &mut self,
        now: Instant,
        path: PathId,
        number: u64,
        plaintext: &[u8],
    ) -> Result<(), TransportError> {
        // Nothing is kept for a peer that may not send repair symbols to us.
        if !self.config.repair.accept || !self.peer.repair {
            return Ok(());
        }
        let rebuilt = self.repair.decoder.on_source(path, number, plaintext);
        let of_blocks = self.repair.decoder.on_block_source(path, number, plaintext);
        for (number, plaintext) in rebuilt {
            self.on_rebuilt(now, path, number, &plaintext)?;
        }
        self.on_rebuilt_in_block(now, of_blocks)
    }

    /// Deals with the frames of a rebuilt packet and tells the sender.
    pub(super) fn on_rebuilt(
        &mut self,
        now: Instant,
        path: PathId,
        packet: u64,
        plaintext: &[u8],
    ) -> Result<(), TransportError> {
        // A symbol too many may rebuild what has arrived: its frames must not be processed twice.
        if !self.paths.get_mut(&path).is_some_and(|path| path.on_rebuilt(packet)) {
            return Ok(());
        }
        let context = FrameContext { rebuilt: true, ..FrameContext::new(Level::OneRtt, path) };
        self.observe_received(now, &context, packet, plaintext);
        self.on_payload(now, context, plaintext)?;
        self.queue_control(ControlFrame::Recovered { path })
    }

    /// The peer rebuilt packets of ours: their data has arrived, though their path lost them.
    pub(in crate::connection) fn on_recovered(
        &mut self,
        now: Instant,
        recovered: &Recovered<'_>,
    ) -> Result<(), TransportError> {
        let Some(path) = self.paths.get(&recovered.path) else { return Ok(()) };
        if recovered.packets.largest() >= path.space().next_number() {
            let reason = "RECOVERED for a packet that was never sent";
            return Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason));
        }
        // Like one that was lost: what it tells of is sent again.
        if !self.repair.decoder.admits_recovered(recovered) {
            return Ok(());
        }
        for number in recovered.packets.packets() {
            self.on_timed_mended(now, recovered.path, number);
            let Some(news) = self.on_rebuilt_by_peer(now, recovered.path, number) else { break };
            if news {
                self.stats.packets_rebuilt_by_peer += 1;
                if let Some(path) = self.paths.get_mut(&recovered.path) {
                    path.count_rebuilt_by_peer();
                }
            }
        }
        Ok(())
    }

    /// The peer says that it has rebuilt this packet of ours. Returns whether that is news; `None` if
    /// the path has gone. A report may come twice; what is no longer on record shows by what was
    /// waiting for it.
    fn on_rebuilt_by_peer(&mut self, now: Instant, id: PathId, number: u64) -> Option<bool> {
        let path = self.paths.get_mut(&id)?;
        let Some(packet) = path.sent_mut(number) else {
            let mended = self.note_mended(now, id, number);
            return Some(self.cover_in_blocks(now, id, number, None) || mended);
        };
        if packet.is_rebuilt() {
            return Some(false);
        }
        packet.on_arrived(Content::Rebuilt);
        self.streams.on_acked(&packet.frames.streams);
        for range in &packet.frames.crypto {
            self.handshake.crypto_mut(Level::OneRtt).on_acked(*range);
        }
        let control = core::mem::take(&mut packet.frames.control);
        let block = packet.block();
        self.on_control_delivered(&control);
        self.cover_in_blocks(now, id, number, block);
        Some(true)
    }
}
