//! Whether all that happens is that stream data comes in: then nobody waits for the next packet by
//! itself, and who reads the socket may let some gather.

use units::{Duration, Instant};

use super::Connection;

/// Packets of a run before it counts as a bulk transfer: 0.7 MB, which no short response has.
const BULK_AFTER: u32 = 512;
/// Packets over which the time between them is measured.
const STRETCH: u32 = 256;
/// Packets between two gaps of one number each that end no run: so many at least lie between two
/// numbers that a sender leaves out on purpose (RFC 9000 section 21.4).
const BETWEEN_GAPS: u32 = 128;
/// Datagrams of a run have at most so many bytes: of jumbo ones, those of a millisecond would fill a
/// socket's buffer of the usual size.
const LARGEST_GATHERED: u64 = 1_500;
/// Silence that ends a run: who sent all there was has left the rest of the time to us.
const SILENCE: Duration = Duration::from_millis(20);

/// Packets of stream data that came in order on every path, with nothing else happening.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BulkRun {
    packets: u32,
    /// Those since a number was left out.
    since_gap: u32,
    /// When the last of them came.
    last: Instant,
    /// When the stretch began that is being measured.
    stretch: Instant,
    /// Between two packets of the last whole stretch, in the mean.
    interval: Duration,
}

impl BulkRun {
    /// Whether a packet goes on with the run, before which so many numbers are missing.
    fn may_follow(&mut self, missing: u64) -> bool {
        let left_out = missing == 1 && self.since_gap >= BETWEEN_GAPS;
        if left_out {
            self.since_gap = 0;
        }
        left_out || missing == 0
    }

    /// A packet of stream data has come that goes on with the run.
    fn on_data(&mut self, now: Instant) {
        if now.saturating_duration_since(self.last) > SILENCE {
            *self = Self { stretch: now, ..Self::default() };
        }
        self.last = now;
        self.packets = self.packets.saturating_add(1);
        self.since_gap = self.since_gap.saturating_add(1);
        if self.packets.is_multiple_of(STRETCH) {
            let took = now.saturating_duration_since(self.stretch);
            self.interval = Duration::from_nanos(took.as_nanos() / u64::from(STRETCH));
            self.stretch = now;
        }
    }

    /// Something else has happened.
    fn end(&mut self) {
        *self = Self::default();
    }

    fn interval(&self) -> Option<Duration> {
        (self.packets >= BULK_AFTER).then_some(self.interval)
    }
}

impl Connection {
    /// The time between two packets of stream data, in the mean over the last hundreds, if for long
    /// nothing has happened but that such packets came: at least 512 of them, in order on every path, in
    /// datagrams of at most 1,500 bytes, without a silence of more than 20 ms, and with nothing sent
    /// meanwhile but ACKs, credit and probes. `None` otherwise.
    ///
    /// Who reads the socket may then let packets gather for a fraction of a round trip, which saves
    /// wake-ups and ACKs (docs/decisions/0038-packets-that-gather.md). Packets that are missing end
    /// it, so that losses are told, and mended, at once; a single one after 128 others does not, since
    /// senders leave numbers out.
    pub fn bulk_interval(&self) -> Option<Duration> {
        self.bulk.interval()
    }

    /// A packet has come in a datagram of `size` bytes, where `expected` was the number that is next on
    /// its path.
    pub(super) fn note_arrival(
        &mut self,
        now: Instant,
        number: u64,
        expected: u64,
        size: u64,
        has_stream_data: bool,
    ) {
        let in_order = number.checked_sub(expected).is_some_and(|missing| self.bulk.may_follow(missing));
        if !in_order || size > LARGEST_GATHERED {
            self.bulk.end();
        } else if has_stream_data {
            self.bulk.on_data(now);
        }
    }

    /// The application has something to say, or hears what is of use for a short time only.
    pub(super) fn end_bulk_run(&mut self) {
        self.bulk.end();
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{self, client},
        *,
    };

    const SIZE: u64 = 1_452;

    fn at(micros: u64) -> Instant {
        Instant::ORIGIN + Duration::from_micros(micros)
    }

    /// Packets of stream data without a gap, one every `interval` microseconds.
    fn receive(connection: &mut Connection, from: u64, interval: u64, packets: u64) {
        (0..packets).for_each(|n| connection.note_arrival(at(from + interval * n), n, n, SIZE, true));
    }

    fn after(packets: u64) -> Connection {
        let mut connection = client();
        receive(&mut connection, 0, 100, packets);
        connection
    }

    const EVERY_100_US: Option<Duration> = Some(Duration::from_micros(100));

    #[test]
    fn a_long_run_in_order_tells_its_interval() {
        assert_eq!(after(511).bulk_interval(), None);
        assert_eq!(after(512).bulk_interval(), EVERY_100_US);
        let mut connection = after(600);
        connection.note_arrival(at(60_010), 600, 600, SIZE, false);
        assert_eq!(connection.bulk_interval(), EVERY_100_US, "credit, repair");
    }

    #[test]
    fn a_number_that_the_sender_left_out_does_not_end_it() {
        let mut connection = after(600);
        connection.note_arrival(at(60_000), 601, 600, SIZE, true);
        receive(&mut connection, 60_100, 100, 127);
        assert_eq!(connection.bulk_interval(), EVERY_100_US);
        connection.note_arrival(at(72_800), 730, 729, SIZE, true);
        assert_eq!(connection.bulk_interval(), EVERY_100_US);
        connection.note_arrival(at(72_900), 732, 731, SIZE, true);
        assert_eq!(connection.bulk_interval(), None, "too soon after another");
    }

    #[test]
    fn gaps_silence_and_the_applications_words_end_it() {
        let ends: [fn(&mut Connection); 6] = [
            |connection| connection.note_arrival(at(60_000), 602, 600, SIZE, true),
            |connection| connection.note_arrival(at(60_000), 598, 600, SIZE, true),
            |connection| connection.note_arrival(at(80_000), 600, 600, SIZE, true),
            |connection| connection.note_arrival(at(60_000), 600, 600, 8_972, true),
            |connection| _ = tests::receive(connection, b"\x30datagram").unwrap(),
            Connection::end_bulk_run,
        ];
        for end in ends {
            let mut connection = after(600);
            end(&mut connection);
            assert_eq!(connection.bulk_interval(), None);
            receive(&mut connection, 80_100, 50, 510);
            assert_eq!(connection.bulk_interval(), None);
            receive(&mut connection, 80_100 + 50 * 510, 50, 600);
            assert_eq!(connection.bulk_interval(), Some(Duration::from_micros(50)));
        }
    }
}
