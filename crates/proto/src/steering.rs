//! Which worker of an endpoint a packet is for, read from its destination connection id.
//!
//! An endpoint may be several [`Endpoint`](crate::Endpoint)s that share addresses, each with its own
//! connections and its own thread. Whatever a connection lives through, new addresses and further
//! paths included, what stays is that its packets bear connection ids that its worker issued, so
//! these tell the worker: of the last four bytes, read as a number, times a secret odd factor, the
//! upper half modulo the number of workers. That is little enough for a filter in the kernel, and the
//! last four bytes are random, or a nonce, or encrypted in every kind of id that we issue. Whoever
//! issues an id tries until one leads home.
//!
//! The first packets of a client bear an id of its own choice. The same arithmetic spreads them, and
//! takes all of them to one worker from whichever address they come.
//!
//! Nobody who sees two ids can tell from them that they lead to the same worker, which would help to
//! recognise a connection that moves (RFC 9000 section 5.1). The product is no cipher, though: who
//! makes many connections of his own can work the factor out.

/// The number of workers, and the secret that spreads connection ids over them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Steering {
    factor: u32,
    workers: u32,
}

impl Steering {
    /// The most workers that there can be: issuing a connection id takes as many attempts.
    pub const MAX_WORKERS: usize = 64;

    /// Bytes of a connection id that are looked at, from its end.
    pub const BYTES: usize = 4;

    /// So many workers, within 1 and [`MAX_WORKERS`](Self::MAX_WORKERS).
    pub(crate) fn new(workers: usize, secret: u32) -> Self {
        Self { factor: secret | 1, workers: workers.clamp(1, Self::MAX_WORKERS) as u32 }
    }

    /// What the last four bytes, most significant first, are multiplied with, modulo 2^32.
    pub fn factor(&self) -> u32 {
        self.factor
    }

    /// How many workers there are; the upper 16 bits of the product are taken modulo this.
    pub fn workers(&self) -> u32 {
        self.workers
    }

    /// The worker that packets to this connection id are for. Ids of fewer than four bytes, which no
    /// endpoint of ours issues and no client may begin with, are the first one's.
    pub fn worker_of(&self, cid: &[u8]) -> usize {
        let Some(last) = cid.last_chunk::<{ Self::BYTES }>() else { return 0 };
        let product = u32::from_be_bytes(*last).wrapping_mul(self.factor);
        ((product >> 16) % self.workers) as usize
    }
}

impl core::fmt::Debug for Steering {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Steering").field("workers", &self.workers).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids that differ in one bit only, as those of a client that counts would, are spread too.
    #[test]
    fn ids_are_spread_over_all_workers() {
        for workers in [1, 2, 3, 4, 7, 64] {
            let steering = Steering::new(workers, 0x9e37_79b8);
            let mut counts = vec![0_u32; workers];
            for n in 0..64_000_u64 {
                counts[steering.worker_of(&n.to_be_bytes())] += 1;
            }
            let even = 64_000 / workers as u32;
            assert!(counts.iter().all(|n| n.abs_diff(even) < even / 4 + 1), "{workers}: {counts:?}");
        }
    }

    #[test]
    fn only_the_end_of_an_id_counts() {
        let steering = Steering::new(5, 77);
        let worker = steering.worker_of(&[1, 2, 3, 4]);
        assert_eq!(steering.worker_of(&[9, 9, 9, 9, 9, 1, 2, 3, 4]), worker);
        assert_eq!(steering.worker_of(&[2, 3, 4]), 0);
        assert!(!format!("{steering:?}").contains("77"), "no secret in a log");
    }

    #[test]
    fn the_number_of_workers_is_bounded() {
        assert_eq!(Steering::new(0, 1).workers(), 1);
        assert_eq!(Steering::new(1_000, 1).workers(), 64);
    }
}
