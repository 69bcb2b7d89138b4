//! Flag analysis: which packets' losses cost a timeout, by their TCP flags.
//!
//! SLP section II-B, figures 3 and 4. Each combination of flags is a category; those with less than
//! 1 % of the packets are not shown, unless they are what is asked about: SYN and FIN. y = timeouts / retransmissions of the category.

use serde::Serialize;

use crate::{positions::share, retransmission::Retransmission, segment::TcpFlags};

/// Categories with a smaller share of the packets are not shown, but for SYN and FIN.
const LEAST_SHARE: f64 = 0.01;

/// One bar of figure 3.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlagCategory {
    /// The flags that are set, such as `PSH ACK`.
    pub flags: String,
    /// Packets with exactly these flags.
    pub packets: u64,
    /// Their share of all TCP packets.
    pub packet_share: f64,
    /// Retransmissions of such packets (in the sample, if there is one).
    pub retransmissions: u64,
    /// Those of them that a timeout brought about.
    pub timeouts: u64,
    /// `timeouts / retransmissions`; `null` without retransmissions.
    pub timeout_share: Option<f64>,
    /// Whether it is shown: at least 1 % of the packets (the paper's rule), or SYN or FIN, and any
    /// retransmission.
    pub shown: bool,
}

/// All categories that occur, the most frequent first. `packets` counts packets by their flags
/// byte.
pub(crate) fn categories(
    packets: &[u64; 256],
    retransmissions: &[Retransmission],
    is_timeout: impl Fn(&Retransmission) -> bool,
) -> Vec<FlagCategory> {
    let mut counts = [(0u64, 0u64); 256];
    for retransmission in retransmissions {
        let count = &mut counts[usize::from(retransmission.flags.0)];
        count.0 += 1;
        count.1 += u64::from(is_timeout(retransmission));
    }
    let total: u64 = packets.iter().sum();
    let mut categories: Vec<FlagCategory> = (0..=255u8)
        .filter(|&flags| packets[usize::from(flags)] > 0)
        .map(|flags| {
            let (packets, (retransmissions, timeouts)) =
                (packets[usize::from(flags)], counts[usize::from(flags)]);
            let packet_share = share(packets, total).unwrap_or(0.0);
            FlagCategory {
                flags: TcpFlags(flags).to_string(),
                packets,
                packet_share,
                retransmissions,
                timeouts,
                timeout_share: share(timeouts, retransmissions),
                shown: retransmissions > 0
                    && (packets as f64 >= LEAST_SHARE * total as f64
                        || TcpFlags(flags).has(TcpFlags::OCCUPIES)),
            }
        })
        .collect();
    categories.sort_by(|a, b| b.packets.cmp(&a.packets).then_with(|| a.flags.cmp(&b.flags)));
    categories
}
