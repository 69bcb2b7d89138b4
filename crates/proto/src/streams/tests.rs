//! Two [`Streams`] joined by a channel that the tests control.

mod flow_control;
mod loss;
mod model;
mod reset_at;
mod rules;
mod turns;
mod windows;

use super::*;
use crate::wire::{Frame, Frames, TransportError};

/// Generous limits.
fn config() -> StreamsConfig {
    StreamsConfig::default()
}

fn parameters(config: &StreamsConfig) -> TransportParameters {
    let mut parameters = TransportParameters::default();
    config.apply(&mut parameters);
    parameters
}

/// A client and a server that know each other's limits.
fn pair(client: &StreamsConfig, server: &StreamsConfig) -> (Streams, Streams) {
    let mut pair = (Streams::new(Side::Client, client), Streams::new(Side::Server, server));
    pair.0.set_peer_limits(&parameters(server));
    pair.1.set_peer_limits(&parameters(client));
    while pair.0.poll_event().is_some() || pair.1.poll_event().is_some() {}
    pair
}

/// As [`pair`], of generous limits, and both take RESET_STREAM_AT.
fn pair_with_resets_at() -> (Streams, Streams) {
    let (mut client, mut server) = pair(&config(), &config());
    take_resets_at(&mut client, &config());
    take_resets_at(&mut server, &config());
    (client, server)
}

/// `streams` learns that a peer with the limits of `config` takes RESET_STREAM_AT.
fn take_resets_at(streams: &mut Streams, config: &StreamsConfig) {
    streams.set_peer_limits(&TransportParameters { reset_stream_at: true, ..parameters(config) });
    while streams.poll_event().is_some() {}
}

/// The next packet payload of at most `limit` bytes and its record.
fn packet(streams: &mut Streams, limit: usize) -> (Vec<u8>, SentStreamFrames) {
    let (mut out, mut sent) = (Vec::new(), SentStreamFrames::default());
    streams.write_control(&mut out, limit, &mut sent);
    streams.write_data(&mut out, limit, &mut sent);
    assert!(out.len() <= limit);
    assert_eq!(out.is_empty(), sent.is_empty());
    (out, sent)
}

/// Takes in every frame of a payload.
fn receive(streams: &mut Streams, payload: &[u8]) -> Result<(), TransportError> {
    for frame in Frames::new(payload) {
        match frame.expect("our own frames are well formed") {
            Frame::Stream(f) => streams.on_stream(f.id, f.offset, f.data, f.fin)?,
            Frame::ResetStream(f) => streams.on_reset_stream(f.id, f.error_code, f.final_size)?,
            Frame::ResetStreamAt(f) => {
                streams.on_reset_stream_at(f.id, f.error_code, f.final_size, f.reliable_size)?
            }
            Frame::StopSending(f) => streams.on_stop_sending(f.id, f.error_code)?,
            Frame::MaxData(f) => streams.on_max_data(f.maximum),
            Frame::MaxStreamData(f) => streams.on_max_stream_data(f.id, f.maximum)?,
            Frame::MaxStreams(f) => streams.on_max_streams(f.dir, f.maximum)?,
            Frame::DataBlocked(f) => streams.on_data_blocked(f.limit),
            Frame::StreamDataBlocked(f) => streams.on_stream_data_blocked(f.id, f.limit)?,
            Frame::StreamsBlocked(f) => streams.on_streams_blocked(f.dir, f.limit)?,
            other => panic!("streams never send {other:?}"),
        }
    }
    Ok(())
}

/// Sends everything `from` has to `to`, without loss.
fn transfer(from: &mut Streams, to: &mut Streams) {
    while from.has_pending() {
        let (payload, sent) = packet(from, 1_200);
        assert!(!payload.is_empty(), "what is pending can be sent");
        receive(to, &payload).unwrap();
        from.on_acked(&sent);
    }
}

/// Everything that can be read now, and how reading ended.
fn read_all(streams: &mut Streams, id: StreamId) -> (Vec<u8>, Result<Read, ReadError>) {
    let (mut all, mut buf) = (Vec::new(), [0; 777]);
    loop {
        match streams.read(id, &mut buf) {
            Ok(Read::Data(n)) => all.extend_from_slice(&buf[..n]),
            end => return (all, end),
        }
    }
}

fn events(streams: &mut Streams) -> Vec<StreamEvent> {
    std::iter::from_fn(|| streams.poll_event()).collect()
}

const CLIENT_BI: StreamId = StreamId::new(Side::Client, Dir::Bi, 0);
const CLIENT_UNI: StreamId = StreamId::new(Side::Client, Dir::Uni, 0);
const SERVER_BI: StreamId = StreamId::new(Side::Server, Dir::Bi, 0);
const SERVER_UNI: StreamId = StreamId::new(Side::Server, Dir::Uni, 0);

#[test]
fn a_request_and_its_response() {
    let (mut client, mut server) = pair(&config(), &config());
    let id = client.open(Dir::Bi).unwrap();
    assert_eq!(id, CLIENT_BI);
    assert_eq!(client.write(id, b"request"), Ok(7));
    assert_eq!(client.sendable_bytes(), 7);
    client.finish(id).unwrap();
    assert_eq!(client.write(id, b"more"), Err(WriteError::Closed));
    transfer(&mut client, &mut server);
    assert_eq!(events(&mut client), [StreamEvent::Finished(id)]);

    assert_eq!(events(&mut server), [StreamEvent::Opened { dir: Dir::Bi }, StreamEvent::Readable(id)]);
    assert_eq!(server.accept(Dir::Bi), Some(id));
    assert_eq!(server.accept(Dir::Bi), None);
    assert_eq!(read_all(&mut server, id), (b"request".to_vec(), Ok(Read::Finished)));
    assert_eq!(server.read(id, &mut [0; 4]), Err(ReadError::Unknown));
    let response: Vec<u8> = (0..60_000u32).map(|i| (i % 253) as u8).collect();
    assert_eq!(server.write(id, &response), Ok(60_000));
    server.finish(id).unwrap();
    transfer(&mut server, &mut client);
    assert_eq!(read_all(&mut client, id), (response, Ok(Read::Finished)));
    for streams in [&client, &server] {
        let stats = streams.stats();
        assert_eq!((stats.open, stats.send_buffered, stats.receive_buffered), (0, 0, 0));
    }
}

#[test]
fn one_packet_carries_many_small_streams() {
    let (mut client, mut server) = pair(&config(), &config());
    for _ in 0..20 {
        let id = client.open(Dir::Uni).unwrap();
        client.write(id, b"ten bytes!").unwrap();
        client.finish(id).unwrap();
    }
    let (payload, sent) = packet(&mut client, 1_200);
    assert_eq!(sent.ranges.len(), 20);
    assert!(!client.has_pending());
    receive(&mut server, &payload).unwrap();
    assert_eq!(std::iter::from_fn(|| server.accept(Dir::Uni)).count(), 20);
}
