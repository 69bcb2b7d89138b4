//! A name server that knows one name at once and takes for ever over all others.

use std::{
    net::{Ipv4Addr, UdpSocket},
    thread,
};

use crate::flood::Outcome;

/// The name that is known: it has the address 127.0.0.1.
pub const QUICK_NAME: &str = "origin.flood.test";
/// Where the name server is.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 77, 77, 53);

/// The longest query that is looked at.
const LONGEST: usize = 1_500;

/// Starts it; it runs as long as this process. Needs port 53.
pub fn start() -> Outcome<()> {
    let socket =
        UdpSocket::bind((ADDRESS, 53)).map_err(|error| format!("no name server on {ADDRESS}: {error}"))?;
    thread::spawn(move || {
        let mut query = [0; LONGEST];
        while let Ok((n, from)) = socket.recv_from(&mut query) {
            if let Some(answer) = answer(&query[..n]) {
                let _ = socket.send_to(&answer, from);
            }
        }
    });
    Ok(())
}

/// The answer to a query (RFC 1035 section 4.1), if it is about [`QUICK_NAME`]; silence about the
/// others.
fn answer(query: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    for label in QUICK_NAME.split('.') {
        name.push(label.len() as u8);
        name.extend(label.as_bytes());
    }
    name.push(0);
    let question = query.get(12..12 + name.len() + 4)?;
    if !question[..name.len()].eq_ignore_ascii_case(&name) {
        return None;
    }
    let is_a = question[name.len()..] == [0, 1, 0, 1];
    // The same identifier and question; a response, recursion available, no error; one answer if it
    // is about A.
    let mut answer = query[..2].to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
    answer.extend(question);
    if is_a {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    }
    Some(answer)
}

/// Makes this process ask the name server at `address`: with a `resolv.conf` of its own, in a mount
/// namespace of its own.
#[cfg(target_os = "linux")]
pub fn ask(address: Ipv4Addr) -> Outcome<()> {
    use nix::{
        mount::{MsFlags, mount},
        sched::{CloneFlags, unshare},
    };
    use std::io::Write as _;

    const NOTHING: Option<&str> = None;
    let mut file = tempfile::NamedTempFile::new()?;
    // As systems have it unless told otherwise: five seconds, two attempts.
    writeln!(file, "nameserver {address}")?;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING)?;
    mount(Some(file.path()), "/etc/resolv.conf", NOTHING, MsFlags::MS_BIND, NOTHING)?;
    Ok(())
}

/// Nowhere else.
#[cfg(not(target_os = "linux"))]
pub fn ask(_: Ipv4Addr) -> Outcome<()> {
    Err("a name server of one's own needs Linux".into())
}
