//! Forward error correction at a fixed rate: MPTCP's keys (one sub-flow unless `subflows` says
//! otherwise), and of `code = "block"`: `size` (20) and `repair` (2); of `"window"`: `size` (50) and
//! `every` (10); of `"message"`: `share` (0.2).

use plans::{Keys, PlanError};
use tcpsim::{
    Profile, SchemeKind, Tcp,
    schemes::{QuicFec, quic_fec::Code},
};

use super::sub_flows;

const CODES: &[(&str, Code)] = &[
    ("block", Code::Block { size: 20, repair: 2 }),
    ("window", Code::Window { size: 50, every: 10 }),
    ("message", Code::Message { share: 0.2 }),
];

pub(super) fn read(keys: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    let code = keys.named("code", CODES)?;
    let code = match keys.need("code", code, "block, window or message")? {
        Code::Block { size, repair } => Code::Block {
            size: keys.count("size", 1..=255)?.unwrap_or(size),
            repair: keys.count("repair", 1..=255)?.unwrap_or(repair),
        },
        Code::Window { size, every } => Code::Window {
            size: keys.count("size", 1..=255)?.unwrap_or(size),
            every: keys.count("every", 1..=255)?.unwrap_or(every),
        },
        Code::Message { share } => Code::Message { share: keys.float("share", 0.0..=10.0)?.unwrap_or(share) },
    };
    let mptcp = sub_flows(keys, QuicFec::new(code).mptcp)?;
    Ok(Profile { tcp, scheme: SchemeKind::QuicFec(QuicFec { mptcp, code }) })
}
