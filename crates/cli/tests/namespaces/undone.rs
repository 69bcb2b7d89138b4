//! What somebody takes away of a tunnel comes back: as systemd-networkd does with rules that it does not
//! know when it starts, and whoever tidies up.

use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    bed as any_bed,
    bed::{Bed, Family, PATIENCE, pause},
    raw, tunnel,
    tunnel::{end, ip, start_tunnel},
};

/// Rules, routes and addresses of a tunnel at the client's end, in whatever order.
fn laid(bed: &Bed) -> Vec<String> {
    let mut laid = Vec::new();
    for family in ["-4", "-6"] {
        for what in [
            "rule",
            "addr show dev mendpath0 scope global",
            "route show table 28016",
            "route show table 28017",
        ] {
            let listed = ip(bed, &format!("{family} {what}"));
            laid.extend(listed.lines().map(|line| format!("{family} {}", line.trim())));
        }
    }
    laid.sort();
    laid
}

/// Waits until it is so; whether it is.
fn becomes(so: impl Fn() -> bool) -> bool {
    (0..PATIENCE.as_millis() / 20).any(|_| {
        pause(Duration::from_millis(20));
        so()
    })
}

/// Takes this away, so many times, sees that it is gone, and waits until all is as before.
fn comes_back(bed: &Bed, tunnel: &Child, before: &[String], (away, times): (&str, usize)) {
    let pid = Pid::from_raw(tunnel.id().cast_signed());
    kill(pid, Signal::SIGSTOP).unwrap();
    for _ in 0..times {
        ip(bed, away);
    }
    assert_ne!(laid(bed), before, "{away}");
    kill(pid, Signal::SIGCONT).unwrap();
    let back = becomes(|| laid(bed) == before);
    assert!(back, "{away}: {:?} instead of {before:?}", laid(bed));
}

/// A table of nftables, nothing if there is none.
fn table(name: &str) -> String {
    let list = ["--stateless", "--terse", "list", "table", "inet", name];
    let listed = Command::new("nft").args(list).output().unwrap();
    String::from_utf8_lossy(&listed.stdout).into_owned()
}

/// Changes the packet filter, and waits until the table is as it was.
fn filter_comes_back(name: &str, change: &str) {
    let before = table(name);
    assert!(!before.is_empty(), "{change}");
    assert!(Command::new("nft").arg(change).status().unwrap().success(), "{change}");
    let back = becomes(|| table(name) == before);
    assert!(back, "{change}: {} instead of {before}", table(name));
}

/// Switches forwarding off, and waits until it is on.
fn forwarding_comes_back(file: &str) {
    std::fs::write(file, "0").unwrap();
    assert!(becomes(|| std::fs::read_to_string(file).unwrap().trim() == "1"), "{file}");
}

#[test]
fn rules_and_routes_that_something_takes_away_come_back() {
    let Some(bed) = any_bed(2, Family::Both) else { return };
    let world = tunnel::World::new(&bed);
    let exclude = ["--exclude", "10.98.0.0/16", "--exclude", "fd00:98::/32"];
    let tunnel = start_tunnel(&bed, world.server.invitation(), &exclude);
    let before = laid(&bed);
    for family in ["-4", "-6"] {
        for priority in 28_010..28_016 {
            let away = format!("{family} rule del priority {priority}");
            comes_back(&bed, &tunnel, &before, (&away, 1));
            let all = ip(&bed, &format!("{family} rule list priority {priority}")).lines().count();
            comes_back(&bed, &tunnel, &before, (&away, all));
        }
        for table in [28_016, 28_017] {
            comes_back(&bed, &tunnel, &before, (&format!("{family} route flush table {table}"), 1));
        }
        comes_back(&bed, &tunnel, &before, (&format!("{family} addr flush dev mendpath0 scope global"), 1));
    }
    comes_back(&bed, &tunnel, &before, ("route del throw 10.98.0.0/16 table 28016", 1));
    end(tunnel);
}

/// Its routes are from the addresses that the server has assigned.
#[test]
fn assigned_addresses_that_something_takes_away_come_back() {
    let Some(bed) = raw::bed_or_skip(2, Family::Both) else { return };
    let world = raw::World::new(&bed);
    let tunnel = start_tunnel(&bed, world.server.invitation(), &["--tcp", "raw"]);
    let before = laid(&bed);
    for family in ["-4", "-6"] {
        comes_back(&bed, &tunnel, &before, (&format!("{family} addr flush dev mendpath0 scope global"), 1));
        comes_back(&bed, &tunnel, &before, (&format!("{family} route flush table 28016"), 1));
    }
    end(tunnel);
}

/// Just when all is set up.
#[test]
fn what_something_takes_away_before_anybody_looks_comes_back() {
    let Some(bed) = raw::bed_or_skip(2, Family::Both) else { return };
    let world = raw::World::new(&bed);
    let (_folder, path) = tunnel::nft_after("-4 addr flush dev mendpath0");
    let mut tunnel = Command::new(env!("CARGO_BIN_EXE_mendpath"));
    tunnel.args(["tunnel", "--path", "path0", "--path", "path1", "--tcp", "raw", "--kill-switch"]);
    tunnel.env("MENDPATH_INVITATION", world.server.invitation()).env("PATH", path).stdin(Stdio::null());
    let tunnel = bed.at_client(|| tunnel.spawn().unwrap());
    let is_up = || bed.at_client(|| !table("mendpath_kill_switch").is_empty());
    let has_address = || ip(&bed, "-br -4 addr show mendpath0").contains("198.19.");
    assert!(becomes(|| is_up() && has_address()));
    end(tunnel);
}

/// As a firewall does when it is reloaded, again and again, and at both ends; and as `sysctl --system`
/// does.
#[test]
fn a_packet_filter_and_forwarding_that_something_changes_come_back() {
    let Some(bed) = raw::bed_or_skip(2, Family::Both) else { return };
    let world = raw::World::new(&bed);
    let mut tunnel = start_tunnel(&bed, world.server.invitation(), &["--tcp", "raw", "--kill-switch"]);
    for _ in 0..2 {
        for change in ["flush ruleset", "insert rule inet mendpath_kill_switch output accept"] {
            bed.at_client(|| filter_comes_back("mendpath_kill_switch", change));
        }
        for change in ["flush ruleset", "flush chain inet mendpath_server forward"] {
            bed.at_server(|| filter_comes_back("mendpath_server", change));
        }
    }
    for file in ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"] {
        bed.at_server(|| forwarding_comes_back(file));
    }
    let pid = Pid::from_raw(tunnel.id().cast_signed());
    kill(pid, Signal::SIGTERM).unwrap();
    assert!(tunnel.wait().unwrap().success());
    world.server.stop();
    assert_eq!(bed.at_client(|| table("mendpath_kill_switch")), "", "it is gone at the end");
    assert_eq!(bed.at_server(|| table("mendpath_server")), "", "it is gone at the end");
}

/// Its clients' packets would go nowhere.
#[test]
fn a_servers_device_that_something_sets_down_comes_back() {
    let Some(bed) = raw::bed_or_skip(1, Family::Both) else { return };
    let _world = raw::World::new(&bed);
    let ip = |line: &str| {
        let output = bed.at_server(|| Command::new("ip").args(line.split_whitespace()).output().unwrap());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // Nothing while it is down.
    let addresses = || ip("-o addr show dev mendpaths0 up scope global");
    let before = addresses();
    assert_eq!(before.lines().count(), 2, "{before}");
    for _ in 0..2 {
        ip("link set mendpaths0 down");
        assert!(becomes(|| addresses() == before), "{} instead of {before}", addresses());
    }
}
