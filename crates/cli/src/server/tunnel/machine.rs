//! The machine of a server with tunnels: the device, masquerading and forwarding. Dropping it
//! undoes all of it, and the next start undoes what a killed server left behind.

use std::{
    convert::Infallible,
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rustix::io::Errno;
use tokio::task::spawn_blocking;
use tracing::debug;

use crate::{
    backoff::pause,
    console::say,
    failure::{Failure, io_reason},
    interfaces::local_addresses,
    task::came_to,
    tun::{
        device::NewDevice,
        link::MTU,
        links::{add_address, up, with_netlink},
        packet_filter::{Table, list},
    },
};

/// The device's name.
const NAME: &str = "mendpaths0";
/// The table of our rules.
const TABLE: &str = "mendpath_server";
/// Packets that may wait for us.
const QUEUE: u32 = 1_000;
/// Connections of a client, by each of its addresses, that the kernel keeps in mind; it has 65,536 to 262,144
/// on machines of 1 to 4 GB.
const MOST_FLOWS: u32 = 8_192;
/// How often it looks whether forwarding is still on, and the device up.
const LOOK: Duration = Duration::from_secs(1);
/// Whether packets are forwarded, for each family.
const FORWARDING: [&str; 2] = ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"];

/// A network's own address, the server's, the broadcast one, and at least one to give away.
const LEAST_BITS: u8 = 2;

/// The same in rules, which are there only where we have switched it on.
const FAMILIES: [&str; 2] = ["meta nfproto ipv4", "meta nfproto ipv6"];

/// Where clients' addresses come from.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// Of IPv4, a /30 or larger.
    pub v4: Ipv4Net,
    /// Of IPv6, a /126 or larger.
    pub v6: Ipv6Net,
}

impl Default for Pool {
    /// Of a network for tests of equipment (RFC 2544 appendix C.2.2), and of unique local addresses
    /// (RFC 4193).
    fn default() -> Self {
        Self {
            v4: Ipv4Net::new_assert([198, 19, 0, 0].into(), 16),
            v6: Ipv6Net::new_assert([0xfd6d, 0x656e, 0x6470, 1, 0, 0, 0, 0].into(), 64),
        }
    }
}

impl Pool {
    /// These networks in the place of the default ones.
    ///
    /// # Errors
    /// When there are two of one kind, or one is too small or nobody's to give away.
    pub(crate) fn of(networks: &[IpNet]) -> Result<Self, Failure> {
        let wrong = |network: &IpNet, wrong: &str| {
            let next = "Name a private network that this machine and its clients are not in";
            Failure::usage(format!("cannot give out addresses of {network}"), wrong, next)
        };
        let mut pool = Self::default();
        let mut seen = [false; 2];
        for network in networks {
            let address = network.network();
            if std::mem::replace(&mut seen[usize::from(address.is_ipv6())], true) {
                return Err(wrong(network, "there is another of its kind"));
            }
            if address.is_unspecified() || address.is_loopback() || address.is_multicast() {
                return Err(wrong(network, "its addresses are no host's"));
            }
            if network.max_prefix_len() - network.prefix_len() < LEAST_BITS {
                return Err(wrong(network, "it is too small"));
            }
            match network {
                IpNet::V4(v4) => pool.v4 = v4.trunc(),
                IpNet::V6(v6) => pool.v6 = v6.trunc(),
            }
        }
        Ok(pool)
    }

    /// How many addresses there are of both kinds.
    pub fn size(&self) -> u32 {
        let bits = (32 - self.v4.prefix_len()).min(128 - self.v6.prefix_len()).min(20);
        1 << bits
    }

    /// The server's own addresses, the first ones, and how many bits of them are the network's.
    fn addresses_of_server(&self) -> [(IpAddr, u8); 2] {
        let v4 = Ipv4Addr::from_bits(self.v4.network().to_bits() + 1);
        let v6 = Ipv6Addr::from_bits(self.v6.network().to_bits() + 1);
        [(v4.into(), self.v4.prefix_len()), (v6.into(), self.v6.prefix_len())]
    }
}

/// The files that we set to 1; none once we have set them to 0 again.
type Forwarding = Mutex<Vec<&'static str>>;

/// The machine as we changed it; dropping this undoes it.
pub(crate) struct Machine {
    /// Of the device; none where there is no device of ours.
    pool: Option<Pool>,
    forwarding: Arc<Forwarding>,
    /// Files that let an interface's router be, and were changed for that.
    advertisements: Vec<PathBuf>,
    /// Goes last: while anything is forwarded, it says what may be.
    table: Table,
}

impl Machine {
    /// Makes the device and the rules. Must not be called within a runtime.
    ///
    /// # Errors
    /// What the system does not allow or have.
    pub(crate) fn change(pool: &Pool) -> Result<(Self, NewDevice), Failure> {
        let wrong = |step: &'static str| {
            move |error: io::Error| {
                let next = match error.raw_os_error().map(Errno::from_raw_os_error) {
                    Some(Errno::PERM | Errno::ACCESS) => {
                        "--tunnel needs root or CAP_NET_ADMIN: give it that, or leave --tunnel out"
                    }
                    Some(Errno::BUSY) => "Stop the other `mendpath server --tunnel` on this machine",
                    _ => "Look at `ip link` and /dev/net/tun, or leave --tunnel out",
                };
                Failure::new(format!("cannot {step}"), io_reason(&error), next)
            }
        };
        let device = NewDevice::make(NAME, true).map_err(wrong("make a TUN device"))?;
        with_netlink(async |handle| {
            let index = up(handle, NAME, |link| link.mtu(MTU.into()).txqueuelen(QUEUE)).await?;
            let [(v4, v4_bits), (v6, v6_bits)] = pool.addresses_of_server();
            add_address(handle, index, v4, v4_bits).await?;
            let v6 = add_address(handle, index, v6, v6_bits);
            let _ = v6.await.inspect_err(|error| debug!(%error, "no IPv6"));
            Ok(())
        })
        .map_err(wrong("set the TUN device's addresses"))?;
        let left = left_behind().unwrap_or_default();
        let is_off = |file: &&'static str| !is_on(file) || left.contains(file);
        let off: Vec<&'static str> = FORWARDING.into_iter().filter(is_off).collect();
        // The rules first: nothing is forwarded that should not be.
        let table = Table::set(TABLE, &format!("{}{}", counts(), chains(pool, &off, true))).or_else(|said| {
            let uncounted = Table::set(TABLE, &chains(pool, &off, false))?;
            say(format_args!("connections of clients are not counted, and not limited: {said}"));
            Ok(uncounted)
        });
        let table = table.map_err(|said: String| {
            let next = "Install nftables (and in a container, allow it), or leave --tunnel out";
            Failure::new("cannot set the rules for clients' packets", said, next)
        })?;
        let forwarding = Arc::new(Mutex::new(left));
        let mut machine = Self { pool: Some(*pool), forwarding, advertisements: Vec::new(), table };
        if off.contains(&FORWARDING[1]) {
            machine.advertisements = keep_router_advertisements();
        }
        for file in off {
            let mut forwarding = lock(&machine.forwarding);
            forwarding.retain(|other| *other != file);
            match fs::write(file, "1") {
                Ok(()) => forwarding.push(file),
                // A machine without IPv6 has nothing to forward.
                Err(error) if file == FORWARDING[1] => debug!(%error, "no IPv6"),
                Err(error) => return Err(wrong("switch forwarding on")(error)),
            }
        }
        Ok((machine, device))
    }

    /// Undoes what a killed server left behind, for one that offers no tunnels. Does nothing while
    /// another does.
    pub(crate) fn tidy() {
        if rustix::process::geteuid().is_root()
            && !Path::new("/sys/class/net").join(NAME).exists()
            && let Some(forwarding) = left_behind()
        {
            let forwarding = Arc::new(Mutex::new(forwarding));
            let table = Table::left_behind(TABLE);
            drop(Self { pool: None, forwarding, advertisements: Vec::new(), table });
        }
    }

    /// Puts the rules back whenever something has changed them, and switches on again what we had
    /// switched on, the device too.
    pub(crate) fn keep(&self) -> impl Future<Output = Infallible> + Send + 'static {
        let (table, forwarding) = (self.table.keep(), keep_forwarding(self.forwarding.clone()));
        let device = keep_up(self.pool);
        async move { tokio::join!(table, forwarding, device).0 }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Whoever keeps them must not switch them on afterwards.
        for file in std::mem::take(&mut *lock(&self.forwarding)) {
            let undone = fs::write(file, "0");
            debug!(?undone, file, "forwarding is off again");
        }
        for file in &self.advertisements {
            let _ = fs::write(file, "1");
        }
    }
}

/// Looks again and again: `sysctl --system`, which updates of packages run, sets what its files say.
async fn keep_forwarding(ours: Arc<Forwarding>) -> Infallible {
    loop {
        for file in lock(&ours).iter().filter(|file| !is_on(file)) {
            match fs::write(file, "1") {
                Ok(()) => say(format_args!("something set {file} to 0; it is 1 again, as clients need it")),
                Err(error) => debug!(%error, file, "it stays off"),
            }
        }
        pause(LOOK).await;
    }
}

/// Looks again and again: packets of clients go nowhere while the device is down, and nothing else tells of it.
async fn keep_up(pool: Option<Pool>) -> Infallible {
    let Some(pool) = pool else { return std::future::pending().await };
    let (mut was_down, mut told) = (false, false);
    loop {
        let down = is_down();
        if down {
            let up = came_to(spawn_blocking(move || up_again(&pool)).await);
            debug!(?up, "the device was set down");
            // Where it could be set up, something may have set it down once more.
            if let Err(error) = up
                && !std::mem::replace(&mut told, true)
            {
                let why = io_reason(&error);
                say(format_args!(
                    "something set {NAME} down, and it stays so ({why}): clients' packets are lost"
                ));
            }
        } else if was_down {
            say(format_args!("something set {NAME} down; it is up again, as clients need it"));
            told = false;
        }
        was_down = down;
        pause(LOOK).await;
    }
}

/// Whether the device is there, and down. It has its address of IPv4 then, too.
fn is_down() -> bool {
    local_addresses().is_ok_and(|have| have.iter().any(|local| local.interface == NAME && !local.up))
}

/// Sets the device up, with the addresses that went when it was set down: those of IPv6 as a rule. Must not
/// be called within a runtime.
fn up_again(pool: &Pool) -> io::Result<()> {
    with_netlink(async |handle| {
        let index = up(handle, NAME, |link| link).await?;
        for (ip, bits) in pool.addresses_of_server() {
            let added = add_address(handle, index, ip, bits).await;
            debug!(%ip, ?added, "address of the device");
        }
        Ok(())
    })
}

fn lock(forwarding: &Forwarding) -> MutexGuard<'_, Vec<&'static str>> {
    forwarding.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_on(file: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|value| value.trim() != "0")
}

/// A machine that forwards forgets the router that it got its own address from, unless told not to
/// (`accept_ra`).
fn keep_router_advertisements() -> Vec<PathBuf> {
    let Ok(interfaces) = fs::read_dir("/proc/sys/net/ipv6/conf") else { return Vec::new() };
    let files = interfaces.flatten().map(|interface| interface.path().join("accept_ra"));
    let changed = |file: &PathBuf| {
        fs::read_to_string(file).is_ok_and(|value| value.trim() == "1") && fs::write(file, "2").is_ok()
    };
    files.filter(changed).collect()
}

/// What a killed server has switched on, if there is a table of one: its rules say so.
fn left_behind() -> Option<Vec<&'static str>> {
    let text = list(TABLE)?;
    Some(
        FORWARDING
            .into_iter()
            .zip(FAMILIES)
            .filter(|(_, family)| text.contains(family))
            .map(|(file, _)| file)
            .collect(),
    )
}

/// What counts each client's connections, which a kernel may not be able to (`nft_connlimit`).
fn counts() -> String {
    let set = |name, kind| format!("  set {name} {{ type {kind}; size 65536; flags dynamic; }}\n");
    let sets = [set("flows4", "ipv4_addr"), set("flows6", "ipv6_addr")].concat();
    format!("  counter too_many_flows {{ }}\n{sets}")
}

/// The chains of our table. `off` are the families that were not forwarded so far: of them, nothing is
/// but clients' packets. Connections are `counted`, so that no client fills the machine's table of them.
fn chains(pool: &Pool, off: &[&str], counted: bool) -> String {
    let closed = |nth: usize| match off.contains(&FORWARDING[nth]) {
        true => format!("    {} iifname != \"{NAME}\" drop\n", FAMILIES[nth]),
        false => String::new(),
    };
    let (v4, v6) = (closed(0), closed(1));
    let limit = |set, source| {
        let over = format!("add @{set} {{ {source} ct count over {MOST_FLOWS} }}");
        format!("    iifname \"{NAME}\" ct state new {over} counter name too_many_flows drop\n")
    };
    let limits = if counted {
        [limit("flows4", "ip saddr"), limit("flows6", "ip6 saddr")].concat()
    } else {
        String::new()
    };
    // From a port on which this machine may listen, a client's packet would make an entry that takes away what
    // others send to this machine there (CVE-2021-3773).
    let moved = "meta l4proto { tcp, udp } th sport < 32768 masquerade to :32768-60999";
    format!(
        "  chain postrouting {{\n    type nat hook postrouting priority srcnat; policy accept;\n    \
         ip saddr {pool4} oifname != \"{NAME}\" {moved}\n    \
         ip6 saddr {pool6} oifname != \"{NAME}\" {moved}\n    \
         ip saddr {pool4} oifname != \"{NAME}\" masquerade\n    \
         ip6 saddr {pool6} oifname != \"{NAME}\" masquerade\n  }}\n  \
         chain forward {{\n    type filter hook forward priority filter; policy accept;\n    \
         iifname \"{NAME}\" ct state invalid,untracked drop\n{limits}    \
         iifname \"{NAME}\" oifname \"{NAME}\" drop\n    \
         oifname \"{NAME}\" ct state established,related accept\n    \
         oifname \"{NAME}\" drop\n{v4}{v6}  }}\n",
        pool4 = pool.v4,
        pool6 = pool.v6,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_let_nobody_in_and_forward_no_more_than_before() {
        let rules_of = |off: &[&str]| chains(&Pool::default(), off, true);
        let text = rules_of(&[]);
        for line in [
            "ip saddr 198.19.0.0/16 oifname != \"mendpaths0\" masquerade",
            "ip6 saddr fd6d:656e:6470:1::/64 oifname != \"mendpaths0\" masquerade",
            // Nothing would masquerade them.
            "iifname \"mendpaths0\" ct state invalid,untracked drop",
            "iifname \"mendpaths0\" oifname \"mendpaths0\" drop",
            "oifname \"mendpaths0\" drop",
            "iifname \"mendpaths0\" ct state new add @flows4 { ip saddr ct count over 8192 } counter name \
             too_many_flows drop",
        ] {
            assert!(text.lines().any(|found| found.trim() == line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("nfproto"), "who forwarded before still does");
        assert!(!chains(&Pool::default(), &[], false).contains("flows"), "for kernels that cannot count");
        assert!(rules_of(&[FORWARDING[0]]).contains("meta nfproto ipv4 iifname != \"mendpaths0\" drop"));
    }

    #[test]
    fn networks_of_ones_own_are_taken_if_they_can_be() {
        let of = |networks: &[&str]| {
            Pool::of(&networks.iter().map(|network| network.parse().unwrap()).collect::<Vec<_>>())
        };
        let pool = of(&["10.9.8.7/24"]).unwrap();
        assert_eq!((pool.v4.to_string(), pool.v6), ("10.9.8.0/24".into(), Pool::default().v6));
        assert_eq!(of(&["fd00:7::/96", "10.0.0.0/30"]).unwrap().size(), 4);
        for bad in [&["10.0.0.0/24", "10.0.1.0/24"][..], &["10.0.0.0/31"], &["127.0.0.0/8"], &["ff02::/64"]] {
            assert!(of(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_server_has_the_first_addresses_of_its_pool() {
        let shown = Pool::default().addresses_of_server().map(|(ip, bits)| format!("{ip}/{bits}"));
        assert_eq!(shown, ["198.19.0.1/16", "fd6d:656e:6470:1::1/64"]);
    }

    #[test]
    fn a_pool_is_as_large_as_its_smaller_network() {
        let pool = |v4: &str, v6: &str| Pool { v4: v4.parse().unwrap(), v6: v6.parse().unwrap() };
        assert_eq!(Pool::default().size(), 65_536);
        assert_eq!(pool("10.0.0.0/24", "fd00::/64").size(), 256);
        assert_eq!(pool("10.0.0.0/8", "fd00::/120").size(), 256);
    }
}
