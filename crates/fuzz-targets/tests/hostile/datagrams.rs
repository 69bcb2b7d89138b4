//! Floods of application datagrams.

use proto::wire::Datagram;

use crate::siege::{Siege, config};

/// Datagrams that nobody reads, of every size from nothing on: the buffer that was configured,
/// twice at most with the allocator's rounding; the oldest go.
#[test]
fn unread_datagrams_stay_within_their_buffer() {
    let config = config();
    for len in [0, 1, 20, 1_000] {
        let mut siege = Siege::of_server(&config);
        let data = vec![7; len];
        siege.flood(50_000, |_, out| Datagram { data: &data }.encode(out));
        siege.assert_open();
        // Source symbols of repair are kept too.
        let decoder = config.repair.decoder_memory as usize;
        siege.assert_memory(2 * config.datagram_receive_buffer + decoder * 3 / 2 + (128 << 10));
        assert!(siege.victim().stats().datagrams_dropped > 0);
        siege.assert_answers(1, 10);
    }
}
