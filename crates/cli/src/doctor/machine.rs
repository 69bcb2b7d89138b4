//! What has to be right on either side: clock, limits, buffers, offload, reverse path filters.

use std::{
    fs, io,
    net::{IpAddr, Ipv6Addr, UdpSocket},
    path::Path,
    time::{Duration, SystemTime},
};

use mendpath::SOCKET_BUFFER_SIZE;
use quinn_udp::UdpSocketState;
use socket2::SockRef;

use super::Finding;
use crate::{accounts, descriptors, destination};

/// Open files with which neither side runs short: as many connections as a listener serves and lets
/// wait, each with a socket towards the other side.
const ENOUGH_FILES: usize = 4_096;
/// What the kernel grants unless told otherwise, in bytes.
const USUAL_BUFFER: usize = 212_992;

/// All checks that need nothing but the machine; `files` were written by it, at times that must be past.
pub(super) fn checks(files: &[&Path]) -> Vec<Finding> {
    let mut findings = vec![clock_here(files), open_files(descriptors::raise())];
    match UdpSocket::bind((IpAddr::V4([127, 0, 0, 1].into()), 0))
        .or_else(|_| UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)))
    {
        Ok(socket) => {
            findings.push(buffers(granted(&socket)));
            findings.extend(offload(&socket));
        }
        Err(error) => findings.push(Finding::problem(
            "sockets",
            format_args!("no UDP socket can be opened: {}", crate::failure::io_reason(&error)),
            "Check the limits of this user and the sandbox that the program runs in",
        )),
    }
    findings
}

fn clock_here(files: &[&Path]) -> Finding {
    let program = std::env::current_exe().ok();
    let changed = |path: &Path| fs::metadata(path).and_then(|about| about.modified()).ok();
    let newest = files.iter().copied().chain(program.as_deref()).filter_map(changed).max();
    let kept = ["/run/systemd/timesync/synchronized", "/run/chrony/chronyd.pid", "/run/ntpd.pid"];
    clock(accounts::now(), newest, kept.iter().any(|path| Path::new(path).exists()))
}

/// A clock that is behind what was written by it is wrong. Invitations end by it.
fn clock(now: SystemTime, newest: Option<SystemTime>, kept: bool) -> Finding {
    let shown = humantime::format_rfc3339_seconds(now);
    // Files that were unpacked may bear the time of another machine.
    let slack = Duration::from_secs(24 * 3_600);
    if newest.is_some_and(|newest| newest > now + slack) {
        let found = format!("it says {shown}, which is before files of Mendpath were written");
        return Finding::problem(
            "clock",
            found,
            "Set it (timedatectl set-ntp true, or ntpd): invitations end by it",
        );
    }
    let kept = if kept { "kept by NTP" } else { "whether NTP keeps it right cannot be seen" };
    Finding::ok("clock", format_args!("{shown}, {kept}"))
}

fn open_files(limit: usize) -> Finding {
    let cure = "Raise it: `ulimit -n`, LimitNOFILE of the service, /etc/security/limits.conf";
    let found = format!("{limit} at a time");
    match limit {
        ENOUGH_FILES.. => Finding::ok("open files", found),
        descriptors::FEW.. => Finding::warning("open files", found + ", each connection needs one", cure),
        _ => Finding::problem("open files", found + ", each connection needs one", cure),
    }
}

/// What the kernel grants of what the transport asks for, to receive and to send, in bytes.
fn granted(socket: &UdpSocket) -> (usize, usize) {
    let socket = SockRef::from(socket);
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER_SIZE);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER_SIZE);
    // Linux tells twice as much, with its own books.
    let half = |size: io::Result<usize>| size.unwrap_or(0) / if cfg!(target_os = "linux") { 2 } else { 1 };
    (half(socket.recv_buffer_size()), half(socket.send_buffer_size()))
}

fn buffers((receive, send): (usize, usize)) -> Finding {
    let found = format!(
        "{} kB to receive, {} kB to send, of {} kB",
        receive / 1_024,
        send / 1_024,
        SOCKET_BUFFER_SIZE / 1_024
    );
    if receive.min(send) >= SOCKET_BUFFER_SIZE {
        return Finding::ok("buffers", found);
    }
    let small = if receive.min(send) < USUAL_BUFFER { "; less than usual" } else { "" };
    Finding::warning(
        "buffers",
        found + small,
        format_args!(
            "Above 200 Mbit/s or so: sysctl -w net.core.rmem_max={SOCKET_BUFFER_SIZE} net.core.wmem_max={SOCKET_BUFFER_SIZE}"
        ),
    )
}

fn offload(socket: &UdpSocket) -> Option<Finding> {
    let state = UdpSocketState::new(socket.into()).ok()?;
    Some(judge_offload(state.max_gso_segments(), state.gro_segments()))
}

fn judge_offload(send: usize, receive: usize) -> Finding {
    let word = |segments: usize| if segments > 1 { "yes" } else { "no" };
    let found = format!("of UDP: to send {}, to receive {}", word(send), word(receive));
    if send > 1 && receive > 1 {
        return Finding::ok("offload", found);
    }
    Finding::warning("offload", found, "It works with more load on the processor; Linux has both from 5.0 on")
}

/// Whether IPv6 leads out of this machine, and whether that matters: `only` if the other side has
/// nothing else.
pub(super) fn ipv6(only: bool) -> Finding {
    let towards = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
    let source = destination::source_towards(towards).ok().filter(|ip| !ip.is_unspecified());
    match source {
        Some(ip) => Finding::ok("ipv6", format_args!("leads out from {ip}")),
        None if only => Finding::problem(
            "ipv6",
            "the server has an IPv6 address only, and there is no way out by IPv6",
            "Ask its operator for an invitation with an IPv4 address, or get IPv6",
        ),
        None => Finding::ok("ipv6", "no way out by IPv6; IPv4 is used"),
    }
}

/// The reverse path filter of each of `interfaces`: where it is strict, answers that come in over
/// an interface that is not the best way back are dropped, so that only one of several works.
pub(super) fn reverse_paths(interfaces: &[String]) -> Option<Finding> {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter")).ok();
    reverse_paths_by(interfaces, read)
}

fn reverse_paths_by(interfaces: &[String], read: impl Fn(&str) -> Option<String>) -> Option<Finding> {
    // With one there is one way back.
    if interfaces.len() < 2 {
        return None;
    }
    let value = |name: &str| read(name)?.trim().parse::<u8>().ok();
    let Some(all) = value("all") else {
        return Some(Finding::warning(
            "rp_filter",
            "cannot be seen here: /proc/sys is hidden",
            "Look outside the sandbox: `sysctl -ar 'ipv4.*rp_filter'` must show no 1",
        ));
    };
    // The larger of both counts (ip-sysctl): 1 is strict, 2 is loose.
    let is_strict = |name: &&String| value(name).unwrap_or(0).max(all) == 1;
    let strict: Vec<_> = interfaces.iter().filter(is_strict).map(String::as_str).collect();
    if strict.is_empty() {
        return Some(Finding::ok("rp_filter", "not strict"));
    }
    Some(Finding::warning(
        "rp_filter",
        format_args!(
            "strict on {}: without rules by source address, answers over all but one interface are dropped",
            strict.join(", ")
        ),
        "Make it loose: sysctl -w net.ipv4.conf.all.rp_filter=2, and the same in /etc/sysctl.d",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn a_clock_behind_its_files_is_wrong() {
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let verdict = |now, newest| clock(now, newest, false).verdict;
        assert_eq!(verdict(SystemTime::UNIX_EPOCH, Some(then)), Verdict::Problem);
        assert_eq!(verdict(then, Some(then)), Verdict::Ok);
        assert_eq!(verdict(then, Some(then + Duration::from_secs(3_600))), Verdict::Ok, "another zone");
        assert!(clock(then, None, true).found.contains("2023-11-14T22:13:20Z, kept by NTP"));
    }

    #[test]
    fn limits_are_judged() {
        let verdicts = [64, 1_024, 65_536].map(|limit| open_files(limit).verdict);
        assert_eq!(verdicts, [Verdict::Problem, Verdict::Warning, Verdict::Ok]);
        let verdicts = [1 << 10, USUAL_BUFFER, SOCKET_BUFFER_SIZE].map(|size| buffers((size, size)));
        assert!(verdicts[0].found.contains("less than usual"));
        assert_eq!(
            verdicts.map(|finding| finding.verdict),
            [Verdict::Warning, Verdict::Warning, Verdict::Ok]
        );
        assert_eq!(judge_offload(64, 64).verdict, Verdict::Ok);
        assert!(judge_offload(1, 64).found.contains("to send no, to receive yes"));
    }

    #[test]
    fn the_larger_filter_counts_and_what_is_hidden_is_said() {
        let names = ["wlan0".to_owned(), "wwan0".to_owned()];
        let judged = |all: &'static str, wwan: &'static str| {
            let read = move |name: &str| {
                Some(
                    if name == "all" {
                        all
                    } else if name == "wwan0" {
                        wwan
                    } else {
                        "0\n"
                    }
                    .to_owned(),
                )
            };
            reverse_paths_by(&names, read).unwrap()
        };
        assert_eq!(judged("0", "0").verdict, Verdict::Ok);
        assert!(judged("0", "1").found.contains("strict on wwan0:"));
        assert!(judged("1", "2").found.contains("strict on wlan0:"), "loose wins where it is larger");
        assert_eq!(judged("2", "1").verdict, Verdict::Ok);
        assert!(reverse_paths_by(&names, |_| None).unwrap().found.contains("hidden"));
        assert_eq!(reverse_paths_by(&names[..1], |_| None), None);
    }
}
