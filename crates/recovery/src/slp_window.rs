//! SLP's window rule: duplicates live under the congestion window, one at a time.
//!
//! SLP section II-C2 and figure 6, in bytes of a sequence space: TCP's, or any in which data is
//! numbered in sending order.
//!
//! | paper                   | here                                     | unit     |
//! |-------------------------|------------------------------------------|----------|
//! | dup_bytes, dup_seq      | [`DuplicateWindow`]                      | bytes, sequence |
//! | win                     | [`DuplicateWindow::window`]              | bytes    |
//! | cwnd, rwnd              | [`Windows`]                              | bytes    |
//! | high_acked              | [`Windows::acked`]                       | sequence |
//! | next                    | `next`                                   | sequence |
//! | pacing                  | [`gap`]                                  | time     |
//!
//! # Departures
//! - An ACK names the next byte expected, so n bytes of the duplicate are covered and dup_seq moves
//!   by n (SLP-A2).
//! - A duplicate may exactly fill the window; the paper's strict comparison is an option (SLP-A3).
//! - A timeout clears the duplicate; if the window is smaller than the duplicate, one packet may
//!   still leave when nothing is in flight (SLP-A8).
//! - The gap between original and duplicate, which the paper does not give, is one packet's share
//!   of the RTT (SLP-A9).
//!
//! # Invariants
//! At most one duplicate at a time; with it, no more than cwnd is ever allowed beyond what is
//! ACKed.

use units::Duration;

/// The gap for the first packet of a connection, whose RTT nobody knows (SLP-A9).
pub const HANDSHAKE_GAP: Duration = Duration::from_millis(1);

/// What limits the sender now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Windows {
    /// high_acked: everything below is acknowledged.
    pub acked: u64,
    /// cwnd, in bytes.
    pub congestion: u64,
    /// rwnd, in bytes.
    pub receive: u64,
}

/// The duplicate that is under way, and what it takes from the window.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct DuplicateWindow {
    strict: bool,
    dup_seq: u64,
    dup_bytes: u64,
}

impl DuplicateWindow {
    /// No duplicate is under way.
    pub fn new() -> Self {
        Self::default()
    }

    /// The paper's reading, in which a duplicate must leave room to spare (SLP-A3).
    pub fn strict() -> Self {
        Self { strict: true, ..Self::default() }
    }

    /// dup_bytes: what the duplicate takes from the congestion window, in bytes.
    pub fn duplicated(&self) -> u64 {
        self.dup_bytes
    }

    /// win: how far beyond the acknowledged data the sender may go, in bytes.
    pub fn window(&self, windows: &Windows) -> u64 {
        windows.congestion.saturating_sub(self.dup_bytes).min(windows.receive)
    }

    /// Whether a packet of `bytes` with first byte `next` may be sent, duplicated or not.
    pub fn may_send(&self, next: u64, bytes: u64, windows: &Windows) -> bool {
        let nothing_in_flight = next <= windows.acked;
        let end = next.saturating_add(bytes);
        end <= windows.acked.saturating_add(self.window(windows))
            || (nothing_in_flight && bytes <= windows.receive)
    }

    /// Whether a packet of `bytes` with first byte `next`, not sent yet, may be sent twice.
    pub fn may_duplicate(&self, next: u64, bytes: u64, windows: &Windows) -> bool {
        let fits = |end: u64, limit: u64| if self.strict { end < limit } else { end <= limit };
        let twice = next.saturating_add(bytes.saturating_mul(2));
        self.dup_bytes == 0
            && fits(twice, windows.acked.saturating_add(windows.congestion))
            && fits(next.saturating_add(bytes), windows.acked.saturating_add(windows.receive))
    }

    /// The packet of `bytes` with first byte `next` is sent twice.
    pub fn on_duplicated(&mut self, next: u64, bytes: u64) {
        self.dup_seq = next;
        self.dup_bytes = bytes;
    }

    /// Everything below `acked` is acknowledged.
    pub fn on_ack(&mut self, acked: u64) {
        let covered = acked.saturating_sub(self.dup_seq).min(self.dup_bytes);
        self.dup_seq += covered;
        self.dup_bytes -= covered;
        if self.dup_bytes == 0 {
            self.dup_seq = 0;
        }
    }

    /// A retransmission timeout: nothing is in flight any more.
    pub fn on_timeout(&mut self) {
        self.dup_seq = 0;
        self.dup_bytes = 0;
    }
}

/// Time between a packet and its duplicate, so that one burst does not take both: the smoothed RTT
/// over the window in packets, and no less than `packet_time`, the time that one packet takes on
/// the link (SLP-A9).
pub fn gap(smoothed_rtt: Duration, window_packets: u64, packet_time: Duration) -> Duration {
    (smoothed_rtt / window_packets.max(1)).max(packet_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1_000;
    const TEN: Windows = Windows { acked: 0, congestion: 10 * MSS, receive: 100 * MSS };

    #[test]
    fn the_ninth_packet_of_ten_may_be_duplicated_unless_strict() {
        let (relaxed, strict) = (DuplicateWindow::new(), DuplicateWindow::strict());
        assert!(relaxed.may_duplicate(8 * MSS, MSS, &TEN) && !strict.may_duplicate(8 * MSS, MSS, &TEN));
        assert!(strict.may_duplicate(7 * MSS, MSS, &TEN));
        assert!(!relaxed.may_duplicate(9 * MSS, MSS, &TEN));
        let two = Windows { congestion: 2 * MSS, ..TEN };
        assert!(relaxed.may_duplicate(0, MSS, &two) && !strict.may_duplicate(0, MSS, &two));
        let narrow = Windows { receive: 4 * MSS, ..TEN };
        assert!(
            relaxed.may_duplicate(3 * MSS, MSS, &narrow) && !relaxed.may_duplicate(4 * MSS, MSS, &narrow)
        );
    }

    #[test]
    fn a_duplicate_takes_window_until_it_is_acknowledged() {
        let mut window = DuplicateWindow::new();
        window.on_duplicated(2 * MSS, MSS);
        assert_eq!(window.window(&TEN), 9 * MSS);
        assert!(!window.may_duplicate(3 * MSS, MSS, &TEN)); // one at a time
        assert!(window.may_send(8 * MSS, MSS, &TEN) && !window.may_send(9 * MSS, MSS, &TEN));

        window.on_ack(2 * MSS); // not yet
        assert_eq!(window.duplicated(), MSS);
        window.on_ack(2 * MSS + 400); // part of it
        assert_eq!(window.duplicated(), 600);
        window.on_ack(2 * MSS + 400); // the same again
        assert_eq!(window.duplicated(), 600);
        window.on_ack(5 * MSS); // beyond
        assert_eq!(window, DuplicateWindow::new());
    }

    #[test]
    fn a_small_window_still_sends_one_packet() {
        let mut window = DuplicateWindow::new();
        window.on_duplicated(0, MSS);
        let one = Windows { acked: 500, congestion: MSS / 2, receive: 10 * MSS };
        assert_eq!(window.window(&one), 0);
        assert!(window.may_send(500, MSS, &one));
        assert!(!window.may_send(600, MSS, &one));
        window.on_timeout();
        assert_eq!(window.window(&one), MSS / 2);
    }

    #[test]
    fn never_beyond_the_congestion_window() {
        for window in [DuplicateWindow::new(), DuplicateWindow::strict()] {
            for next in 0..12 {
                if window.may_duplicate(next * MSS, MSS, &TEN) {
                    let mut after = window;
                    after.on_duplicated(next * MSS, MSS);
                    assert!(after.may_send(next * MSS, MSS, &TEN), "the original itself must fit");
                    assert!((next + 2) * MSS <= TEN.congestion);
                }
            }
        }
    }

    #[test]
    fn gap_is_a_packets_share_of_the_rtt() {
        let ms = Duration::from_millis;
        assert_eq!(gap(ms(100), 20, ms(1)), ms(5));
        assert_eq!(gap(ms(100), 1_000, ms(1)), ms(1));
        assert_eq!(gap(ms(100), 0, ms(1)), ms(100));
    }
}
