//! Streams: any frames from the peer and any calls of the application, against a model that is too
//! simple to be wrong.
//!
//! Promises: every frame is taken or refused with the code that RFC 9000 asks for; what is read is
//! what was sent, in order, as soon as it is there; what we send stays within the peer's limits;
//! memory and gaps stay within ours.

mod model;

use proto::{
    Dir, MAX_GAPS, Read, Side, StreamId, VarInt,
    fuzzing::{SentStreamFrames, Streams, StreamsConfig},
    wire::{Frame, Frames, TransportErrorCode, TransportParameters},
};

use crate::input::Input;
use model::{Model, byte};

/// Most bytes of a frame's data.
const MAX_DATA: usize = 1_400;

struct Harness {
    streams: Streams,
    model: Model,
    config: StreamsConfig,
    in_flight: Vec<SentStreamFrames>,
}

/// Any script.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (receive_window, stream_receive_window) =
        (input.pick(&[0, 150, 5_000, 200_000]), input.pick(&[0, 100, 1_000, 70_000]));
    let config = StreamsConfig {
        receive_window,
        stream_receive_window,
        initial_stream_window: stream_receive_window,
        send_buffer: input.pick(&[0, 100, 10_000]),
        max_concurrent_bidi: input.below(6) as u64,
        max_concurrent_uni: input.below(6) as u64,
    };
    let peer = TransportParameters {
        initial_max_data: VarInt::saturating(input.number()),
        initial_max_stream_data_bidi_local: VarInt::saturating(input.number()),
        initial_max_stream_data_bidi_remote: VarInt::saturating(input.number()),
        initial_max_stream_data_uni: VarInt::saturating(input.number()),
        initial_max_streams_bidi: VarInt::saturating(input.number().min(8)),
        initial_max_streams_uni: VarInt::saturating(input.number().min(8)),
        reset_stream_at: config.max_concurrent_uni & 1 == 1,
        ..TransportParameters::default()
    };
    let mut streams = Streams::new(Side::Server, &config);
    streams.set_peer_limits(&peer);
    let model = Model::new(&config, &peer);
    let mut harness = Harness { streams, model, config, in_flight: Vec::new() };
    while let Some(step) = input.step() {
        let refused = if step < 128 {
            harness.peer(step, &mut input)
        } else {
            harness.application(step, &mut input);
            false
        };
        if refused {
            return; // the connection closes
        }
        let stats = harness.streams.stats();
        assert!(stats.receive_buffered <= harness.config.receive_window);
        assert!(stats.send_buffered <= harness.config.send_buffer);
        assert!(stats.gaps <= MAX_GAPS);
        while harness.streams.poll_event().is_some() {}
    }
    assert_eq!(harness.streams.stats().gaps, harness.model.gaps());
}

impl Harness {
    /// A frame arrives; returns whether it was refused.
    fn peer(&mut self, step: u8, input: &mut Input<'_>) -> bool {
        let id = stream_id(input);
        let (answer, expected) = match step % 12 {
            0..=4 => {
                let (offset, len) = (self.offset(id, input), usize::from(input.u16()) % MAX_DATA);
                return self.stream(id, offset, len, input.u8() > 0xe0);
            }
            // A comb: one byte of every two.
            5 => {
                let offset = self.offset(id, input);
                return (0..16 * u64::from(input.u8()))
                    .any(|tooth| self.stream(id, offset.saturating_add(2 * tooth), 1, false));
            }
            6 => {
                let (code, size) = (VarInt::saturating(input.number()), self.offset(id, input));
                let at = (code.into_inner() & 1 == 1).then(|| self.offset(id, input));
                let answer = match at {
                    None => self.streams.on_reset_stream(id, code, size),
                    Some(at) => self.streams.on_reset_stream_at(id, code, size, at),
                };
                (answer, self.model.on_reset(id, code, size, at))
            }
            7 => (self.streams.on_stop_sending(id, 7u8.into()), self.model.may_send_to(id)),
            8 => {
                let limit = input.number();
                let expected = self.model.may_send_to(id);
                if expected.is_ok() {
                    self.model.raise_stream(id, limit);
                }
                (self.streams.on_max_stream_data(id, limit), expected)
            }
            9 => {
                let limit = input.number();
                self.model.max_data = self.model.max_data.max(limit);
                self.streams.on_max_data(limit);
                return false;
            }
            10 => {
                let (dir, count) = (id.dir(), input.number());
                let expected =
                    if count > 1 << 60 { Err(TransportErrorCode::FRAME_ENCODING_ERROR) } else { Ok(()) };
                (self.streams.on_max_streams(dir, count), expected)
            }
            _ => {
                self.streams.on_data_blocked(0);
                (self.streams.on_stream_data_blocked(id, 0), self.model.may_receive_on(id))
            }
        };
        assert_eq!(answer.as_ref().map_err(|error| error.code).copied(), expected, "{id:?}: {answer:?}");
        answer.is_err()
    }

    fn stream(&mut self, id: StreamId, offset: u64, len: usize, fin: bool) -> bool {
        let data: Vec<u8> = (0..len as u64).map(|i| byte(id, offset.wrapping_add(i))).collect();
        let expected = self.model.on_stream(id, offset, len as u64, fin);
        let answer = self.streams.on_stream(id, offset, &data, fin);
        assert_eq!(answer.as_ref().map_err(|error| error.code).copied(), expected, "{id:?}: {answer:?}");
        answer.is_err()
    }

    /// An offset near the data that is there, or anywhere.
    fn offset(&self, id: StreamId, input: &mut Input<'_>) -> u64 {
        let (read, highest, limit) = self.model.landmarks(id);
        let base = input.pick(&[read, highest, limit, 0]);
        let offset = input.number();
        match input.u8() % 4 {
            0 => base.saturating_sub(offset),
            1 => offset,
            _ => base.saturating_add(offset).min((1 << 62) - 1),
        }
    }

    fn application(&mut self, step: u8, input: &mut Input<'_>) {
        let id = stream_id(input);
        match step % 12 {
            0..=2 => self.read(id, usize::from(input.u16()) % 5_000),
            3 => {
                let stopped = self.streams.stop(id, 5u8.into()).is_ok();
                assert_eq!(stopped, self.model.stop(id));
            }
            4 => {
                if let Some(id) = self.streams.open(id.dir()) {
                    self.model.on_opened(id);
                }
            }
            5 => {
                let from = self.model.written(id);
                let data: Vec<u8> = (0..u64::from(input.u16()) % 3_000).map(|i| byte(id, from + i)).collect();
                if let Ok(n) = self.streams.write(id, &data) {
                    self.model.on_written(id, n as u64);
                }
            }
            6 => drop(self.streams.finish(id)),
            7 => match step / 12 % 4 {
                0 => drop(self.streams.set_reliable_boundary(id)),
                1 => drop(self.streams.reset_when_delivered(id, 9u8.into())),
                _ => drop(self.streams.reset(id, 9u8.into())),
            },
            8 => {
                while self.streams.accept(id.dir()).is_some() {}
                self.model.accept(id.dir());
            }
            9 | 10 => self.transmit(usize::from(input.u16()) % 3_000),
            _ if self.in_flight.is_empty() => {}
            _ => {
                let mut sent = self.in_flight.swap_remove(input.below(256) % self.in_flight.len());
                if input.flag() { self.streams.on_lost(&mut sent) } else { self.streams.on_acked(&sent) }
            }
        }
    }

    fn read(&mut self, id: StreamId, want: usize) {
        let mut buffer = vec![0; want.max(1)];
        let answer = self.streams.read(id, &mut buffer);
        let from = self.model.landmarks(id).0;
        assert_eq!(answer, self.model.read(id, buffer.len()), "{id:?}");
        if let Ok(Read::Data(n)) = answer {
            assert!(buffer[..n].iter().zip(from..).all(|(&b, at)| b == byte(id, at)), "the bytes read");
        }
    }

    /// Builds a packet and checks it.
    fn transmit(&mut self, limit: usize) {
        let (mut out, mut sent) = (Vec::new(), SentStreamFrames::default());
        self.streams.write_control(&mut out, limit, &mut sent);
        self.streams.write_data(&mut out, limit, &mut sent);
        assert!(out.len() <= limit);
        if self.in_flight.len() < 100 {
            self.in_flight.push(sent);
        } else {
            self.streams.on_acked(&sent);
        }
        if out.is_empty() {
            return;
        }
        for frame in Frames::new(&out) {
            match frame.expect("what we write can be read") {
                Frame::Stream(frame) => self.model.check_sent(&frame),
                Frame::ResetStreamAt(frame) => assert!(frame.reliable_size <= frame.final_size),
                Frame::MaxData(frame) => self.model.limit = self.model.limit.max(frame.maximum),
                Frame::MaxStreamData(frame) => self.model.raise_ours(frame.id, frame.maximum),
                Frame::MaxStreams(frame) => {
                    let limit = &mut self.model.streams_limit[frame.dir as usize];
                    *limit = frame.maximum.max(*limit);
                }
                _ => {}
            }
        }
    }
}

/// Mostly one of the first streams of each kind.
fn stream_id(input: &mut Input<'_>) -> StreamId {
    let choice = input.u8();
    if choice == 0xff {
        return StreamId(input.number());
    }
    let initiator = if choice & 1 == 0 { Side::Client } else { Side::Server };
    let dir = if choice & 2 == 0 { Dir::Bi } else { Dir::Uni };
    StreamId::new(initiator, dir, u64::from(choice >> 2) % 7)
}
