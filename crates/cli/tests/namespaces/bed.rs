//! Two namespaces, and the paths between them.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

use lab::Namespace;

use super::wire::Wire;

/// The second octet of the client's own addresses; NATs add to it.
pub const CLIENT_NET: u8 = 77;
/// The server's addresses, reachable over every path.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
pub const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 1);
/// When a test that waits has failed: long after any healthy one is over.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Which addresses there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    V4,
    V6,
    Both,
}

/// A host beyond the server, and the server's addresses towards it; the second octet is one that
/// [`Wire`]s know.
pub const OUTSIDE: Ipv4Addr = Ipv4Addr::new(10, 55, 0, 1);
pub const OUTSIDE_V6: Ipv6Addr = Ipv6Addr::new(0xfd55, 0, 0, 0, 0, 0, 0, 1);
pub const ROUTER: Ipv4Addr = Ipv4Addr::new(10, CLIENT_NET, 50, 1);
pub const ROUTER_V6: Ipv6Addr = Ipv6Addr::new(0xfd55, 0, 0, 0, 0, 0, 0, 2);

/// A network behind the server.
pub struct Outside {
    namespace: Namespace,
    _wire: Wire,
}

impl Outside {
    /// Does something on its host.
    pub fn at_host<R: Send>(&self, action: impl FnOnce() -> R + Send) -> R {
        self.namespace.run(action).unwrap()
    }
}

/// All of it vanishes when this is dropped.
pub struct Bed {
    pub wires: Vec<Wire>,
    pub family: Family,
    client: Namespace,
    server: Namespace,
}

impl Bed {
    /// Makes everything, or says what is missing.
    pub fn new(paths: usize, family: Family) -> Result<Self, String> {
        lab::available().map_err(|error| error.to_string())?;
        if Command::new("ip").arg("-V").output().is_err() {
            return Err("there is no program `ip` (iproute2)".into());
        }
        let text = |error: lab::LabError| error.to_string();
        let mut bed = Self {
            wires: Vec::new(),
            family,
            client: Namespace::new().map_err(text)?,
            server: Namespace::new().map_err(text)?,
        };
        for namespace in [&bed.client, &bed.server] {
            let has_v4 = family != Family::V6;
            let has_v6 = family != Family::V4;
            namespace.run(|| sysctl(has_v6)).map_err(text)?.map_err(|error| error.to_string())?;
            assert!(has_v4 || has_v6);
            ip(namespace, "link set lo up");
        }
        for path in 0..paths {
            let name = format!("path{path}");
            let devices = (bed.client.tun(&name).map_err(text)?, bed.server.tun(&name).map_err(text)?);
            bed.wires.push(Wire::new(devices.0, devices.1).map_err(|error| error.to_string())?);
            bed.prepare_server(path);
            bed.bring_up(path);
        }
        if bed.has_v4() {
            ip(&bed.server, &format!("addr add {SERVER}/32 dev lo"));
        }
        if bed.has_v6() {
            ip(&bed.server, &format!("-6 addr add {SERVER_V6}/128 dev lo nodad"));
        }
        Ok(bed)
    }

    fn has_v4(&self) -> bool {
        self.family != Family::V6
    }

    fn has_v6(&self) -> bool {
        self.family != Family::V4
    }

    fn prepare_server(&self, path: usize) {
        ip(&self.server, &format!("link set path{path} mtu 1500 up"));
        if self.has_v4() {
            ip(&self.server, &format!("addr add 10.66.{path}.1/24 dev path{path}"));
            // Whatever a NAT makes of it.
            for binding in 0..4 {
                ip(
                    &self.server,
                    &format!("route add 10.{}.{path}.0/24 dev path{path}", CLIENT_NET + binding),
                );
            }
        }
        if self.has_v6() {
            ip(&self.server, &format!("-6 route add fd77:{path}::/64 dev path{path}"));
        }
    }

    /// The client's interface goes down and loses its routes and addresses of IPv6, as interfaces
    /// do.
    pub fn take_down(&self, path: usize) {
        ip(&self.client, &format!("link set path{path} down"));
    }

    /// The client's interface comes up, and gets the addresses and routes that a network gives it.
    pub fn bring_up(&self, path: usize) {
        let (dev, table) = (format!("path{path}"), 100 + path);
        ip(&self.client, &format!("link set {dev} mtu 1500 up"));
        if self.has_v4() {
            let address = format!("10.{CLIENT_NET}.{path}.2");
            ip(&self.client, &format!("addr replace {address}/24 dev {dev}"));
            ip(&self.client, &format!("route replace default dev {dev} metric {table}"));
            ip(&self.client, &format!("route replace default dev {dev} table {table}"));
            rule(&self.client, "", &address, table);
        }
        if self.has_v6() {
            let address = format!("fd77:{path}::2");
            ip(&self.client, &format!("-6 addr replace {address}/64 dev {dev} nodad"));
            ip(&self.client, &format!("-6 route replace default dev {dev} metric {table}"));
            ip(&self.client, &format!("-6 route replace default dev {dev} table {table}"));
            rule(&self.client, "-6", &address, table);
        }
    }

    /// Starts the program `mendpath` at the client's or the server's end.
    pub fn start(&self, at_server: bool, arguments: &[String]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mendpath"));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let namespace = if at_server { &self.server } else { &self.client };
        namespace.run(|| command.spawn()).unwrap().unwrap()
    }

    /// A network behind the server, with one host, which knows of nobody but the server.
    pub fn outside(&self) -> Outside {
        let namespace = Namespace::new().unwrap();
        namespace.run(|| sysctl(true)).unwrap().unwrap();
        let devices = (namespace.tun("outside").unwrap(), self.server.tun("outside").unwrap());
        // The server is whose addresses this wire takes for a client's.
        let wire = Wire::new(devices.1, devices.0).unwrap();
        for (at, own, own_v6, other, other_v6) in [
            (&namespace, OUTSIDE, OUTSIDE_V6, ROUTER, ROUTER_V6),
            (&self.server, ROUTER, ROUTER_V6, OUTSIDE, OUTSIDE_V6),
        ] {
            ip(at, "link set outside mtu 1500 up");
            ip(at, &format!("addr add {own}/32 dev outside"));
            ip(at, &format!("route add {other}/32 dev outside src {own}"));
            ip(at, &format!("-6 addr add {own_v6}/128 dev outside nodad"));
            ip(at, &format!("-6 route add {other_v6}/128 dev outside src {own_v6}"));
        }
        Outside { namespace, _wire: wire }
    }

    /// A connection that a program at the client's end makes, for as long as nobody listens.
    pub fn connect(&self, address: SocketAddr) -> TcpStream {
        for _ in 0..PATIENCE.as_millis() / 20 {
            if let Ok(stream) = self.client.run(|| TcpStream::connect(address)).unwrap() {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                return stream;
            }
            pause(Duration::from_millis(20));
        }
        panic!("nobody listens on {address}");
    }

    /// Does something at the client's end.
    pub fn at_client<R: Send>(&self, action: impl FnOnce() -> R + Send) -> R {
        self.client.run(action).unwrap()
    }

    /// Does something at the server's end.
    pub fn at_server<R: Send>(&self, action: impl FnOnce() -> R + Send) -> R {
        self.server.run(action).unwrap()
    }

    /// A listener of a host that the server reaches.
    pub fn host(&self) -> TcpListener {
        let address: IpAddr = if self.has_v4() { SERVER.into() } else { SERVER_V6.into() };
        self.server.run(|| TcpListener::bind((address, 0))).unwrap().unwrap()
    }
}

/// Waits a little between two looks at another process: its listening and its admin page change
/// without an event that a test could wait for. Every caller looks until what it waits for is
/// there, so that no test relies on the time.
#[allow(clippy::disallowed_methods, reason = "only between looks at another process")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// A rule for what comes from `address`, once.
fn rule(namespace: &Namespace, family: &str, address: &str, table: usize) {
    let _ = try_ip(namespace, &format!("{family} rule del from {address} table {table}"));
    ip(namespace, &format!("{family} rule add from {address} table {table} priority {table}"));
}

fn ip(namespace: &Namespace, line: &str) {
    let (worked, said) = try_ip(namespace, line);
    assert!(worked, "ip {line}: {said}");
}

fn try_ip(namespace: &Namespace, line: &str) -> (bool, String) {
    let mut command = Command::new("ip");
    command.args(line.split_whitespace());
    let output = namespace.run(|| command.output()).unwrap().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The calling thread's namespace: packets to one address arrive over several devices, and only the
/// wanted family exists.
fn sysctl(has_v6: bool) -> std::io::Result<()> {
    let v6 = if has_v6 { "0" } else { "1" };
    for (name, value) in [
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/default/rp_filter", "0"),
        ("ipv6/conf/all/disable_ipv6", v6),
        ("ipv6/conf/default/disable_ipv6", v6),
    ] {
        match std::fs::write(format!("/proc/sys/net/{name}"), value) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
