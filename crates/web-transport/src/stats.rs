//! A session's statistics.

use mendpath::{Connection, ConnectionStats, PathState, PathStats};

/// Statistics of a session at one moment: those of its connection, over all its paths.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SessionStats {
    /// UDP payload bytes sent.
    pub bytes_sent: u64,
    /// UDP payload bytes received.
    pub bytes_received: u64,
    /// Bytes of the packets declared lost.
    pub bytes_lost: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// The smoothed round-trip time of the fastest open path.
    pub rtt: Option<std::time::Duration>,
    /// What the congestion windows of all open paths let out, in bits per second.
    pub send_rate: Option<u64>,
}

impl SessionStats {
    pub(crate) fn of(connection: &Connection) -> Self {
        Self::from_parts(&connection.stats(), &connection.path_stats())
    }

    /// What has happened on paths that are gone is in `total` alone.
    fn from_parts(total: &ConnectionStats, paths: &[PathStats]) -> Self {
        let open = || paths.iter().filter(|path| path.state != PathState::Closing && !path.rtt.is_zero());
        let rate: f64 = open().map(|path| path.window as f64 * 8.0 / path.rtt.as_secs_f64()).sum();
        Self {
            bytes_sent: total.bytes_sent,
            bytes_received: total.bytes_received,
            bytes_lost: total.bytes_lost,
            packets_sent: total.packets_sent,
            packets_received: total.packets_received,
            packets_lost: total.packets_lost,
            rtt: open().map(|path| path.rtt).min(),
            send_rate: (rate > 0.0).then_some(rate as u64),
        }
    }
}

/// Both versions of the trait ask the same.
macro_rules! statistics {
    ($traits:path) => {
        const _: () = {
            use $traits as traits;

            impl traits::Stats for SessionStats {
                fn bytes_sent(&self) -> Option<u64> {
                    Some(self.bytes_sent)
                }

                fn bytes_received(&self) -> Option<u64> {
                    Some(self.bytes_received)
                }

                fn bytes_lost(&self) -> Option<u64> {
                    Some(self.bytes_lost)
                }

                fn packets_sent(&self) -> Option<u64> {
                    Some(self.packets_sent)
                }

                fn packets_received(&self) -> Option<u64> {
                    Some(self.packets_received)
                }

                fn packets_lost(&self) -> Option<u64> {
                    Some(self.packets_lost)
                }

                fn rtt(&self) -> Option<std::time::Duration> {
                    self.rtt
                }

                fn estimated_send_rate(&self) -> Option<u64> {
                    self.send_rate
                }
            }
        };
    };
}

statistics!(web_transport_trait);
#[cfg(feature = "trait-0-4")]
statistics!(trait_0_4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_on_paths_that_are_gone_counts() {
        let mut total = ConnectionStats::default();
        (total.packets_lost, total.bytes_lost) = (2, 2_400);
        let stats = SessionStats::from_parts(&total, &[]);
        assert_eq!((stats.packets_lost, stats.bytes_lost), (2, 2_400));
    }
}
