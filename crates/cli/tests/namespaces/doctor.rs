//! `mendpath doctor` on networks on which something is wrong.

use std::process::Command;

use super::{
    bed::{Bed, Family},
    program::Server,
};

/// What a doctor at the client's end says, and its exit code.
fn doctor(bed: &Bed, arguments: &[&str]) -> (Option<i32>, String) {
    let arguments: Vec<String> = [&["doctor"], arguments].concat().into_iter().map(str::to_owned).collect();
    let output = bed.start(false, &arguments).wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[track_caller]
fn line<'a>(said: &'a str, check: &str) -> &'a str {
    said.lines().find(|line| line.contains(check)).unwrap_or_else(|| panic!("no `{check}`: {said}"))
}

fn ip(bed: &Bed, words: &str) {
    let mut command = Command::new("ip");
    command.args(words.split_whitespace());
    let output = bed.at_client(|| command.output()).unwrap();
    assert!(output.status.success(), "ip {words}: {output:?}");
}

/// One of two ways lets no UDP out, another no large packets.
#[test]
fn the_doctor_tells_blocked_from_narrow() {
    let Some(bed) = super::bed(2, Family::V4) else { return };
    let server = Server::start(&bed, "0.0.0.0:4433");
    let (code, said) = doctor(&bed, &[server.invitation()]);
    assert_eq!(code, Some(0), "{said}");
    for path in ["path0", "path1"] {
        assert!(line(&said, &format!(" path {path} (10.77.")).starts_with("ok       path"), "{said}");
        assert!(line(&said, &format!(" packets {path} ")).contains("packets of 1450 bytes pass"), "{said}");
    }
    assert!(line(&said, " rp_filter ").contains("not strict"), "{said}");

    bed.wires[0].swallow_larger_than(100);
    bed.wires[1].swallow_larger_than(1_400);
    let (code, said) = doctor(&bed, &[server.invitation()]);
    assert_eq!(code, Some(1), "{said}");
    let blocked = line(&said, " path path0 ");
    assert!(blocked.starts_with("problem") && blocked.contains("it does not answer. Check"), "{said}");
    assert!(line(&said, " path path1 ").starts_with("ok"), "{said}");
    let narrow = line(&said, " packets path1 ");
    assert!(narrow.starts_with("warning") && narrow.contains("1450 bytes get no answer"), "{said}");
    assert!(narrow.contains("those of 1350 pass"), "{said}");
}

/// An interface with a low MTU of its own says so at once.
#[test]
fn the_doctor_knows_the_mtu_of_an_interface() {
    let Some(bed) = super::bed(1, Family::V4) else { return };
    let server = Server::start(&bed, "0.0.0.0:4433");
    ip(&bed, "link set path0 mtu 1400");
    let (_, said) = doctor(&bed, &[server.invitation()]);
    assert!(line(&said, " packets path0 ").contains("1450 bytes are too large for the interface"), "{said}");
}

/// So does a client, which QUIC's smallest packets keep from any server.
#[test]
fn a_client_whose_interface_is_too_narrow_says_so() {
    let Some(bed) = super::bed(1, Family::V4) else { return };
    let server = Server::start(&bed, "0.0.0.0:4433");
    ip(&bed, "link set path0 mtu 1227");
    let arguments = ["client", server.invitation(), "--socks5", "127.0.0.1:0"].map(str::to_owned);
    let output = bed.start(false, &arguments).wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("which QUIC needs, are too large for the interface. Raise the MTU of path0"),
        "{said}"
    );
}

/// Without rules by source address, a strict filter drops what comes in over the second interface.
#[test]
fn the_doctor_finds_a_strict_reverse_path_filter() {
    let Some(bed) = super::bed(2, Family::V4) else { return };
    let server = Server::start(&bed, "0.0.0.0:4433");
    ip(&bed, "rule del from 10.77.1.2 table 101");
    bed.at_client(|| std::fs::write("/proc/sys/net/ipv4/conf/path1/rp_filter", "1")).unwrap();
    let (code, said) = doctor(&bed, &[server.invitation()]);
    assert_eq!(code, Some(1), "{said}");
    let filter = line(&said, " rp_filter ");
    assert!(filter.starts_with("problem") && filter.contains("strict on path1"), "{said}");
    assert!(filter.contains("probably why path1 gets no answer"), "{said}");
    bed.at_client(|| std::fs::write("/proc/sys/net/ipv4/conf/path1/rp_filter", "2")).unwrap();
    let (code, said) = doctor(&bed, &[server.invitation()]);
    assert_eq!(code, Some(0), "the cure helps: {said}");
}

/// An interface that no route leads through is no path, and the doctor says how to make it one.
#[test]
fn the_doctor_names_an_interface_without_a_route() {
    let Some(bed) = super::bed(2, Family::V4) else { return };
    let server = Server::start(&bed, "0.0.0.0:4433");
    ip(&bed, "route del default dev path1 metric 101");
    let (code, said) = doctor(&bed, &[server.invitation()]);
    assert_eq!(code, Some(0), "{said}");
    let route = line(&said, " route path1 (10.77.1.2) ");
    assert!(route.starts_with("warning") && route.contains("dev path1 metric 900"), "{said}");
}

/// As `ifconfig eth0:1` and `ip address add ... label eth0:1` make it.
#[test]
fn an_address_with_a_label_is_one_of_its_interface() {
    let Some(bed) = super::bed(1, Family::V4) else { return };
    ip(&bed, "addr add 10.77.0.9/24 dev path0 label path0:1");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mendpath"));
    let output = bed.at_client(|| command.args(["paths", "--to", "10.99.0.1"]).output().unwrap());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(line(&said, "10.77.0.9").contains("another address of this interface is used"), "{said}");
    assert!(line(&said, "10.77.0.2").starts_with("yes  path0 "), "{said}");
}

/// A sandbox that hides /proc/sys hides the filters, which is said.
#[test]
fn the_doctor_says_what_is_hidden() {
    let Some(bed) = super::bed(1, Family::V4) else { return };
    let invitation = Server::start(&bed, "0.0.0.0:4433").invitation_for("192.0.2.1:4433");
    let inside = format!(
        "for n in 0 1; do
            ip link add here$n type veth peer name there$n
            ip addr add 10.99.$n.1/24 dev here$n
            ip link set here$n up; ip link set there$n up
            ip route add default via 10.99.$n.2 dev here$n metric $n
        done
        mount -t proc -o subset=pid proc /proc
        exec {} doctor '{invitation}'",
        env!("CARGO_BIN_EXE_mendpath")
    );
    let output = Command::new("unshare").args(["-m", "-n", "sh", "-c", &inside]).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(line(&said, " rp_filter ").contains("cannot be seen here: /proc/sys is hidden"), "{said}");
}

/// A server that has an address of the other family only.
#[test]
fn the_doctor_misses_ipv6() {
    let Some(bed) = super::bed(1, Family::V4) else { return };
    let invitation = Server::start(&bed, "0.0.0.0:4433").invitation_for("[2001:db8::7]:4433");
    let (code, said) = doctor(&bed, &[&invitation]);
    assert_eq!(code, Some(1), "{said}");
    assert!(line(&said, " ipv6 ").contains("the server has an IPv6 address only"), "{said}");
    assert!(line(&said, " paths ").contains("no interface leads to [2001:db8::7]:4433"), "{said}");
}
