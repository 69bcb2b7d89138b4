//! Trimming: a port whose queue is short, and which takes the payload of what does not fit instead
//! of the packet (Handley et al., "Re-architecting datacenter networks and stacks for low latency
//! and high performance", SIGCOMM 2017: NDP).
//!
//! Two queues: one of data, and one of headers and of what NDP's hosts tell each other. Where both
//! wait, so many headers are sent for each packet of data: headers come first, and do not starve
//! data. Which packet is trimmed is a coin's matter: the one that arrives, or the last in the
//! queue, so that senders in step do not lose always or never.
//!
//! | paper                                   | here                          |
//! |-----------------------------------------|-------------------------------|
//! | 8 packets of data                       | [`Trim::packets`]             |
//! | as much memory for headers              | [`Trim::header_queue_bytes`]  |
//! | weighted round robin, 10 headers to 1   | [`Trim::headers_per_packet`]  |
//! | headers of 64 bytes                     | [`Trim::header_bytes`]        |
//! | a packet of an NDP flow                 | [`Class::Trimmable`]          |
//! | a header, ACK, NACK or PULL             | [`Class::Header`]             |
//!
//! Packets of other classes share the queue of data, and have its limit and its marks: to them, the
//! port is what it was without trimming.
//!
//! # Departures
//! - A header that finds no room is dropped. The paper returns it to its sender, who else waits for
//!   a timeout; here it waits.

use super::Class;
use crate::Rng;

/// Parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trim {
    /// So many packets may wait in the queue of data for a [`Class::Trimmable`] one to join them.
    /// Default 8.
    pub packets: u32,
    /// What is left of a packet, in bytes. Default 64.
    pub header_bytes: u32,
    /// How much may wait in the queue of headers, in bytes. Default 12,000: eight packets of 1,500.
    pub header_queue_bytes: u64,
    /// Headers that are sent for each packet of data, where both wait; at least 1. Default 10.
    pub headers_per_packet: u32,
}

impl Default for Trim {
    fn default() -> Self {
        Self { packets: 8, header_bytes: 64, header_queue_bytes: 12_000, headers_per_packet: 10 }
    }
}

/// What waits at the port, when a packet arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// Packets of data.
    pub packets: u32,
    /// Bytes of headers.
    pub header_bytes: u64,
    /// Whether the arriving packet would keep to the limit of the line's queue.
    pub has_room: bool,
    /// Whether the last packet of data is [`Class::Trimmable`].
    pub last_is_trimmable: bool,
}

/// What becomes of a packet that arrives while another is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It joins the queue of data.
    Data,
    /// It joins the queue of headers as it is.
    Header,
    /// It is trimmed, and its header joins the queue of headers.
    Trim,
    /// It takes the place of the last packet in the queue of data, which is trimmed.
    TrimLast,
    /// It is dropped.
    Drop,
}

/// A port's coin, and how many headers went before data.
#[derive(Clone, Debug)]
pub struct State {
    parameters: Trim,
    rng: Rng,
    /// Headers sent since the last packet of data, while both waited.
    headers: u32,
}

impl State {
    /// That of an empty port.
    pub fn new(parameters: Trim, rng: Rng) -> Self {
        Self { parameters, rng, headers: 0 }
    }

    /// What is left of a packet of `size` bytes.
    pub fn trimmed(&self, size: u32) -> u32 {
        size.min(self.parameters.header_bytes)
    }

    /// Whether a header of `size` bytes has room.
    pub fn has_room_for_header(&self, waiting: u64, size: u32) -> bool {
        waiting + u64::from(size) <= self.parameters.header_queue_bytes
    }

    /// A packet of `class` and `size` arrives while another is sent.
    pub fn on_arrival(&mut self, class: Class, size: u32, waiting: Waiting) -> Verdict {
        match class {
            Class::Header if self.has_room_for_header(waiting.header_bytes, size) => Verdict::Header,
            Class::Header => Verdict::Drop,
            Class::Trimmable => self.on_trimmable(size, waiting),
            _ if waiting.has_room => Verdict::Data,
            _ => Verdict::Drop,
        }
    }

    fn on_trimmable(&mut self, size: u32, waiting: Waiting) -> Verdict {
        if waiting.has_room && waiting.packets < self.parameters.packets {
            return Verdict::Data;
        }
        // The last one's place is as large as itself: where the line's own limit is what is short,
        // exchanging the two might not help.
        if waiting.has_room && waiting.last_is_trimmable && self.rng.chance(0.5) {
            return Verdict::TrimLast;
        }
        let fits = self.has_room_for_header(waiting.header_bytes, self.trimmed(size));
        if fits { Verdict::Trim } else { Verdict::Drop }
    }

    /// Whether the next transmission is a header's, of those that wait: `data` and `headers` of
    /// them, not both none.
    pub fn next_is_header(&mut self, data: usize, headers: usize) -> bool {
        if data == 0 || headers == 0 {
            self.headers = 0;
            return headers > 0;
        }
        let header = self.headers < self.parameters.headers_per_packet;
        self.headers = if header { self.headers + 1 } else { 0 };
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    fn state(trim: Trim) -> State {
        State::new(trim, Rng::new(Seed(1)))
    }

    const NOTHING: Waiting =
        Waiting { packets: 0, header_bytes: 0, has_room: true, last_is_trimmable: false };

    #[test]
    fn the_ninth_is_trimmed_or_the_eighth_by_a_coin() {
        let mut state = state(Trim::default());
        for packets in 0..8 {
            let waiting = Waiting { packets, last_is_trimmable: packets > 0, ..NOTHING };
            assert_eq!(state.on_arrival(Class::Trimmable, 1_500, waiting), Verdict::Data);
        }
        let full = Waiting { packets: 8, last_is_trimmable: true, ..NOTHING };
        let verdicts: Vec<_> = (0..1_000).map(|_| state.on_arrival(Class::Trimmable, 1_500, full)).collect();
        let of = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
        assert_eq!(of(Verdict::Trim) + of(Verdict::TrimLast), 1_000);
        assert!((440..560).contains(&of(Verdict::Trim)), "{}", of(Verdict::Trim));
        // Whoever does not want to be trimmed keeps its place.
        let others = Waiting { last_is_trimmable: false, ..full };
        assert!((0..50).all(|_| state.on_arrival(Class::Trimmable, 1_500, others) == Verdict::Trim));
    }

    #[test]
    fn others_have_the_limit_of_the_line() {
        let mut state = state(Trim::default());
        let long = Waiting { packets: 80, ..NOTHING };
        for class in [Class::Data, Class::ShortData, Class::Control] {
            assert_eq!(state.on_arrival(class, 1_500, long), Verdict::Data);
            let full = Waiting { has_room: false, ..long };
            assert_eq!(state.on_arrival(class, 1_500, full), Verdict::Drop);
        }
        let full = Waiting { packets: 3, has_room: false, last_is_trimmable: true, header_bytes: 0 };
        assert!((0..50).all(|_| state.on_arrival(Class::Trimmable, 1_500, full) == Verdict::Trim));
    }

    #[test]
    fn headers_have_a_limit_of_their_own() {
        let mut state = state(Trim { header_queue_bytes: 128, ..Trim::default() });
        let waiting = |header_bytes| Waiting { packets: 8, header_bytes, ..NOTHING };
        assert_eq!(state.on_arrival(Class::Header, 64, waiting(64)), Verdict::Header);
        assert_eq!(state.on_arrival(Class::Header, 64, waiting(65)), Verdict::Drop);
        assert_eq!(state.on_arrival(Class::Trimmable, 1_500, waiting(64)), Verdict::Trim);
        assert_eq!(state.on_arrival(Class::Trimmable, 1_500, waiting(65)), Verdict::Drop);
        assert_eq!((state.trimmed(1_500), state.trimmed(40)), (64, 40));
    }

    #[test]
    fn ten_headers_go_before_a_packet_of_data_and_no_more() {
        let mut state = state(Trim::default());
        let order: Vec<bool> = (0..22).map(|_| state.next_is_header(5, 50)).collect();
        let expected: Vec<bool> = (0..22).map(|n| n % 11 != 10).collect();
        assert_eq!(order, expected);
        // Alone, either goes at once, and the count begins anew.
        assert!((0..3).all(|_| state.next_is_header(5, 50)));
        assert!(!state.next_is_header(5, 0));
        assert!(state.next_is_header(0, 1));
        assert_eq!((0..11).filter(|_| state.next_is_header(5, 50)).count(), 10);
    }
}
