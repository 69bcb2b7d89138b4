//! Numbers and bytes from a stream, as they are needed and not beyond: what follows may be the
//! application's.

use mendpath::RecvStream;
use web_transport_proto::VarInt;

use super::{
    capsules::Ended,
    rules::{Broken, FRAME_ERROR},
};

/// Bytes of the peer.
pub(crate) trait Source {
    /// What it is if they end within something.
    const CUT: Broken;

    /// Reads at least a byte, and says how many; 0 at the end.
    async fn some(&mut self, buffer: &mut [u8]) -> Result<usize, Ended>;

    async fn exact(&mut self, mut buffer: &mut [u8]) -> Result<(), Ended> {
        while !buffer.is_empty() {
            match self.some(buffer).await? {
                0 => return Err(Self::CUT.into()),
                read => buffer = &mut buffer[read..],
            }
        }
        Ok(())
    }

    async fn skip(&mut self, mut length: u64) -> Result<(), Ended> {
        let mut scratch = [0; 512];
        while length > 0 {
            let most = length.min(scratch.len() as u64);
            self.exact(&mut scratch[..most as usize]).await?;
            length -= most;
        }
        Ok(())
    }

    /// The number that something begins with; `None` at the end.
    async fn begins(&mut self) -> Result<Option<VarInt>, Ended> {
        let mut bytes = [0; 8];
        if self.some(&mut bytes[..1]).await? == 0 {
            return Ok(None);
        }
        let length = 1 << (bytes[0] >> 6);
        self.exact(&mut bytes[1..length]).await?;
        Ok(VarInt::decode(&mut &bytes[..length]).ok())
    }

    async fn varint(&mut self) -> Result<VarInt, Ended> {
        Ok(self.begins().await?.ok_or(Self::CUT)?)
    }
}

impl Source for RecvStream {
    /// RFC 9114 section 7.1.
    const CUT: Broken = Broken(FRAME_ERROR, "a frame was cut off");

    async fn some(&mut self, buffer: &mut [u8]) -> Result<usize, Ended> {
        Ok(self.read(buffer).await?.unwrap_or(0))
    }
}
