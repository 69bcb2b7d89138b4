//! Position analysis: are losses near a connection's head and tail more likely to cost a timeout?
//!
//! SLP section II-B, figures 1 and 2. Each one-way connection is split at its middle packet; the
//! first half counts from the start, the second from the end. y = timeouts / all retransmissions at
//! that index (SLP-A13), not per packet.

use serde::Serialize;

use crate::{
    direction::FURTHEST,
    retransmission::{Half, Heading, Position, Retransmission},
};

/// Indices with fewer retransmissions are not drawn (SLP-A13).
pub(crate) const LEAST_SHOWN: u64 = 20;

/// Timeouts among retransmissions.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize)]
pub struct Share {
    /// The position, from 1.
    pub index: u32,
    /// Retransmissions of packets there.
    pub retransmissions: u64,
    /// Those of them that a timeout brought about.
    pub timeouts: u64,
    /// `timeouts / retransmissions`; `null` without retransmissions.
    pub timeout_share: Option<f64>,
    /// Whether there are enough to be drawn: 20.
    pub shown: bool,
}

/// One panel of figure 1.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PositionSeries {
    /// Which way the packets went.
    pub heading: Heading,
    /// Which half of the connection.
    pub half: Half,
    /// Positions with at least one retransmission, at most 100.
    pub points: Vec<Share>,
}

/// All panels that have at least one retransmission.
pub(crate) fn positions(
    retransmissions: &[Retransmission],
    is_timeout: impl Fn(&Retransmission) -> bool,
) -> Vec<PositionSeries> {
    let mut counts = vec![(0u64, 0u64); 3 * 2 * FURTHEST as usize];
    let place = |heading: Heading, half: Half, index: usize| {
        ((heading as usize * 2) + half as usize) * FURTHEST as usize + index
    };
    for retransmission in retransmissions {
        let Position::At(half, index) = retransmission.position else { continue };
        let count = &mut counts[place(retransmission.heading, half, index as usize - 1)];
        count.0 += 1;
        count.1 += u64::from(is_timeout(retransmission));
    }
    let mut series = Vec::new();
    for heading in Heading::ALL {
        for half in [Half::First, Half::Second] {
            let points: Vec<Share> = (0..FURTHEST)
                .map(|i| (i + 1, counts[place(heading, half, i as usize)]))
                .filter(|(_, (retransmissions, _))| *retransmissions > 0)
                .map(|(index, (retransmissions, timeouts))| Share {
                    index,
                    retransmissions,
                    timeouts,
                    timeout_share: share(timeouts, retransmissions),
                    shown: retransmissions >= LEAST_SHOWN,
                })
                .collect();
            if !points.is_empty() {
                series.push(PositionSeries { heading, half, points });
            }
        }
    }
    series
}

/// `part / of` to four places; `None` of nothing.
pub(crate) fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| (part as f64 / of as f64 * 1e4).round() / 1e4)
}
