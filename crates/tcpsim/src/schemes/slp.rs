//! SLP: a packet whose loss would probably cost a timeout is sent twice, inside the window.
//!
//! SLP sections II-C1 and II-C2: arbiter -> window rule -> duplicator -> pacing. The arbiter is
//! `recovery::slp_arbiter`, its q may be learnt (`recovery::slp_odds`), the window rule is
//! `recovery::slp_window`, and `recovery::slp_duplicates` keeps the one duplicate that may be under
//! way.
//!
//! | paper            | here                                        |
//! |------------------|---------------------------------------------|
//! | p, bw, RTO       | [`Slp::loss`], [`Slp::bandwidth`], TCP's own timer |
//! | q                | [`Slp::odds`]                               |
//! | win              | the window less one segment while a duplicate is under way |
//! | SYN, PSH, FIN    | the handshake, the last segment of a write, the last of a connection |
//!
//! # Departures
//! - For SYN and SYN/ACK the arbiter decides alone, with the initial RTO (SLP-A4); their gap is 1
//!   ms (SLP-A9).
//! - Retransmissions and pure acknowledgements are never duplicated (SLP-A7).
//! - The duplicate acknowledgement that a duplicate causes has no new SACK block, so loss detection
//!   does not see it (SLP-A10).
//! - There is no tear-down: FIN is on the last data packet of a connection that ends with its flow.

use recovery::{
    PacketNumber, PathId,
    slp_arbiter::{Conditions, Marks, TimeoutOdds},
    slp_duplicates::{Duplicates, Original},
    slp_odds::LearntOdds,
    slp_window::{DuplicateWindow, HANDSHAKE_GAP, Windows, gap},
};
use units::{BitRate, Instant};

use crate::{
    connection::{Connection, scheme::Scheme},
    scoreboard::SACKED,
    subflow::Phase,
    transport::{Io, Timer},
};

/// Parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slp {
    /// q of each kind of packet. Default the prototype's: 1 for SYN, 0.1 for PSH, 0 for the rest
    /// (SLP-A5).
    pub odds: TimeoutOdds,
    /// Whether q follows what is seen. Default no: the prototype's values stay.
    pub learn: bool,
    /// p. Default 2 %.
    pub loss: f64,
    /// bw. Default 10 Mbit/s (SLP-A4).
    pub bandwidth: BitRate,
    /// The window rule with "<" as printed (SLP-A3). Default no.
    pub strict: bool,
}

impl Default for Slp {
    fn default() -> Self {
        let Conditions { loss, bandwidth, .. } = Conditions::default();
        Self { odds: TimeoutOdds::default(), learn: false, loss, bandwidth, strict: false }
    }
}

/// The path of originals, and the one that stands for copies.
const ORIGINAL: PathId = PathId(0);
const COPY: PathId = PathId(1);

/// The sender's state.
#[derive(Debug)]
pub(crate) struct State {
    parameters: Slp,
    odds: LearntOdds,
    window: DuplicateWindow,
    duplicates: Duplicates,
    /// The segment with the duplicate that is planned or under way.
    original: Option<u32>,
    /// When the SYN and the SYN/ACK are to be sent once more.
    handshake: [Option<Instant>; 2],
}

impl State {
    pub(crate) fn new(parameters: Slp) -> Self {
        Self {
            parameters,
            odds: LearntOdds::new(parameters.odds),
            window: if parameters.strict { DuplicateWindow::strict() } else { DuplicateWindow::new() },
            duplicates: Duplicates::new(),
            original: None,
            handshake: [None; 2],
        }
    }

    fn q(&self, marks: Marks) -> f64 {
        if self.parameters.learn { self.odds.of(marks) } else { self.parameters.odds.of(marks) }
    }

    fn conditions(&self, timeout: units::Duration) -> Conditions {
        Conditions { loss: self.parameters.loss, bandwidth: self.parameters.bandwidth, timeout }
    }

    /// A new segment left: does it get a duplicate?
    fn consider(&mut self, conn: &mut Connection, io: &mut Io<'_>, seq: u32) {
        let Some(sent) = conn.subs[0].board.segment(seq).copied() else { return };
        let tcp = &conn.ends.tcp;
        let (mss, payload, now) = (u64::from(tcp.mss), u64::from(sent.payload), io.now());
        let bytes = payload + u64::from(tcp.header);
        let windows = Windows {
            acked: u64::from(conn.subs[0].board.una) * mss,
            congestion: u64::from(conn.window(0)) * mss,
            receive: u64::from(tcp.receive_window) * mss,
        };
        let next = u64::from(seq) * mss;
        let spare = if self.window.may_duplicate(next, payload, &windows) { bytes } else { 0 };
        let packet_time = self.parameters.bandwidth.time_to_send(bytes);
        let gap = gap(conn.smoothed_rtt(0), u64::from(conn.window(0)), packet_time);
        let original = Original {
            path: ORIGINAL,
            number: PacketNumber(seq.into()),
            bytes,
            odds: self.q(conn.marks(sent.dsn)),
        };
        let conditions = self.conditions(conn.rto(0));
        if self.duplicates.on_sent(now, &original, &conditions, spare, gap) {
            self.window.on_duplicated(next, payload);
            self.original = Some(seq);
            self.reserve(conn);
            io.set_timer(now + gap, Timer::Scheme);
        }
    }

    /// win = cwnd - dup_bytes, in whole segments.
    fn reserve(&self, conn: &mut Connection) {
        let mss = u64::from(conn.ends.tcp.mss);
        conn.subs[0].reserved = self.window.duplicated().div_ceil(mss) as u32;
    }

    /// The original's duplicate is due.
    fn duplicate(&mut self, conn: &mut Connection, io: &mut Io<'_>) {
        let Some(due) = self.duplicates.next(io.now(), u64::MAX) else { return };
        let seq = due.number.0 as u32;
        let wanted = conn.subs[0].board.segment(seq).is_some_and(|sent| !sent.has(SACKED));
        if wanted {
            conn.send_duplicate(io, 0, seq);
            self.duplicates.on_duplicated(COPY, due.number);
        } else {
            self.duplicates.abandon();
        }
    }
}

impl Scheme for State {
    fn on_sent(&mut self, conn: &mut Connection, io: &mut Io<'_>, _sub: usize, seq: u32, again: bool) {
        if !again {
            return self.consider(conn, io, seq);
        }
        if self.original == Some(seq) {
            self.duplicates.on_lost(ORIGINAL, PacketNumber(seq.into()));
        } else if let Some(sent) = conn.subs[0].board.segment(seq) {
            let timed_out = conn.subs[0].phase == Phase::Loss;
            self.odds.on_lost(conn.marks(sent.dsn), timed_out);
        }
    }

    fn on_ack(&mut self, conn: &mut Connection, _io: &mut Io<'_>, _sub: usize) {
        let una = conn.subs[0].board.una;
        self.window.on_ack(u64::from(una) * u64::from(conn.ends.tcp.mss));
        if let Some(seq) = self.original {
            let sacked = conn.subs[0].board.segment(seq).is_some_and(|sent| sent.has(SACKED));
            if seq < una || sacked {
                self.duplicates.on_acked(ORIGINAL, PacketNumber(seq.into()));
            }
            if seq < una {
                self.original = None;
            }
        }
        self.reserve(conn);
    }

    fn on_timeout(&mut self, conn: &mut Connection, _io: &mut Io<'_>, _sub: usize) {
        self.window.on_timeout();
        self.duplicates.on_timeout();
        self.original = None;
        self.reserve(conn);
    }

    fn on_handshake(&mut self, conn: &mut Connection, io: &mut Io<'_>, _sub: usize, answer: bool) {
        let handshake = Marks { handshake: true, ..Marks::default() };
        let bytes = u64::from(conn.ends.tcp.header);
        if self.conditions(conn.rto(0)).worth_duplicating(bytes, self.q(handshake)) {
            let at = io.now() + HANDSHAKE_GAP;
            self.handshake[usize::from(answer)] = Some(at);
            io.set_timer(at, Timer::Scheme);
        }
    }

    fn on_timer(&mut self, conn: &mut Connection, io: &mut Io<'_>) {
        let now = io.now();
        for (answer, at) in [false, true].into_iter().zip(self.handshake) {
            if at.is_some_and(|at| at <= now) {
                self.handshake[usize::from(answer)] = None;
                if conn.subs[0].phase == Phase::Opening {
                    conn.send_handshake_again(io, 0, answer);
                }
            }
        }
        self.duplicate(conn, io);
    }
}
