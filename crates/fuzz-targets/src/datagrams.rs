//! A connection whose attacker has no keys but sees, changes, loses, repeats and makes datagrams.
//!
//! Promises: no panic; stateless answers are small; memory stays within its limits; and whatever
//! does not authenticate does no harm: unless the attacker used what RFC 9000 gives to everybody
//! (keys of Initial packets, Version Negotiation, other addresses), the handshake completes and
//! data arrives once the wire is left alone.

use proto::{
    AddressValidation, CID_LEN, ConnectionId, Side, TransportConfig,
    fuzzing::initial_packet,
    wire::{HeaderKind, ProtectedHeader, VERSION_1, encode_retry, encode_version_negotiation},
};
use units::Duration;

use crate::{
    input::Input,
    pair::{Flight, Pair, Settings, network},
    payload::payload,
};

/// Steps of a script.
const MAX_STEPS: usize = 60;
/// Datagrams that are remembered for repetition.
const MAX_SEEN: usize = 64;

struct Attack {
    pair: Pair,
    /// Everything that was on the wire.
    seen: Vec<Flight>,
    /// The connection id to which the client's first packet went: it gives the keys of Initial
    /// packets.
    original: ConnectionId,
    /// Whether nothing happened but what must not hurt.
    harmless: bool,
}

/// Any script.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let config = TransportConfig { max_paths: 1 + input.below(3) as u32, ..TransportConfig::default() };
    let settings = Settings {
        validation: input.pick(&[AddressValidation::Never, AddressValidation::Always]),
        returning: input.u8() & 7 == 7,
        ..Settings::new(config)
    };
    let mut pair = Pair::new(&settings);
    pair.flush();
    let first = &pair.wire.front().expect("the client speaks first").data;
    let original = ProtectedHeader::decode(first, CID_LEN).expect("our own packet").dcid;
    let mut attack = Attack { pair, seen: Vec::new(), original, harmless: true };
    // A silence above this may end the handshake.
    let mut patience = Duration::from_secs(4);
    for _ in 0..MAX_STEPS {
        let Some(step) = input.step() else { break };
        attack.pair.flush();
        match step % 12 {
            0..=2 => attack.pass(&mut input),
            3 | 4 => attack.change(&mut input),
            5 => attack.again(&mut input),
            6 => drop(attack.take()),
            7 => attack.make(&mut input),
            8 => attack.forge_initial(&mut input),
            9 => attack.forge_stateless(&mut input),
            10 => attack.pair.run(Duration::from_micros(1 << input.below(17))),
            _ => {
                let wait = Duration::from_millis(u64::from(input.u8()) * 8);
                if wait < patience {
                    patience = patience - wait;
                    attack.wait(wait);
                }
            }
        }
    }
    let Attack { mut pair, harmless, .. } = attack;
    if harmless {
        pair.run(Duration::from_secs(20));
        assert!(pair.is_up(), "the handshake did not complete");
        pair.expect_transfer();
    }
    pair.expect_end();
}

impl Attack {
    /// Takes the next datagram off the wire.
    fn take(&mut self) -> Option<Flight> {
        let flight = self.pair.wire.pop_front()?;
        if self.seen.len() < MAX_SEEN {
            self.seen.push(flight.clone());
        }
        Some(flight)
    }

    /// Delivers the next datagrams as they are.
    fn pass(&mut self, input: &mut Input<'_>) {
        for _ in 0..1 + input.below(8) {
            let Some(flight) = self.take() else { return };
            self.pair.deliver(flight.to_server, flight.path, flight.data);
            self.pair.flush();
        }
    }

    /// Delivers the next datagram changed, and perhaps as it was.
    fn change(&mut self, input: &mut Input<'_>) {
        let Some(mut flight) = self.take() else { return };
        let original = flight.data.clone();
        mutate(&mut flight.data, input);
        self.note(&flight.data);
        self.pair.deliver(flight.to_server, flight.path, flight.data);
        if input.flag() {
            self.pair.deliver(flight.to_server, flight.path, original);
        }
    }

    /// Delivers an old datagram again, changed or not, to either side, from where it came or from
    /// elsewhere.
    fn again(&mut self, input: &mut Input<'_>) {
        let index = input.below(MAX_SEEN);
        let Some(mut flight) = self.seen.get(index).cloned() else { return };
        let choice = input.u8();
        if choice & 1 == 1 {
            mutate(&mut flight.data, input);
        }
        let to_server = flight.to_server ^ (choice & 6 == 6);
        let path = if choice & 0x18 == 0x18 {
            self.harmless = false;
            network(9, to_server)
        } else {
            network(1, to_server)
        };
        self.note(&flight.data);
        self.pair.deliver(to_server, path, flight.data);
    }

    /// Delivers bytes of its own, perhaps with a connection id that is in use.
    fn make(&mut self, input: &mut Input<'_>) {
        let (choice, to_server) = (input.u8(), input.flag());
        let mut data = Vec::new();
        let known = self.seen.iter().rev().find(|flight| flight.to_server == to_server);
        let header = known.and_then(|flight| ProtectedHeader::decode(&flight.data, CID_LEN).ok());
        if choice & 1 == 1
            && let Some(header) = header
        {
            if choice & 2 == 0 {
                data.push(0x40 | input.u8());
                data.extend_from_slice(&header.dcid);
            } else {
                data.push(0xc0 | input.u8());
                data.extend(VERSION_1.to_be_bytes());
                data.push(header.dcid.len() as u8);
                data.extend_from_slice(&header.dcid);
            }
        }
        data.extend_from_slice(input.bytes(usize::from(input.clone().u8())));
        data.resize(data.len().max(usize::from(input.u16()) % 1_500), 0);
        self.note(&data);
        self.pair.deliver(to_server, network(1, to_server), data);
    }

    /// An Initial packet with the right keys.
    fn forge_initial(&mut self, input: &mut Input<'_>) {
        self.harmless = false;
        let to_server = input.flag();
        let known = self.seen.iter().rev().find(|flight| flight.to_server == to_server);
        let header = known.and_then(|flight| ProtectedHeader::decode(&flight.data, CID_LEN).ok());
        let (dcid, scid) = header.map_or((self.original, self.original), |header| (header.dcid, header.scid));
        let scid = if input.flag() { scid } else { self.original };
        let token = input.bytes(input.clone().below(40)).to_vec();
        let (token, original) = match input.below(3) {
            // After Retry the keys follow from its source.
            0 => self.retry().unwrap_or((token, self.original)),
            1 => (Vec::new(), dcid),
            _ => (token, self.original),
        };
        let number = input.number() & 0xffff_ffff;
        let mut payload = payload(input);
        payload.resize(payload.len().max(usize::from(input.u16()) % 1_300).clamp(1, 10_000), 0);
        let from = if to_server { Side::Client } else { Side::Server };
        let packet = initial_packet(&original, from, (dcid, scid), &token, number, &payload);
        let packet = packet.expect("the keys are fresh");
        self.pair.deliver(to_server, network(1 + input.u8() as u16 % 2, to_server), packet);
    }

    /// Token and source of a Retry that was on the wire.
    fn retry(&self) -> Option<(Vec<u8>, ConnectionId)> {
        self.seen.iter().rev().find_map(|flight| {
            let header = ProtectedHeader::decode(&flight.data, CID_LEN).ok()?;
            match header.kind {
                HeaderKind::Retry { token, .. } => Some((token.to_vec(), header.scid)),
                _ => None,
            }
        })
    }

    /// Version Negotiation or Retry.
    fn forge_stateless(&mut self, input: &mut Input<'_>) {
        self.harmless = false;
        let header = self.seen.first().and_then(|flight| ProtectedHeader::decode(&flight.data, CID_LEN).ok());
        let Some((client, first)) = header.map(|header| (header.scid, header.dcid)) else { return };
        let mut data = Vec::new();
        if input.flag() {
            let versions = [input.number() as u32, input.pick(&[VERSION_1, 2, 0])];
            encode_version_negotiation(input.u8(), &client, &first, &versions, &mut data);
        } else {
            encode_retry(&client, &first, b"token", &mut data);
            data.extend([input.u8(); 16]);
        }
        self.pair.deliver(false, network(1, false), data);
    }

    /// Lets time pass while nothing arrives.
    fn wait(&mut self, time: Duration) {
        let wire = std::mem::take(&mut self.pair.wire);
        self.pair.cut = true;
        self.pair.run(time);
        self.pair.cut = false;
        self.pair.wire = wire;
    }

    /// Version Negotiation is believed without proof while nothing else was heard: such a datagram
    /// may end a connection.
    fn note(&mut self, data: &[u8]) {
        let mut rest = data;
        while let Ok(header) = ProtectedHeader::decode(rest, CID_LEN) {
            self.harmless &= !matches!(header.kind, HeaderKind::VersionNegotiation { .. });
            rest = &rest[header.len..];
        }
    }
}

/// Changes some bytes, the length, or both.
fn mutate(data: &mut Vec<u8>, input: &mut Input<'_>) {
    for _ in 0..input.below(6) {
        let at = usize::from(input.u16()) % data.len().max(1);
        let with = input.u8();
        if let Some(byte) = data.get_mut(at) {
            *byte ^= with;
        }
    }
    match input.u8() % 4 {
        0 => data.truncate(usize::from(input.u16()) % (data.len() + 1)),
        1 => data.extend_from_slice(input.bytes(input.clone().below(64))),
        _ => {}
    }
}
