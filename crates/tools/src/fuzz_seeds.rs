//! Writes first seeds for every fuzz target to a folder.
//!
//! Real encodes for the targets that read bytes from the wire, scripts for those that draw from
//! them. `fuzz/keep` then picks from these and what the fuzzer found what is worth committing.

use std::{error::Error, fs, path::PathBuf, process::ExitCode};

use clap::Args;
use fuzz_targets::{
    TARGETS,
    input::Input,
    pair::{Pair, Settings},
    payload::payload,
};
use mendpath_cli::{
    protocol::{Hello, Packet, Reply, Request, Status},
    token::{Service, TokenSecret},
};
use proto::{
    AddressValidation, ConnectionId, PathId, Side, TransportConfig, VarInt,
    wire::{
        CodeSchemes, RepairParameters, TransportParameters, VERSION_1, encode_packet_ranges, encode_retry,
        encode_version_negotiation,
    },
};
use units::Duration;

use crate::console::failed;

/// Writes first seeds for every fuzz target to a folder.
#[derive(Args)]
#[command(after_help = "Example:\n  mendpath-tools fuzz-seeds fuzz/corpus")]
pub struct Arguments {
    /// Where they go: a folder per target is made in it.
    folder: PathBuf,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> ExitCode {
    match write(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed("fuzz-seeds", &*error),
    }
}

fn write(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    for (name, _) in TARGETS {
        let folder = arguments.folder.join(name);
        fs::create_dir_all(&folder)?;
        for (n, seed) in seeds(name).into_iter().enumerate() {
            fs::write(folder.join(format!("first-{n:02}")), seed)?;
        }
    }
    Ok(())
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "frames" => (1..60).map(|n| payload(&mut Input::new(&noise(n, 200)))).collect(),
        "packet_header" => packets(),
        "transport_parameters" => parameters(),
        "ranges" => ranges(),
        "proxy_wire" => messages(),
        "tunnel" => device(),
        "http" => texts(&[
            "\x10CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\nhello",
            "\x01GET http://user@[::1]:8080/a?b#c HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic YWxpY2U6b3Blbg==\r\n\r\n",
            "\x20POST http://a.example HTTP/1.0\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
        ]),
        "socks5" => vec![
            b"\0\x05\x01\0\x05\x01\0\x03\x0bexample.org\x01\xbb".to_vec(),
            b"\0\x05\x02\0\x02\x05\x03\0\x01\0\0\0\0\0\0".to_vec(),
            b"\x01\x05\x01\x02\x01\x05alice\x04open\x05\x01\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\x35"
                .to_vec(),
            b"\0\0\0\0\x01\xc0\0\x02\x01\0\x35query".to_vec(),
        ],
        "invitation" => texts(&[
            &invitation("203.0.113.5:4433"),
            &invitation("[2001:db8::5]:443"),
            &format!(" {}&later=1\n", invitation("vps.example.org:1")),
            "mendpath://secret@a.example:1",
        ]),
        // Choices: what they mean is up to the target.
        _ => (1..40).map(|n| noise(n, 40 + 10 * n as usize)).collect(),
    }
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn invitation(server: &str) -> String {
    let token = TokenSecret::from_bytes([5; 32]).invitation_token(Service::Proxy);
    format!("mendpath://{token}@{server}?pin={}", "A".repeat(43))
}

/// Reproducible bytes without pattern.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// The datagrams of a handshake, and what has no keys.
fn packets() -> Vec<Vec<u8>> {
    let validation = AddressValidation::Always;
    let mut pair =
        Pair::new(&Settings { validation, returning: true, ..Settings::new(TransportConfig::default()) });
    let mut packets = Vec::new();
    for _ in 0..30 {
        pair.flush();
        packets.extend(pair.wire.iter().map(|flight| [&[8], flight.data.as_slice()].concat()));
        pair.run(Duration::from_millis(3));
    }
    packets.truncate(12);
    let cid = |n| ConnectionId::new(&[n; 8]).expect("eight bytes fit");
    let (mut negotiation, mut retry) = (vec![8], vec![8]);
    encode_version_negotiation(5, &cid(1), &[7; 30], &[VERSION_1, 2], &mut negotiation);
    encode_retry(&cid(1), &cid(2), b"token", &mut retry);
    retry.extend([0; 16]);
    packets.extend([negotiation, retry]);
    packets
}

fn parameters() -> Vec<Vec<u8>> {
    let cid = ConnectionId::new(&[3; 8]);
    let client = TransportParameters {
        max_idle_timeout: Duration::from_secs(30),
        initial_max_data: VarInt::from_u32(1 << 24),
        initial_max_streams_bidi: VarInt::from_u32(100),
        initial_source_connection_id: cid,
        max_datagram_frame_size: VarInt::from_u32(65_535),
        reset_stream_at: true,
        initial_max_path_id: Some(PathId(7)),
        repair: Some(RepairParameters {
            schemes: CodeSchemes::ALL,
            max_block: VarInt::from_u32(128),
            decoder_memory: VarInt::from_u32(1 << 22),
        }),
        ..TransportParameters::default()
    };
    let server = TransportParameters {
        original_destination_connection_id: cid,
        retry_source_connection_id: cid,
        disable_active_migration: true,
        ..client.clone()
    };
    let written = |from: Side, parameters: &TransportParameters| {
        [&[u8::from(!from.is_client())], parameters.encode().as_slice()].concat()
    };
    vec![written(Side::Client, &client), written(Side::Server, &server)]
}

/// A connection that is granted, one that is refused, a datagram; for both families.
fn device() -> Vec<Vec<u8>> {
    let v4 = |protocol: u8, rest: &[u8]| {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0, 198, 18, 0, 1, 192, 0, 2, 7];
        packet.extend(rest);
        [&[0, packet.len() as u8], packet.as_slice()].concat()
    };
    let tcp =
        |flags: u8| [&[0x9c, 0x40, 1, 187, 0, 0, 0, 7, 0, 0, 0, 0, 0x50, flags], [4; 6].as_slice()].concat();
    let mut v6 = vec![0x60, 0, 0, 0, 0, 0, 6, 64, 0xfd, 0];
    v6.extend([0; 13]);
    v6.extend([1, 0x20, 1, 0xd, 0xb8]);
    v6.extend([0; 12]);
    v6.extend(tcp(2));
    v6.splice(0..0, [0, v6.len() as u8]);
    let [syn, ack, reset] = [2, 16, 4].map(|flags| v4(6, &tcp(flags)));
    let datagram = v4(17, &[0x9c, 0x40, 0, 53, 0, 0, 0, 0, 1, 2, 3]);
    let ping = v4(1, &[8, 0, 0, 0, 0, 1, 0, 2, 3, 4]);
    let (grant, refuse, accept, close) = ([6], [6 + 8], [7], [7 + 8]);
    vec![
        [syn.as_slice(), &grant, &ack, &accept, &ack, &close, &ack, &[4, 100, 5], &syn].concat(),
        [syn.as_slice(), &syn, &refuse, &[1], &ack, &syn, &reset].concat(),
        [syn.as_slice(), &grant, &reset].concat(),
        [v6.as_slice(), &grant, &v6, &close].concat(),
        [datagram.as_slice(), &ping].concat(),
    ]
}

fn ranges() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = (1..20).map(|n| noise(n, 30)).collect();
    let mut set = vec![1, 0xc8, 0xc8];
    encode_packet_ranges([3..=7, 9..=9, 100..=120].into_iter(), &mut set);
    seeds.push(set);
    seeds
}

fn messages() -> Vec<Vec<u8>> {
    let token = TokenSecret::from_bytes([5; 32]).invitation_token(Service::Proxy);
    let target = || "example.org:443".parse().expect("a target");
    let packet = Packet { peer: target(), payload: b"query".to_vec() };
    let bodies = [
        Hello { service: Service::Proxy, token }.encode(),
        Reply::new(Status::Refused, "nobody listens").encode(),
        Request::Connect(target()).encode(),
        Request::Associate { id: 7 }.encode(),
        Request::File { size: 1 << 40, name: "a file".into() }.encode(),
        packet.encode(),
    ];
    let framed = bodies.map(|body| [&(body.len() as u16).to_be_bytes(), body.as_slice()].concat());
    framed.into_iter().chain([packet.encode_datagram(7)]).collect()
}
