//! Schemes that a plan can name, one file each. A new one is a file with `read` and its line here.
//!
//! `read` gets the scheme's table and the plan's TCP, and answers with a profile of the simulator.

mod caps;
mod coding;
mod cofuso;
mod corrective;
mod ctcp;
mod fuso;
mod htpc;
mod mendpath;
mod mptcp;
mod ndp;
mod proactive;
mod quic_fec;
mod reactive;
mod repflow;
mod reps;
mod slp;
mod tcp;
mod tcp_ir;
mod xlink;

use tcpsim::{Profile, SchemeKind, Tcp, schemes::Mptcp};

use plans::{Keys, PlanError, names};

use crate::parts::{Parts, allowed, made};

/// Reads a scheme's parameters.
pub type Read = fn(&mut Keys<'_>, Tcp) -> Result<Profile, PlanError>;

/// The schemes, by the papers' names.
pub const SCHEMES: &[(&str, Read)] = &[
    ("caps", caps::read),
    ("cofuso", cofuso::read),
    ("corrective", corrective::read),
    ("ctcp", ctcp::read),
    ("fuso", fuso::read),
    ("htpc", htpc::read),
    ("mendpath", mendpath::read),
    ("mptcp", mptcp::read),
    ("ndp", ndp::read),
    ("proactive", proactive::read),
    ("quic-fec", quic_fec::read),
    ("repflow", repflow::read),
    ("reps", reps::read),
    ("slp", slp::read),
    ("tcp", tcp::read),
    ("tcp-ir", tcp_ir::read),
    ("tlp", reactive::read),
    ("xlink", xlink::read),
];

/// Whether schemes of this kind count what a metric is worked out from. Of what they do not count nothing
/// is said: nought would read as none.
pub(crate) fn counts(kind: &str, metric: &str) -> bool {
    kind != "mendpath" || !mendpath::UNCOUNTED.contains(&metric)
}

/// A scheme's entry: `kind`, TCP's parameters in `tcp`, and its own. One of the program's own has
/// the keys of MPTCP and a table `parameters`.
pub(crate) fn read(keys: &mut Keys<'_>, tcp: Tcp, parts: &Parts) -> Result<Profile, PlanError> {
    let known =
        || allowed(format!("one of {}", names(SCHEMES.iter().map(|(name, _)| *name))), &parts.schemes);
    let kind = keys.text("kind")?;
    let kind = keys.need("kind", kind, &known())?;
    if let ("mendpath", Some(own)) = (kind, keys.value("tcp")) {
        return Err(PlanError::value(
            keys.path("tcp"),
            own,
            "left out: the transport has none of TCP's keys",
        ));
    }
    let tcp = crate::tcp::read(keys.table("tcp")?, tcp, parts)?;
    if let Some((base, part)) = parts.schemes.get(kind) {
        let mptcp = sub_flows(keys, *base)?;
        return Ok(Profile { tcp, scheme: SchemeKind::Custom(mptcp, made(keys, "parameters", part)?) });
    }
    let read = SCHEMES.iter().find(|(name, _)| *name == kind);
    let wrong = || PlanError::value(keys.path("kind"), format!("`{kind}`"), known());
    let (_, read) = read.ok_or_else(wrong)?;
    read(keys, tcp)
}

/// When sub-flows open: with the first one, or when it is open.
const JOINS: &[(&str, bool)] = &[("at-once", false), ("later", true)];

/// The keys of everything that is built on MPTCP, on top of `base`.
pub(crate) fn sub_flows(keys: &mut Keys<'_>, base: Mptcp) -> Result<Mptcp, PlanError> {
    let subflows = keys.count("subflows", 1..=14)?;
    Ok(Mptcp {
        subflows: subflows.map_or(base.subflows, |count| count as usize),
        opportunistic: keys.flag("opportunistic")?.unwrap_or(base.opportunistic),
        reinject_on_timeout: keys.flag("reinject_on_timeout")?.unwrap_or(base.reinject_on_timeout),
        early_delivery: keys.flag("early_delivery")?.unwrap_or(base.early_delivery),
        hollow: keys.flag("hollow")?.unwrap_or(base.hollow),
        join_later: keys.named("joins", JOINS)?.unwrap_or(base.join_later),
    })
}
