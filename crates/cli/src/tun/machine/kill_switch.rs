//! The kill switch: nothing leaves the machine but through the tunnel.

use super::{NAME, Plan};
use crate::{
    failure::Failure,
    tun::packet_filter::{self, Table},
};

/// The table of the kill switch.
const KILL_SWITCH: &str = "mendpath_kill_switch";

/// Sets it, until what is returned is dropped.
pub(super) fn set(plan: &Plan) -> Result<Table, Failure> {
    Table::set(KILL_SWITCH, &chains(plan)).map_err(|wrong| {
        let next = "Install nftables and run it as root, or leave --kill-switch out";
        Failure::new("cannot set the kill switch", wrong, next)
    })
}

/// Takes the kill switch off, if there is one.
///
/// # Errors
/// When `nft` is missing or not allowed to.
pub(crate) fn remove_kill_switch() -> Result<(), Failure> {
    packet_filter::remove(KILL_SWITCH).map_err(|wrong| {
        Failure::new("cannot remove the kill switch", wrong, "Run it as root, where nftables is installed")
    })
}

/// The chains of the kill switch. What it lets pass of ICMPv6 is what paths need: a switch that hears no
/// reports of MLD may pass nobody's question for this machine's addresses on to it (RFC 4541 section 3). Who
/// gets through to an excluded network from behind this machine hears of it if his own is excluded as well.
fn chains(plan: &Plan) -> String {
    use std::fmt::Write as _;
    let (mut servers, mut excluded) = (String::new(), String::new());
    for server in &plan.servers {
        let family = if server.is_ipv4() { "ip" } else { "ip6" };
        let _ = writeln!(servers, "    {family} daddr {} udp dport {} accept", server.ip(), server.port());
    }
    for net in &plan.excludes {
        let family = if net.addr().is_ipv4() { "ip" } else { "ip6" };
        let _ = writeln!(excluded, "    {family} daddr {net} accept");
    }
    format!(
        "  chain output {{\n    type filter hook output priority 0; policy drop;\n    \
         oifname {{ \"lo\", \"{NAME}\" }} accept\n{servers}{excluded}    \
         udp sport 68 udp dport 67 accept\n    udp sport 546 udp dport 547 accept\n    \
         icmpv6 type {{ nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert }} accept\n    \
         icmpv6 type {{ mld-listener-report, mld-listener-done, mld2-listener-report }} accept\n  }}\n  \
         chain forward {{\n    type filter hook forward priority 0; policy drop;\n    \
         oifname \"{NAME}\" accept\n    iifname \"{NAME}\" accept\n{excluded}  }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kill_switch_names_who_may_pass() {
        let plan = Plan {
            servers: vec!["192.0.2.1:4433".parse().unwrap(), "[2001:db8::1]:443".parse().unwrap()],
            excludes: vec!["198.51.100.0/24".parse().unwrap()],
            ..Plan::default()
        };
        let rules = chains(&plan);
        for line in [
            "ip daddr 192.0.2.1 udp dport 4433 accept",
            "ip6 daddr 2001:db8::1 udp dport 443 accept",
            "ip daddr 198.51.100.0/24 accept",
            "oifname { \"lo\", \"mendpath0\" } accept",
            // A client of DHCP, whose port is no ordinary program's.
            "udp sport 68 udp dport 67 accept",
            "udp sport 546 udp dport 547 accept",
            // Else switches stop asking this machine where its addresses are.
            "icmpv6 type { mld-listener-report, mld-listener-done, mld2-listener-report } accept",
        ] {
            assert!(rules.lines().any(|found| found.trim() == line), "{line} is missing in\n{rules}");
        }
        let (_, forwarded) = rules.split_once("chain forward").unwrap();
        assert!(forwarded.contains("ip daddr 198.51.100.0/24 accept"), "of containers, too: {rules}");
        assert!(!forwarded.contains("udp dport"), "{rules}");
        assert_eq!(rules.matches("policy drop").count(), 2);
    }
}
