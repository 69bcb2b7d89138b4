//! The whole machine behind the device: rules and a table of their own, so that nothing of the
//! machine's own routes is touched; the kill switch.
//!
//! Rules in the order of their priorities, for each family:
//!
//! 1. to the server: past the others, so that the paths' own packets go around the tunnel; from an
//!    address that this machine has otherwise: the same, so that connections that were there before,
//!    or come in from outside, stay where they are. What decides is what would without us: the user's
//!    own rules, where each line has a table of its own, and the main table;
//! 2. questions to name servers: a table that leads to the device;
//! 3. our table, but for its default route: `--route`, and `--exclude` as routes that throw back;
//! 4. the main table, but for its default route: networks that this machine is in;
//! 5. our table with its default route;
//! 6. nothing: where the first one leads.
//!
//! A socket tied to an interface finds no route of that interface in our tables, and so goes by the
//! main one: paths need no mark.

mod follow;
mod kill_switch;
mod laid;
mod locals;
mod rules;
mod watch;

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    process::{Command, Stdio},
};

use ipnet::{IpNet, Ipv4Net};
use rtnetlink::{Handle, IpVersion};
use tracing::debug;

pub(crate) use self::kill_switch::remove_kill_switch;
use self::{
    laid::{Steady, laid},
    locals::own_addresses,
    rules::{LAST, Leads, Rule, add_route, add_rule, remove_rules},
};
use super::{
    Ends, Given,
    links::{self, Purpose, with_netlink},
    packet_filter::Table,
    plan::{NAME, PEER},
};
use crate::failure::{Failure, io_reason};

/// Our tables: the routes, and the way to name servers.
const TABLE: u32 = 28_016;
const DNS_TABLE: u32 = 28_017;
/// The kernel's main table.
const MAIN: u32 = 254;
/// What goes no further than its own link, and so stays there: link-local addresses (RFC 3927 section 2.6.2),
/// at one of which clouds tell their machines about themselves, multicast and broadcast. Of IPv6 the kernel
/// sees to that.
const LINKS: [Ipv4Net; 3] = [
    Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16),
    Ipv4Net::new_assert(Ipv4Addr::new(224, 0, 0, 0), 4),
    Ipv4Net::new_assert(Ipv4Addr::BROADCAST, 32),
];
const UDP: u8 = 17;
const TCP: u8 = 6;

/// What leads into the tunnel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// These networks; everything when empty.
    pub(crate) routes: Vec<IpNet>,
    /// But not these.
    pub(crate) excludes: Vec<IpNet>,
    /// Nothing at all: the user has routes of his own.
    pub(crate) no_routes: bool,
    /// Let nothing out but through the tunnel.
    pub(crate) kill_switch: bool,
    /// Where the server is.
    pub(crate) servers: Vec<SocketAddr>,
    /// The addresses that the server has assigned, where packets are carried as they are.
    pub(crate) given: Option<Given>,
}

/// The machine as we changed it; dropping this undoes it.
pub(crate) struct Machine {
    plan: Plan,
    kill_switch: Option<Table>,
    led: Led,
    /// What was there in the end, and is put back.
    steady: Steady,
}

impl Plan {
    /// Whether questions to whatever name server are asked through the tunnel.
    pub(crate) fn takes_dns(&self) -> bool {
        !self.no_routes && self.routes.is_empty()
    }

    /// What does not go through the tunnel although a larger network does: what was asked for, and what stays on
    /// its own link unless it is named.
    fn stays(&self) -> Vec<IpNet> {
        // Of two routes the one to the smaller network counts.
        let is_named = |net: &IpNet| self.routes.iter().any(|route| route.trunc() == *net);
        let links = LINKS.map(IpNet::V4).into_iter().filter(|net| !is_named(net));
        self.excludes.iter().copied().chain(links).collect()
    }

    /// What to say where IPv6 that should go through the tunnel goes around it: it is not `led` there, and
    /// the machine has these addresses otherwise.
    fn leak(&self, led: &Led, locals: &BTreeSet<IpAddr>) -> Option<Failure> {
        let wanted = self.routes.is_empty() || self.routes.iter().any(|net| net.addr().is_ipv6());
        let leaks = !led.v6 && wanted && !self.kill_switch && locals.iter().any(IpAddr::is_ipv6);
        leaks.then(|| {
            Failure::new(
                "cannot carry IPv6",
                format_args!(
                    "{NAME} gets no IPv6 (is net.ipv6.conf.default.disable_ipv6 set?), and the machine has it"
                ),
                "Let it have IPv6, or programs would go around the tunnel; --route 0.0.0.0/0 takes IPv4 alone",
            )
        })
    }
}

impl Machine {
    /// Undoes what a killed process left behind, makes the device, and then what the plan says.
    /// Must not be called within a runtime.
    ///
    /// # Errors
    /// What the system does not allow or have.
    pub(crate) fn change(plan: Plan) -> Result<(Self, Ends), Failure> {
        let wrong = |(step, error): (&str, io::Error)| {
            let next = match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
                Some(rustix::io::Errno::PERM | rustix::io::Errno::ACCESS) => {
                    "Run it as root or with CAP_NET_ADMIN; `mendpath run` needs neither"
                }
                Some(rustix::io::Errno::BUSY) => "Stop the other `mendpath tunnel` on this machine",
                _ => "Look at `ip link` and `ip rule`, or use mendpath run",
            };
            Failure::new(format!("cannot {step}"), io_reason(&error), next)
        };
        let purpose = if plan.given.is_some() { Purpose::Packets } else { Purpose::Connections };
        let ends = links::make(purpose).map_err(wrong)?;
        if let Some(given) = plan.given {
            links::take_addresses(given, false).map_err(wrong)?;
        }
        // Not those of when the command began: it may have waited for the server, and moved.
        let locals = own_addresses().unwrap_or_default();
        let mut machine = Self { plan, kill_switch: None, led: Led { v6: true }, steady: Steady::default() };
        (machine.led, machine.steady) = with_netlink(async |handle| {
            remove_rules(handle).await?;
            if machine.plan.no_routes {
                return Ok((Led { v6: true }, Steady::default()));
            }
            Ok((machine.lead(handle, &locals).await?, laid(handle).await?.steady))
        })
        .map_err(|error| wrong(("set rules and routes", error)))?;
        if let Some(leak) = machine.leak(&locals) {
            return Err(leak);
        }
        // Now that nothing else may fail: one that a tunnel which failed has left stays until then.
        if machine.plan.kill_switch {
            machine.kill_switch = Some(kill_switch::set(&machine.plan)?);
        } else {
            remove_kill_switch().unwrap_or_else(|failure| debug!(%failure, "no kill switch"));
        }
        if machine.plan.takes_dns() {
            tell_resolved();
        }
        Ok((machine, ends))
    }

    /// Keeps the rules in step with the addresses that this machine gets and loses meanwhile, and puts back
    /// what somebody takes away, the kill switch too, until nothing leads into the tunnel any more, or IPv6
    /// goes around it.
    pub(crate) async fn follow(&self) -> Failure {
        if self.plan.no_routes {
            return std::future::pending().await;
        }
        tokio::select! {
            failure = follow::follow(self) => failure,
            Some(never) = async { Some(self.kill_switch.as_ref()?.keep().await) } => match never {},
            () = watch::set_down() => Failure::new(
                "the tunnel cannot go on",
                format_args!("somebody has set the device {NAME} down, and its routes are gone"),
                "Start the command again",
            ),
        }
    }

    /// What to say if IPv6 goes around the tunnel while the machine has these addresses otherwise.
    fn leak(&self, locals: &BTreeSet<IpAddr>) -> Option<Failure> {
        self.plan.leak(&self.led, locals)
    }

    /// Has the kill switch outlast this; whether there is one.
    pub(crate) fn leave_kill_switch(&mut self) -> bool {
        self.kill_switch.take().map(Table::leave).is_some()
    }

    /// Rules and routes of a machine that has these addresses otherwise, instead of those of before.
    async fn lead(&self, handle: &Handle, locals: &BTreeSet<IpAddr>) -> Result<Led, rtnetlink::Error> {
        let device = links::index(handle, NAME).await?;
        self.lead_family(handle, IpVersion::V4, device, locals).await?;
        let v6 = self.lead_family(handle, IpVersion::V6, device, locals).await;
        Ok(Led { v6: v6.inspect_err(|error| debug!(%error, "no IPv6")).is_ok() })
    }

    async fn lead_family(
        &self,
        handle: &Handle,
        version: IpVersion,
        device: u32,
        locals: &BTreeSet<IpAddr>,
    ) -> Result<(), rtnetlink::Error> {
        let v4 = matches!(version, IpVersion::V4);
        let any: IpNet = if v4 {
            IpNet::new_assert(Ipv4Addr::UNSPECIFIED.into(), 0)
        } else {
            IpNet::new_assert(Ipv6Addr::UNSPECIFIED.into(), 0)
        };
        let wanted: Vec<IpNet> =
            if self.plan.routes.is_empty() { vec![any] } else { self.plan.routes.clone() };
        let of_family = |nets: &[IpNet]| -> Vec<IpNet> {
            nets.iter().filter(|net| net.addr().is_ipv4() == v4).copied().collect()
        };
        for net in of_family(&wanted) {
            add_route(handle, net, TABLE, Some(device), self.plan.given).await?;
        }
        for net in of_family(&self.plan.stays()) {
            add_route(handle, net, TABLE, None, None).await?;
        }
        // What leads past our rules leads nowhere without it.
        add_rule(handle, Rule::new(LAST, Leads::On, v4)).await?;
        // Several servers may be at one address.
        let servers: BTreeSet<IpAddr> = self.plan.servers.iter().map(SocketAddr::ip).collect();
        for server in servers.into_iter().filter(|server| server.is_ipv4() == v4) {
            add_rule(handle, Rule { to: Some(server), ..Rule::new(0, Leads::Past, v4) }).await?;
        }
        for local in locals.iter().filter(|local| local.is_ipv4() == v4) {
            add_rule(handle, locals::rule(*local)).await?;
        }
        if self.plan.takes_dns() {
            add_route(handle, any, DNS_TABLE, Some(device), self.plan.given).await?;
            for protocol in [UDP, TCP] {
                let rule = Rule { dns: Some(protocol), ..Rule::new(1, Leads::To(DNS_TABLE), v4) };
                add_rule(handle, rule).await?;
            }
        }
        add_rule(handle, Rule { not_default: true, ..Rule::new(2, Leads::To(TABLE), v4) }).await?;
        add_rule(handle, Rule { not_default: true, ..Rule::new(3, Leads::To(MAIN), v4) }).await?;
        add_rule(handle, Rule::new(4, Leads::To(TABLE), v4)).await
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let undone = std::thread::scope(|scope| {
            // Netlink is asked in a runtime of its own.
            scope.spawn(|| with_netlink(async |handle| remove_rules(handle).await)).join()
        });
        debug!(?undone, "rules removed");
    }
}

/// What goes through the tunnel: IPv4 does.
struct Led {
    v6: bool,
}

/// Names go to the device where systemd-resolved is; that ends with the device.
fn tell_resolved() {
    for arguments in for_resolved() {
        let told = Command::new("resolvectl")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !told.is_ok_and(|status| status.success()) {
            return debug!("no systemd-resolved");
        }
    }
}

/// What `resolvectl` is told. Behind the device nobody answers over TLS, which a machine may ask for everywhere
/// (`DNSOverTLS=yes`); the tunnel keeps questions as secret. What old ones do not know comes last.
fn for_resolved() -> [[String; 3]; 4] {
    let peer = PEER.to_string();
    let settings = [("dns", peer.as_str()), ("domain", "~."), ("default-route", "yes"), ("dnsovertls", "no")];
    settings.map(|(setting, value)| [setting, NAME, value].map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolved_asks_the_peer_and_not_over_tls() {
        let told = for_resolved().map(|words| words.join(" "));
        assert_eq!(told[0], "dns mendpath0 198.18.0.2");
        assert!(told.contains(&"dnsovertls mendpath0 no".to_owned()), "{told:?}");
    }

    /// Who moves to a network with IPv6 later must not have it go around a tunnel without, either.
    #[test]
    fn ipv6_goes_around_where_the_machine_has_it_and_the_tunnel_not() {
        let route = |net: &str| Plan { routes: vec![net.parse().unwrap()], ..Plan::default() };
        let v4 = BTreeSet::from([IpAddr::from([192, 0, 2, 7])]);
        let both = BTreeSet::from([IpAddr::from([192, 0, 2, 7]), "2001:db8::7".parse().unwrap()]);
        let without = Led { v6: false };
        assert!(Plan::default().leak(&without, &v4).is_none());
        assert!(Plan::default().leak(&without, &both).is_some());
        assert!(Plan::default().leak(&Led { v6: true }, &both).is_none());
        assert!(route("2001:db8::/32").leak(&without, &both).is_some());
        for plan in [route("0.0.0.0/0"), Plan { kill_switch: true, ..Plan::default() }] {
            assert!(plan.leak(&without, &both).is_none());
        }
    }

    #[test]
    fn what_goes_no_further_than_its_link_stays_there_unless_it_is_named() {
        let stays = |routes: &[&str], excludes: &[&str]| {
            let nets = |nets: &[&str]| nets.iter().map(|net| net.parse().unwrap()).collect();
            let plan = Plan { routes: nets(routes), excludes: nets(excludes), ..Plan::default() };
            plan.stays().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let links = ["169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32"];
        assert_eq!(stays(&[], &[]), links);
        assert_eq!(stays(&["0.0.0.0/0", "::/0"], &["fd00::/8"]), [&["fd00::/8"][..], &links].concat());
        assert_eq!(stays(&["169.254.7.7/16", "224.0.0.0/4"], &[]), links[2..]);
        assert_eq!(stays(&["0.0.0.0/0", "169.254.169.254/32"], &[]), links, "the others of its network do");
    }

    #[test]
    fn names_are_taken_with_everything_only() {
        let some = Plan { routes: vec!["10.0.0.0/8".parse().unwrap()], ..Plan::default() };
        let none = Plan { no_routes: true, ..Plan::default() };
        assert!(Plan::default().takes_dns() && !some.takes_dns() && !none.takes_dns());
    }
}
