//! What a connection tells about itself.

use std::time::Duration;

use crate::{NetworkPath, PathLimits, wire::PathId};

/// What a path is good for at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// Our challenge has not been answered yet.
    Validating,
    /// Carries data.
    Active,
    /// Carries data only while no active path works.
    Backup,
    /// Has stopped answering; it is probed, and data goes elsewhere.
    Suspect,
    /// Abandoned; late packets may still arrive.
    Closing,
}

/// Whether a path uses explicit congestion notification (RFC 9000 section A.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnState {
    /// The configuration says no.
    Disabled,
    /// The first packets are marked.
    Testing,
    /// Enough have been marked; nothing is known of them yet.
    Unknown,
    /// Marks arrive and are counted: every packet is marked.
    Capable,
    /// The network or the peer does not do its part: nothing is marked.
    Failed,
}

/// Live statistics of one path. Sizes in bytes of UDP payload.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PathStats {
    /// Path id.
    pub id: PathId,
    /// Its two addresses.
    pub network: NetworkPath,
    /// What it is good for.
    pub state: PathState,
    /// What the application lets it carry of this side's.
    pub limits: PathLimits,
    /// Whether the peer has shown that it receives at the addresses in use. Until then a server
    /// sends at most three times what came from there (RFC 9000 section 8).
    pub address_validated: bool,
    /// Smoothed round-trip time (RFC 9002 section 5.3).
    pub rtt: Duration,
    /// Smallest round-trip time.
    pub rtt_min: Duration,
    /// Round-trip time variation.
    pub rtt_variance: Duration,
    /// Congestion window.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Largest datagram sent.
    pub mtu: u16,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received and authenticated.
    pub packets_received: u64,
    /// Packets of the peer that have not arrived, though later ones have: lost, late, or numbers
    /// that it skipped on purpose, which are one in some hundreds. What was rebuilt counts, since
    /// the network lost it.
    pub packets_missing: u64,
    /// Gaps in the peer's packet numbers that were forgotten, the oldest first, because there were
    /// more than 4,096 below what ACKs still name. Packets of theirs that come after all are taken
    /// for duplicates.
    pub gaps_forgotten: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Their bytes.
    pub bytes_lost: u64,
    /// Of the packets declared lost, those that were acknowledged after all: reordered, not lost.
    pub spurious_losses: u64,
    /// Packets acknowledged by the peer.
    pub packets_acknowledged: u64,
    /// Packets that wait for their acknowledgement.
    pub packets_outstanding: u64,
    /// Packets whose fate is nobody's concern: those that carried nothing to be acknowledged,
    /// unanswered probes for a larger MTU, packets lost on addresses that the path has left or
    /// never ran over, packets given up together with the keys of the handshake or of 0-RTT, and of
    /// a long silence all probes but the latest hundreds.
    /// Every packet sent is counted once in `packets_acknowledged`, `packets_lost`,
    /// `packets_outstanding` or here.
    pub packets_untracked: u64,
    /// Probe timeouts since the last answer.
    pub pto_count: u32,
    /// Whether congestion marks are in use.
    pub ecn: EcnState,
    /// Packets of this path that arrived with a congestion mark (CE), as the peer reported while
    /// marks were in use.
    pub ecn_ce: u64,
    /// Loss estimate of FUSO section III-B.1, 0 to 1.
    pub loss_estimate: f64,
    /// The share of packets lost lately though no queue was full, 0 to 1; few packets count for
    /// little.
    pub chance_loss: f64,
    /// Whether datagrams that are [`steady`](crate::DatagramOptions::steady) leave it out.
    pub left_out: bool,
    /// The group of paths that meet in one bottleneck, by its least path id; `None` where none is
    /// known. The controller `auto` takes one flow's share for all paths of a group together.
    pub bottleneck: Option<PathId>,
    /// Of the packets declared lost, those that were mended: their data had reached the peer by a
    /// copy or a repair symbol when they were declared lost.
    pub packets_mended: u64,
    /// Copies that this path carried.
    pub copies_sent: u64,
    /// Repair symbols that this path carried within its window; one that a probe carries is part of
    /// the probe.
    pub repair_symbols_sent: u64,
    /// Packets of this path that the peer rebuilt from repair symbols, as far as RECOVERED told.
    /// The symbols came over whichever path carried them.
    pub packets_rebuilt_by_peer: u64,
    /// Packets that coding could not protect, because the memory for source symbols was used up.
    pub packets_unprotected: u64,
    /// How often its window was raised to what had been seen of the path before (RFC 9959).
    pub jumps: u64,
    /// How often that, or a burst with a window from before a rest, turned out to be too much.
    pub retreats: u64,
}

/// Live statistics of a connection.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// UDP payload bytes sent, all paths.
    pub bytes_sent: u64,
    /// UDP payload bytes received and accepted, all paths.
    pub bytes_received: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Packets declared lost, also on paths that are gone.
    pub packets_lost: u64,
    /// Their bytes.
    pub bytes_lost: u64,
    /// Of the packets declared lost, those that were acknowledged after all.
    pub spurious_losses: u64,
    /// Stream bytes sent for the first time.
    pub stream_bytes_sent: u64,
    /// Stream bytes that the application has read.
    pub stream_bytes_received: u64,
    /// Name of the recovery scheme in use; `cofuso (as fuso: the peer does not decode)` says that
    /// it fell back.
    pub recovery: String,
    /// What recovery did, and why.
    pub reasons: RecoveryReasons,
    /// Bytes of packets sent for recovery: copies and repair symbols.
    pub recovery_bytes_sent: u64,
    /// Copies sent.
    pub copies_sent: u64,
    /// Of these, the late copies: of data that was stuck on a slow or dead path, whatever the
    /// recovery scheme.
    pub late_copies_sent: u64,
    /// Repair symbols sent.
    pub repair_symbols_sent: u64,
    /// Repair symbols received.
    pub repair_symbols_received: u64,
    /// Received repair symbols that were used: a packet was rebuilt from them.
    pub repair_symbols_used: u64,
    /// Received repair symbols that were wasted: not needed, or not usable.
    pub repair_symbols_wasted: u64,
    /// Of those, the symbols that nothing was done about, because the peer had sent too little else
    /// to pay for the work. Honest peers never get there.
    pub repair_symbols_refused: u64,
    /// What decoding has cost: bytes multiplied and added, and 64 for every packet that was looked
    /// up.
    pub decoder_work: u64,
    /// Packets of the peer that we rebuilt.
    pub packets_rebuilt: u64,
    /// Packets of ours that the peer rebuilt, as far as RECOVERED told.
    pub packets_rebuilt_by_peer: u64,
    /// Of the packets declared lost, those that were mended: their data had reached the peer by a
    /// copy or a repair symbol when they were declared lost.
    pub packets_mended: u64,
    /// Bytes that the decoder holds, and the most it ever held.
    pub decoder_memory: u64,
    /// The most the decoder ever held.
    pub decoder_memory_peak: u64,
    /// Bytes of sent payloads kept for coding beside what the streams hold.
    pub source_memory: u64,
    /// How often a path was held to less than its window for two round trips, to find out whether
    /// another one's queue would feel it: whether they share a bottleneck.
    pub bottleneck_probes: u64,
    /// Control frames that wait to be sent.
    pub control_pending: usize,
    /// Application datagrams dropped: received ones that nobody read in time, and ones that were to be sent and
    /// that no packet can carry any more, since a path came to carry less, or that made room for those of
    /// other flows ([`DatagramOptions::flow`](crate::DatagramOptions)).
    pub datagrams_dropped: u64,
    /// Datagrams with deadlines.
    pub timed: TimedStats,
    /// Times that the keys of 1-RTT packets were updated, by either side.
    pub key_updates: u64,
    /// Packets that did not authenticate or made no sense.
    pub malformed_packets: u64,
}

/// What became of datagrams that were sent with a deadline, as far as their sender can know: when a
/// packet arrived is estimated as half a round trip after it was sent, or, for what was mended,
/// half a round trip before the news.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimedStats {
    /// Sent. Each is counted once more below as soon as its fate is known.
    pub sent: u64,
    /// Arrived in time by themselves.
    pub in_time: u64,
    /// Mended in time: repair brought them.
    pub mended: u64,
    /// Late: arrived after the deadline, or not at all as far as was heard until long enough after
    /// it.
    pub late: u64,
    /// Expired: never sent, since they could not have arrived in time.
    pub expired: u64,
    /// Sent, but not followed: in 0-RTT packets, or too many at once. Not among `sent`.
    pub unprotected: u64,
    /// Packets with repair symbols and copies sent for them.
    pub recovery_packets_sent: u64,
    /// Their bytes.
    pub recovery_bytes_sent: u64,
}

impl TimedStats {
    /// Nothing has been sent.
    pub(crate) const NONE: Self = Self {
        sent: 0,
        in_time: 0,
        mended: 0,
        late: 0,
        expired: 0,
        unprotected: 0,
        recovery_packets_sent: 0,
        recovery_bytes_sent: 0,
    };
}

/// Makes [`RecoveryReasons`] of one list of its fields.
macro_rules! recovery_reasons {
    ($($(#[$doc:meta])* $reason:ident,)*) => {
        /// What recovery did and why: packets sent for each reason, and how often nothing was sent.
        /// `slp` and `auto` keep these books; for the other schemes only the counts of copies and
        /// symbols tell.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct RecoveryReasons {
            $($(#[$doc])* pub $reason: u64,)*
        }

        impl core::ops::AddAssign for RecoveryReasons {
            fn add_assign(&mut self, other: Self) {
                $(self.$reason += other.$reason;)*
            }
        }

        impl RecoveryReasons {
            /// Every reason by its field's name, and how often it counted.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($reason), self.$reason)),*].into_iter()
            }
        }
    };
}

recovery_reasons! {
    /// Datagrams of the handshake's flights that left once more, because their loss would cost a
    /// timeout.
    handshake,
    /// Copies of packets that ended a write of the application (`slp`).
    end_of_write,
    /// Copies of packets that ended a stream, but no write (`slp`).
    end_of_stream,
    /// Copies of other packets, since losses of their kind have led to timeouts (`slp`).
    learnt,
    /// Copies of all that was un-ACKed, since it fits one packet (`auto`).
    single,
    /// Repair symbols, because a block of un-ACKed packets might have stayed incomplete (`auto`).
    block,
    /// Copies instead of symbols, because the peer does not decode or the payloads were not kept
    /// (`auto`).
    uncoded,
    /// Times that a silent path's data moved to another at its probe timeout (`auto`).
    moved,
    /// Copies that followed the probes of a timeout, while no other path worked (`auto`).
    after_silence,
    /// Times that un-ACKed packets were probable enough to arrive as they were (`auto`).
    not_needed,
    /// Times that repair was wanted and the budget for it was used up (`auto`).
    no_budget,
    /// Times that repair was wanted and no path had room in its window (`auto`).
    no_window,
    /// Times that repair was wanted and left out, since it mends next to nothing on the path
    /// (`auto`).
    in_vain,
}
