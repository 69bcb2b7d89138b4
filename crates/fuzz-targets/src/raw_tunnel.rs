//! Both ends of a raw tunnel: datagrams of a hostile peer, and packets of a device that take ways
//! of different lengths, come twice or not at all.

use tunnel::raw::{Coding, Incoming, IncomingConfig, Outgoing, OutgoingConfig, clamp_segments, wire::Body};
use units::{Duration, Instant};

use crate::input::Input;

/// Flows at a time, and bytes that may wait.
const FLOWS: usize = 4;
const HELD: usize = 512;
/// The same of bytes that are kept for combinations.
const KEPT: usize = 1_024;

/// Steps: a packet that is sent, one of those on their way that arrives, bytes from nowhere, time. What
/// is sent beside packets comes with them.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let coding = Coding::ALL[usize::from(input.u8()) % Coding::ALL.len()];
    let config = OutgoingConfig { prefix: Vec::new(), most_flows: FLOWS, coding, most_kept: KEPT };
    let mut outgoing = Outgoing::new(config);
    let config =
        IncomingConfig { most_flows: FLOWS, most_held: HELD, most_kept: KEPT, ..IncomingConfig::default() };
    let mut incoming = Incoming::new(config);
    let (mut under_way, mut now) = (Vec::<Vec<u8>>::new(), Instant::ORIGIN);
    while let Some(step) = input.step() {
        match step % 8 {
            0..=2 => {
                let length = usize::from(input.u8());
                let mut packet = input.bytes(length).to_vec();
                clamp_segments(&mut packet, 1_200);
                let sent = outgoing.handle(&packet, 200, now);
                let carried = match Body::decode(&sent) {
                    Ok(Body::Packet(carried) | Body::Sequenced { packet: carried, .. }) => carried,
                    other => panic!("{other:?}"),
                };
                assert_eq!(carried, packet, "it is carried as it is");
                under_way.insert(0, sent);
                outgoing.on_timer(now);
                under_way.extend(outgoing.next_extra(now).map(|extra| extra.datagram));
                under_way.rotate_right(1);
                under_way.truncate(8);
            }
            3..=4 => {
                let Some(datagram) = under_way.get(usize::from(step >> 5)) else { continue };
                incoming.handle(datagram, now, &mut |_| {});
            }
            5 => {
                let length = usize::from(input.u8());
                incoming.handle(input.bytes(length), now, &mut |_| {});
            }
            6 => {
                now += Duration::from_millis(input.u8().into());
                incoming.on_timer(now, &mut |_| {});
                assert!(incoming.deadline().is_none_or(|at| at > now), "what is due is done");
            }
            _ => {
                now += Duration::from_secs(input.u8().into());
                incoming.set_path_spread(Duration::from_millis(u64::from(step)));
                incoming.expire(now);
                outgoing.expire(now);
            }
        }
        assert!(incoming.counters().flows <= FLOWS && outgoing.counters().flows <= FLOWS);
        assert!(incoming.counters().held_bytes <= HELD);
        assert!(incoming.counters().kept_bytes <= KEPT && outgoing.counters().kept_bytes <= KEPT);
    }
}
