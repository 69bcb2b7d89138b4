//! What brought packets back, case by case: conversations of a client that sends nothing but a
//! request, and a server whose data is lost.

mod support;

use mendpath_trace::{Class, Options, Resent};
use support::{
    analyse,
    tcp_model::{ACK, FIN, PSH, SYN},
    wire::{Capture, Packet},
};

const MSS: u32 = 1_000;

/// A conversation as it is captured: times in ms, sequence numbers from 1 on both sides.
#[derive(Default)]
struct Talk(Vec<Packet>);

impl Talk {
    /// The handshake and a request of 10 bytes over a round trip of `rtt` ms, seen at the client.
    fn at_client(rtt: u64) -> Self {
        let mut talk = Self::default();
        talk.client(0, 0, 0, SYN, 0);
        talk.server(rtt, 0, 1, SYN | ACK, 0);
        talk.client(rtt, 1, 1, ACK, 0);
        talk.client(rtt, 1, 1, PSH | ACK, 10);
        talk
    }

    /// The same, seen at the server.
    fn at_server(rtt: u64) -> Self {
        let mut talk = Self::default();
        talk.client(0, 0, 0, SYN, 0);
        talk.server(0, 0, 1, SYN | ACK, 0);
        talk.client(rtt, 1, 1, ACK, 0);
        talk.client(rtt, 1, 1, PSH | ACK, 10);
        talk
    }

    fn push(&mut self, at_ms: u64, from_server: bool, (seq, ack, flags, payload): (u32, u32, u8, u32)) {
        let (client, server) = ("10.0.0.1:4000".parse().unwrap(), "192.0.2.1:80".parse().unwrap());
        let (from, to) = if from_server { (server, client) } else { (client, server) };
        // Packets of one moment follow each other by 10 us.
        let at_ns = at_ms * 1_000_000 + self.0.len() as u64 * 10_000;
        let packet =
            Packet { at_ns, from, to, seq, ack, flags, window: 500, payload, ident: 0, options: Vec::new() };
        self.0.push(packet);
    }

    fn client(&mut self, at_ms: u64, seq: u32, ack: u32, flags: u8, payload: u32) {
        self.push(at_ms, false, (seq, ack, flags, payload));
    }

    fn server(&mut self, at_ms: u64, seq: u32, ack: u32, flags: u8, payload: u32) {
        self.push(at_ms, true, (seq, ack, flags, payload));
    }

    /// The server's packets of data from number `first` to `last`, counted from 0.
    fn data(&mut self, at_ms: u64, first: u32, last: u32) {
        (first..=last).for_each(|i| self.server(at_ms, 1 + i * MSS, 11, ACK, MSS));
    }

    /// The client has everything before packet `next`.
    fn ack(&mut self, at_ms: u64, next: u32) {
        self.client(at_ms, 11, 1 + next * MSS, ACK, 0);
    }

    /// The client misses packet `next`, and has those from `from` to `to`.
    fn sack(&mut self, at_ms: u64, next: u32, from: u32, to: u32) {
        self.ack(at_ms, next);
        let edges = [1 + from * MSS, 1 + (to + 1) * MSS].into_iter().flat_map(u32::to_be_bytes);
        self.0.last_mut().unwrap().options = [1, 1, 5, 10].into_iter().chain(edges).collect();
    }

    /// Every packet has the timestamp of its moment, and returns the latest that came in order.
    fn stamped(mut self) -> Self {
        let (mut latest, mut next) = ([0; 2], [0; 2]);
        for packet in &mut self.0 {
            let side = usize::from(packet.from.port() == 80);
            let now = (packet.at_ns / 1_000_000) as u32 + 1;
            if packet.seq <= next[side] {
                latest[side] = now;
                let marks = u32::from(packet.flags & SYN != 0);
                next[side] = next[side].max(packet.seq + packet.payload + marks);
            }
            let words = [now, latest[1 - side]].into_iter().flat_map(u32::to_be_bytes);
            packet.options.splice(0..0, [1, 1, 8, 10].into_iter().chain(words));
        }
        self
    }

    fn resent(&self) -> Vec<Resent> {
        analyse(&Capture::of(&self.0), Options::default()).resent
    }

    fn classes(&self) -> Vec<Class> {
        self.resent().iter().map(|resent| resent.class).collect()
    }
}

/// Near the receiver the acknowledgement of everything passes a round trip before the sender has it:
/// until then the sender goes back on.
#[test]
fn going_back_ends_when_the_sender_knows_not_when_the_receiver_does() {
    let mut talk = Talk::at_client(100);
    talk.data(200, 0, 0);
    talk.ack(200, 1);
    // Packets 1 and 2 are lost, and what the acknowledgement of 3 to 5 brought about too.
    talk.data(300, 3, 5);
    talk.sack(300, 1, 3, 3);
    talk.sack(300, 1, 3, 5);
    talk.data(900, 1, 1);
    talk.sack(900, 2, 3, 5);
    talk.data(1_000, 2, 2);
    talk.ack(1_000, 6);
    // Sent before the sender heard so: by its lights still missing.
    talk.data(1_001, 3, 3);
    talk.data(1_100, 6, 6);
    talk.ack(1_100, 7);
    assert_eq!(talk.classes(), [Class::Timeout, Class::GoBackN, Class::GoBackN]);
}

/// A bare acknowledgement is no question: the client speaks when there is something to say. The
/// time until then is no round trip, which a timer would have to wait for.
#[test]
fn idle_times_are_no_round_trips() {
    let mut talk = Talk::at_client(90);
    talk.server(180, 1, 11, ACK, 0);
    // Of the response, only the last packet arrives, which a probe sends 200 ms later.
    talk.data(400, 5, 5);
    talk.sack(400, 0, 5, 5);
    // What that brought about is lost as well.
    talk.data(800, 0, 0);
    talk.sack(800, 1, 5, 5);
    talk.data(890, 1, 2);
    talk.sack(890, 3, 5, 5);
    let talk = talk.stamped();
    assert_eq!(talk.classes(), [Class::Timeout, Class::GoBackN, Class::GoBackN]);
}

/// The server's first answer is lost; that the second one comes late is not the path's doing.
#[test]
fn an_answer_behind_a_hole_may_not_be_the_first() {
    let mut talk = Talk::at_client(60);
    talk.data(300, 1, 1);
    talk.sack(300, 0, 1, 1);
    talk.data(620, 0, 0);
    talk.ack(620, 2);
    assert_eq!(talk.classes(), [Class::Timeout]);
}

/// Nothing was sent after the last packet, so nothing can tell that it is lost but a timer: however
/// soon that is, by the measure of a path that has become slow.
#[test]
fn the_last_packet_comes_back_by_a_timer() {
    let mut talk = Talk::at_server(30);
    // The queue has grown to 600 ms.
    for round in 0..5 {
        let (at, first) = (30 + 610 * u64::from(round), 10 * round);
        talk.data(at, first, first + 9);
        (0..10).for_each(|i| talk.ack(at + 600 + u64::from(i), first + i + 1));
    }
    talk.client(3_100, 11, 1 + 50 * MSS, FIN | ACK, 0);
    talk.server(3_100, 1 + 50 * MSS, 12, FIN | ACK, 0);
    // The client measured 30 ms, and waits for 250 ms.
    talk.client(3_350, 11, 1 + 50 * MSS, FIN | ACK, 0);
    assert_eq!(talk.classes(), [Class::Timeout]);
    // But if something before it was sent again, its acknowledgement may tell (RFC 8985).
    let mut talk = Talk::at_server(100);
    talk.data(100, 0, 4);
    talk.sack(200, 0, 1, 3);
    talk.data(200, 0, 0);
    talk.ack(300, 4);
    talk.data(300, 4, 4);
    talk.ack(400, 5);
    assert_eq!(talk.classes(), [Class::Fast, Class::Fast]);
}

/// What the receiver had, and never missed, comes again because acknowledgements are lost or late:
/// the timer does not know, nor does what it brings about.
#[test]
fn what_was_never_missed_comes_back_by_a_timer_and_what_follows_it_goes_back() {
    let mut talk = Talk::at_client(100);
    talk.data(200, 0, 0);
    talk.ack(200, 1);
    talk.data(300, 1, 6);
    (1..=6).for_each(|i| talk.ack(300, i + 1));
    // All of these acknowledgements are lost, or late; so is the first sign of what comes again.
    talk.data(430, 1, 1);
    talk.ack(430, 7);
    talk.data(431, 2, 3);
    talk.data(500, 4, 6);
    talk.ack(500, 7);
    let resent = talk.resent();
    assert!(resent.iter().all(|resent| resent.needless), "{resent:?}");
    let classes: Vec<Class> = resent.iter().map(|resent| resent.class).collect();
    assert_eq!(classes[0], Class::Timeout);
    assert_eq!(classes[1..], [Class::GoBackN; 5]);
}

/// F-RTO (RFC 5682) sends new data after a timeout, before it goes back: that is given up as well.
#[test]
fn new_data_that_tries_a_timeout_belongs_to_what_is_given_up() {
    let mut talk = Talk::at_server(50);
    talk.data(50, 0, 3);
    talk.data(400, 0, 0);
    talk.ack(450, 1);
    talk.data(450, 4, 5);
    talk.sack(500, 1, 4, 4);
    talk.data(500, 1, 2);
    talk.ack(550, 3);
    talk.data(550, 3, 3);
    talk.ack(600, 5);
    talk.data(600, 5, 5);
    talk.ack(650, 6);
    let expected = [Class::Timeout, Class::GoBackN, Class::GoBackN, Class::GoBackN, Class::GoBackN];
    assert_eq!(talk.classes(), expected);
}

/// What goes back follows acknowledgements. After another silence it is the timer again, also if it
/// sends what comes next.
#[test]
fn a_timer_that_expires_while_the_sender_goes_back_is_a_timer() {
    let mut talk = Talk::at_server(100);
    talk.data(100, 0, 4);
    talk.data(700, 0, 0);
    talk.ack(800, 1);
    talk.data(800, 1, 1);
    talk.ack(900, 2);
    // What that acknowledgement should have brought about does not come.
    talk.data(1_700, 2, 2);
    talk.ack(1_800, 3);
    talk.data(1_800, 3, 3);
    assert_eq!(talk.classes(), [Class::Timeout, Class::GoBackN, Class::Timeout, Class::GoBackN]);
}

/// Some systems answer the other side's FIN with their own once more.
#[test]
fn a_fin_that_answers_a_fin_at_once_is_no_timeout() {
    let mut talk = Talk::at_client(2);
    talk.data(4, 0, 0);
    talk.ack(4, 1);
    talk.client(10, 11, 1 + MSS, FIN | ACK, 0);
    talk.server(10, 1 + MSS, 11, FIN | ACK, 0);
    talk.client(10, 12, 2 + MSS, ACK, 0);
    talk.server(13, 1 + MSS, 12, FIN | ACK, 0);
    assert_eq!(talk.classes(), [Class::Fast]);
}

/// Who hears that later packets arrived waits for a tick or two whether they were reordered: on a fast
/// network many times as long as a round trip takes.
#[test]
fn who_waits_for_reordered_packets_waits_for_no_timer() {
    let mut talk = Talk::at_server(1);
    talk.data(1, 0, 3);
    // That packet 0 arrived, and that 1 did not, is said at once.
    talk.sack(2, 1, 2, 3);
    talk.data(8, 1, 1);
    talk.ack(9, 4);
    assert_eq!(talk.classes(), [Class::Fast]);
}

/// At the sender, an acknowledgement is answered within microseconds, at times fewer than it took for any
/// answer before.
#[test]
fn an_answer_may_be_the_quickest_so_far() {
    let mut talk = Talk::at_server(1);
    talk.data(1, 0, 3);
    // All are lost, and the probe is not.
    talk.data(7, 3, 3);
    talk.sack(8, 0, 3, 3);
    let heard_ns = talk.0.last().unwrap().at_ns;
    talk.data(8, 0, 0);
    talk.0.last_mut().unwrap().at_ns = heard_ns + 5_000;
    assert_eq!(talk.classes(), [Class::Timeout, Class::Fast]);
}

/// Both open at once, and each answers the other's SYN with its own once more (RFC 9293 section 3.5): one
/// connection, in which nothing was lost. A SYN that is, is sent again as ever.
#[test]
fn who_opens_as_the_other_does_opens_no_other_connection() {
    for lost in [false, true] {
        let mut talk = Talk::default();
        talk.client(0, 0, 0, SYN, 0);
        talk.server(20, 0, 0, SYN, 0);
        if lost {
            talk.server(1_020, 0, 0, SYN, 0);
        }
        talk.client(1_020, 0, 1, SYN | ACK, 0);
        talk.server(1_060, 0, 1, SYN | ACK, 0);
        talk.client(1_060, 1, 1, PSH | ACK, 10);
        talk.server(1_100, 1, 11, ACK, 0);
        let report = analyse(&Capture::of(&talk.0), Options::default());
        assert_eq!((report.connections.total, report.connections.paired), (1, 1));
        assert_eq!(report.retransmissions.seen_before, u64::from(lost));
    }
    // One who takes the ports of a connection that came to something opens another.
    let mut talk = Talk::at_client(20);
    talk.server(40, 5_000, 0, SYN, 0);
    assert_eq!(analyse(&Capture::of(&talk.0), Options::default()).connections.total, 2);
}

/// What MPTCP says of its other paths comes as bare acknowledgements, which say nothing new of this one,
/// nor that something is missing.
#[test]
fn what_multipath_says_of_other_paths_is_no_duplicate_acknowledgement() {
    // The data sequence signal with a data acknowledgement of 4 bytes.
    let signal = [30, 8, 0x20, 1, 0, 0, 0, 9];
    for (options, class) in [(&signal[..], Class::Timeout), (&[], Class::Fast)] {
        let mut talk = Talk::at_server(50);
        talk.data(50, 0, 0);
        talk.ack(100, 1);
        // All are lost.
        talk.data(100, 1, 4);
        for at in [200, 250, 350] {
            talk.ack(at, 1);
            talk.0.last_mut().unwrap().options = options.to_vec();
        }
        talk.data(350, 1, 1);
        talk.ack(400, 2);
        assert_eq!(talk.classes(), [class]);
    }
}

/// After an outage, an acknowledgement of more than the timer had sent again tells that acknowledgements
/// were lost (RFC 5682): nothing is given up, and what follows is lost by itself.
#[test]
fn who_hears_that_a_timeout_was_needless_does_not_go_back() {
    let mut talk = Talk::at_server(50);
    // Of these, 0 to 3 arrive, but what is said of them does not.
    talk.data(50, 0, 7);
    talk.data(400, 0, 0);
    talk.ack(450, 4);
    talk.data(450, 8, 9);
    talk.sack(500, 4, 8, 8);
    talk.data(500, 4, 5);
    talk.sack(500, 4, 8, 9);
    talk.data(500, 6, 7);
    talk.ack(550, 10);
    let expected = [Class::Timeout, Class::Fast, Class::Fast, Class::Fast, Class::Fast];
    assert_eq!(talk.classes(), expected);
}

/// Not every sender takes a timeout back: one that goes back at once, at the same acknowledgement, does not.
#[test]
fn who_goes_back_although_a_timeout_was_needless_goes_back() {
    let mut talk = Talk::at_server(50);
    // Of these, 0, 4 and 8 are lost, and nothing tells of the others: the receiver cannot, or is not heard.
    talk.data(50, 0, 9);
    talk.data(400, 0, 0);
    talk.ack(450, 4);
    talk.data(450, 4, 5);
    talk.ack(500, 8);
    // That 5 came twice tells nothing of 8.
    talk.ack(501, 8);
    talk.data(502, 8, 9);
    talk.ack(550, 10);
    let expected = [Class::Timeout, Class::GoBackN, Class::GoBackN, Class::GoBackN, Class::GoBackN];
    assert_eq!(talk.classes(), expected);
}

/// The acknowledgement that shows a timeout to have been needless may say itself what is missing.
#[test]
fn who_hears_at_once_what_is_missing_does_not_go_back() {
    let mut talk = Talk::at_server(50);
    talk.data(50, 0, 7);
    talk.data(400, 0, 0);
    talk.sack(450, 4, 6, 7);
    talk.data(450, 4, 5);
    talk.ack(500, 8);
    assert_eq!(talk.classes(), [Class::Timeout, Class::Fast, Class::Fast]);
}

/// A duplicate is reported before what else arrived. That the timer had reason to send something is said
/// behind it.
#[test]
fn what_is_missing_may_be_said_behind_a_duplicate() {
    let mut talk = Talk::at_server(1);
    talk.data(1, 0, 3);
    talk.sack(2, 1, 0, 0);
    let edges = [1 + 2 * MSS, 1 + 4 * MSS].into_iter().flat_map(u32::to_be_bytes);
    let options = &mut talk.0.last_mut().unwrap().options;
    options[3] += 8;
    options.extend(edges);
    talk.data(8, 1, 1);
    talk.ack(9, 4);
    assert_eq!(talk.classes(), [Class::Fast]);
}
