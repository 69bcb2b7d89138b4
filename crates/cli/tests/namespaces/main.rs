//! The program itself, `mendpath server` and `mendpath client`, in two network namespaces, over
//! paths that misbehave: NATs that forget, interfaces that come and go, paths for small packets
//! only, bytes that change on the way, IPv6.
//!
//! Needs Linux, root, /dev/net/tun and `ip`, and `nft` for `--tcp raw` and kill switches; skipped aloud without. No
//! test says how long anything takes.

#![cfg(target_os = "linux")]

mod bed;
mod doctor;
mod download;
#[cfg(feature = "tunnel")]
mod echo;
mod laboratory;
mod program;
#[cfg(feature = "tunnel")]
mod raw;
#[cfg(feature = "tunnel")]
mod tunnel;
#[cfg(feature = "tunnel")]
mod undone;
mod wire;

use bed::{Bed, Family};
use download::Download;
use program::Pair;

/// Bytes of a download during which things happen: many times what windows and buffers hold.
const LARGE: u64 = 24 << 20;

/// The bed, or the reason why there is none, said aloud.
fn bed(paths: usize, family: Family) -> Option<Bed> {
    match Bed::new(paths, family) {
        Ok(bed) => Some(bed),
        Err(reason) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "skipped: {reason}");
            None
        }
    }
}

/// A NAT before the client forgets its binding again and again and gives it another address: the
/// one path there is goes on.
#[test]
fn a_download_outlives_nat_rebinding() {
    let Some(bed) = bed(1, Family::V4) else { return };
    let pair = Pair::start(&bed, &["path0"]);
    let mut download = Download::start(&bed, &pair, LARGE);
    for binding in 1..=3 {
        download.read_to(LARGE / 4 * u64::from(binding));
        bed.wires[0].rebind(binding);
    }
    download.finish();
    assert!(bed.wires[0].passed_from(3) > 0, "nothing came from the last address");
    assert_eq!(pair.reconnects(&bed), 0, "the connection itself went on");
}

/// Both interfaces go down and come up again in turn, as a laptop's do on a train.
#[test]
fn a_download_outlives_interfaces_that_flap() {
    let Some(bed) = bed(2, Family::V4) else { return };
    let pair = Pair::start(&bed, &["path0", "path1"]);
    let mut download = Download::start(&bed, &pair, LARGE);
    for (round, path) in (1..).zip([0, 1, 0]) {
        download.read_to(LARGE / 8 * (2 * round - 1));
        bed.take_down(path);
        download.read_to(LARGE / 8 * 2 * round);
        bed.bring_up(path);
        pair.wait_for_paths(&bed, 2);
    }
    download.finish();
    assert_eq!(pair.reconnects(&bed), 0, "the connection itself went on");
}

/// A firewall on the first path swallows packets above 1,100 bytes, in which no QUIC handshake fits
/// (RFC 9000 section 14): the other path carries the connection.
#[test]
fn a_path_for_small_packets_leaves_the_work_to_the_other() {
    let Some(bed) = bed(2, Family::V4) else { return };
    bed.wires[0].swallow_larger_than(1_100);
    let pair = Pair::start_without_waiting(&bed, &["path0", "path1"]);
    let download = Download::start(&bed, &pair, LARGE / 4);
    download.finish();
    assert!(bed.wires[0].swallowed() > 0, "nothing large met the firewall");
}

/// The same firewall comes up while both paths are at work.
#[test]
fn a_path_that_begins_to_swallow_large_packets_is_left() {
    let Some(bed) = bed(2, Family::V4) else { return };
    let pair = Pair::start(&bed, &["path0", "path1"]);
    let mut download = Download::start(&bed, &pair, LARGE);
    download.read_to(LARGE / 4);
    bed.wires[0].swallow_larger_than(1_100);
    download.finish();
    assert!(bed.wires[0].swallowed() > 0, "nothing large met the firewall");
    assert_eq!(pair.reconnects(&bed), 0, "the connection itself went on");
}

/// Alone, such a path is an error in one line that says what was tried and what to do, and no panic
/// or endless wait.
#[test]
fn a_path_for_small_packets_alone_is_a_clear_error() {
    let Some(bed) = bed(1, Family::V4) else { return };
    bed.wires[0].swallow_larger_than(1_100);
    let (code, said) = program::client_that_fails(&bed, &["path0"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("cannot use the server 10.99.0.1:4433") && said.contains("firewall"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

/// One packet in a hundred arrives with a changed byte and a good checksum, in both directions, all
/// the time: authentication drops it, and no byte that a program reads is wrong.
#[test]
fn sustained_corruption_changes_no_byte() {
    let Some(bed) = bed(2, Family::V4) else { return };
    for wire in &bed.wires {
        wire.corrupt_one_in(100);
    }
    let pair = Pair::start(&bed, &["path0", "path1"]);
    Download::start(&bed, &pair, LARGE).finish();
    let corrupted: u64 = bed.wires.iter().map(wire::Wire::corrupted).sum();
    assert!(corrupted >= 100, "only {corrupted} packets were corrupted");
    assert_eq!(pair.reconnects(&bed), 0, "no close was believed");
}

/// No IPv4 anywhere: neither between the ends nor behind the server.
#[test]
fn ipv6_alone_is_enough() {
    let Some(bed) = bed(2, Family::V6) else { return };
    let pair = Pair::start(&bed, &["path0", "path1"]);
    // The first may end before the second path is there.
    let both_carry = (0..20).any(|_| {
        Download::start(&bed, &pair, LARGE / 4).finish();
        bed.wires.iter().all(|wire| wire.passed() > 100)
    });
    assert!(both_carry, "a path carried nothing");
}

/// A server on `[::]` has clients of both families at once.
#[test]
fn one_server_serves_both_families() {
    let Some(bed) = bed(2, Family::Both) else { return };
    let server = program::Server::start(&bed, "[::]:4433");
    let invitations = ["10.99.0.1:4433", "[fd99::1]:4433"].map(|place| server.invitation_for(place));
    let pairs: Vec<_> =
        (0..).zip(invitations).map(|(nth, invitation)| server.client(&bed, &invitation, nth)).collect();
    let mut downloads: Vec<_> =
        pairs.iter().map(|client| Download::through(&bed, client, LARGE / 4)).collect();
    for download in &mut downloads {
        download.read_to(LARGE / 8);
    }
    for download in downloads {
        download.finish();
    }
}

/// Services are given a `/proc` of processes alone (`ProcSubset=pid`): routes are seen all the same,
/// or interfaces that lead nowhere would be taken for paths.
#[test]
fn routes_are_seen_where_proc_shows_processes_alone() {
    let Some(_root_and_tools) = bed(1, Family::V4) else { return };
    let inside = format!(
        "set -e
        for n in 0 1; do
            ip link add here$n type veth peer name there$n
            ip addr add 10.99.$n.1/24 dev here$n
            ip link set here$n up; ip link set there$n up
        done
        # The kernel says that a link is up a moment after it is.
        timeout 20 sh -c 'until [ $(ip link | grep -c \"state UP\") = 4 ]; do :; done'
        ip route add default via 10.99.0.2 dev here0
        mount -t proc -o subset=pid proc /proc
        {} paths --to 192.0.2.1",
        env!("CARGO_BIN_EXE_mendpath")
    );
    let output = std::process::Command::new("unshare").args(["-m", "-n", "sh", "-c", &inside]).output();
    let output = output.expect("util-linux is there");
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let line = |address: &str| said.lines().find(|line| line.contains(address)).unwrap_or_default();
    assert!(line("10.99.0.1").starts_with("yes"), "{said}{wrong}");
    assert!(line("10.99.1.1").contains("no route leads there"), "{said}{wrong}");
}
