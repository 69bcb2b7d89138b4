//! Packets under way, in slots that are used again.

use super::Packet;

/// Holds packets by number; slots are taken again, last freed first, so that the pool stays in the cache.
#[derive(Debug)]
pub(super) struct Pool<B> {
    slots: Vec<Packet<B>>,
    free: Vec<u32>,
    limit: u32,
}

impl<B: Default> Pool<B> {
    /// A pool of at most `limit` packets.
    pub(super) fn new(limit: u32) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), limit }
    }

    /// Keeps `packet`; `None` when the pool is full.
    #[inline]
    pub(super) fn insert(&mut self, packet: Packet<B>) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = packet;
            return Some(slot);
        }
        let slot = u32::try_from(self.slots.len()).ok().filter(|slot| *slot < self.limit)?;
        self.slots.push(packet);
        Some(slot)
    }

    #[inline]
    pub(super) fn packet(&mut self, slot: u32) -> &mut Packet<B> {
        &mut self.slots[slot as usize]
    }

    /// Takes the packet out.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> Packet<B> {
        self.free.push(slot);
        let packet = &mut self.slots[slot as usize];
        let body = std::mem::take(&mut packet.body);
        let Packet { src, dst, label, size, ecn, class, .. } = *packet;
        Packet { src, dst, label, size, ecn, class, body }
    }

    /// Drops the packet.
    #[inline]
    pub(super) fn discard(&mut self, slot: u32) {
        self.slots[slot as usize].body = B::default();
        self.free.push(slot);
    }

    /// Packets that it holds.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
