//! A connection whose peer has the keys and sends whatever it likes.
//!
//! Promises: no panic; the connection goes on, or says once why it ends; its memory stays within
//! its limits; time never stands still; and when the wire falls silent, everything ends.

use proto::{
    Dir, PathId, PathStatus, RecoveryKind, RepairConfig, SchedulerKind, StreamId, TransportConfig,
    wire::PacketKind,
};
use units::Duration;

use crate::{
    input::Input,
    pair::{Pair, Settings, network},
    payload::payload,
};

/// Steps of a script.
const MAX_STEPS: usize = 100;

/// Any script.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let transport = config(&mut input);
    let start = input.u8();
    let mut pair = Pair::new(&Settings { returning: start & 7 == 7, ..Settings::new(transport) });
    if start < 0xc0 {
        pair.run(Duration::from_millis(100));
        assert!(pair.is_up());
    }
    for _ in 0..MAX_STEPS {
        let Some(step) = input.step() else { break };
        match step % 16 {
            0..=7 => attack(&mut pair, &mut input, step % 2 == 0),
            8 | 9 => {
                let exponent = input.u8() % 24;
                pair.run(Duration::from_micros(1 << exponent));
            }
            10 => {
                let (now, port) = (pair.now, 2 + u16::from(input.u8() % 5));
                if let Some(client) = pair.connection(false) {
                    let _ = client.open_path(now, network(port, false));
                }
            }
            11 => {
                let (now, path, end) = (pair.now, PathId(input.below(8) as u32), input.flag());
                if let Some(connection) = pair.connection(end) {
                    let _ = connection.close_path(now, path, 1u8.into());
                }
            }
            // The wire loses what is on it.
            12 => pair.wire.clear(),
            _ => application(&mut pair, &mut input, step % 2 == 0),
        }
        pair.flush();
    }
    pair.run(Duration::from_secs(1));
    pair.expect_end();
}

fn config(input: &mut Input<'_>) -> TransportConfig {
    let choice = input.u8();
    let small = choice & 1 == 0;
    TransportConfig {
        receive_window: if small { 5_000 } else { 200_000 },
        stream_receive_window: if small { 2_000 } else { 100_000 },
        initial_stream_window: Some(if small { 2_000 } else { 100_000 }),
        send_buffer: if small { 5_000 } else { 200_000 },
        max_concurrent_bidi: if small { 2 } else { 100 },
        max_concurrent_uni: if small { 0 } else { 100 },
        datagram_receive_buffer: if choice & 2 == 0 { 0 } else { 3_000 },
        reset_stream_at: !small,
        max_paths: if choice & 4 == 0 { 1 } else { 4 },
        keep_alive: (choice & 8 == 0).then_some(std::time::Duration::from_secs(5)),
        recovery: RecoveryKind::ALL[usize::from(choice >> 4) % RecoveryKind::ALL.len()],
        scheduler: SchedulerKind::ALL[usize::from(choice >> 6) % SchedulerKind::ALL.len()],
        repair: RepairConfig {
            accept: choice & 0x30 != 0,
            decoder_memory: 20_000,
            ..RepairConfig::default()
        },
        ..TransportConfig::default()
    }
}

/// One end seals a payload for the other.
fn attack(pair: &mut Pair, input: &mut Input<'_>, to_server: bool) {
    let choice = input.u8();
    let kind = match choice {
        0xf0..=0xf7 => PacketKind::Initial,
        0xf8.. => PacketKind::Handshake,
        0xe8..=0xef => PacketKind::ZeroRtt,
        _ => PacketKind::OneRtt,
    };
    let path = PathId(u32::from(choice & 3));
    let payload = payload(input);
    let now = pair.now;
    let Some(attacker) = pair.connection(!to_server) else { return };
    let Some(packet) = attacker.seal_for_fuzzing(now, kind, path, &payload) else { return };
    let port = path.0 as u16 + 1;
    pair.deliver(to_server, network(port, to_server), packet);
}

/// The application of one end does something.
fn application(pair: &mut Pair, input: &mut Input<'_>, server: bool) {
    let now = pair.now;
    let (call, id) = (input.u8(), StreamId(u64::from(input.u8() % 24)));
    let len = usize::from(input.u16()) % 20_000;
    let Some(connection) = pair.connection(server) else { return };
    match call % 12 {
        0 => drop(connection.open(Dir::Bi)),
        1 => drop(connection.open(Dir::Uni)),
        2 | 3 => drop(connection.write(id, &vec![7; len])),
        4 => drop(connection.finish(id)),
        5 => drop(connection.reset(id, 1u8.into())),
        6 => drop(connection.stop(id, 1u8.into())),
        7 | 8 => {
            for dir in [Dir::Bi, Dir::Uni] {
                while connection.accept(dir).is_some() {}
            }
            let _ = connection.read(id, &mut vec![0; len + 1]);
        }
        9 => drop(connection.send_datagram(vec![7; len % 1_300].into())),
        10 => while connection.receive_datagram().is_some() {},
        _ if call > 0xf8 => connection.close(now, 1u8.into(), b"enough"),
        _ if call > 0xc0 => connection.force_key_update(),
        _ if call > 0xa0 => drop(connection.start_early_data(now)),
        _ => {
            let path = PathId((len % 4) as u32);
            let status = if len & 4 == 0 { PathStatus::Backup } else { PathStatus::Available };
            let _ = connection.set_path_status(path, status);
        }
    }
}
