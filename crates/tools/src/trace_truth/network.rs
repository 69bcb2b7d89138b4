//! Kernels that talk TCP over emulated paths, in network namespaces, with tcpdump beside them.

use std::{
    error::Error,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use emulator::{Emulator, TunPath};
use lab::{Namespace, PathSpec};
use netsim::Seed;

use super::scenario::{Scenario, Topology};

type Failed = Box<dyn Error + Send + Sync>;

/// The server listens here.
pub const SERVER_PORT: u16 = 80;
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
/// A fetch that takes longer is given up.
const LIMIT: Duration = Duration::from_secs(60);
/// What is under way when the last fetch is over needs so long to be captured.
const SETTLE: Duration = Duration::from_millis(1_500);

/// Where captures were made: at the server, at the client, and between them or not.
pub struct Captures {
    pub server: PathBuf,
    pub client: PathBuf,
    pub halfway: Option<PathBuf>,
    /// The kernels' counters by name, server's and client's added up.
    pub counters: Vec<(&'static str, u64)>,
}

/// Runs a scenario and captures it into `folder`.
#[allow(
    clippy::disallowed_methods,
    reason = "what is under way comes in real time, and nothing says when it is all there"
)]
pub fn run(scenario: &Scenario, seed: u64, folder: &Path) -> Result<Captures, Failed> {
    let network = Network::new(scenario, seed)?;
    let captures = kept(scenario, folder);
    let mut dumps = vec![
        Dump::start(&network.server, network.server_device, &captures.server)?,
        Dump::start(&network.client, "path0", &captures.client)?,
    ];
    if let Some(halfway) = &captures.halfway {
        let router = network.router.as_ref().ok_or("there is a router")?;
        dumps.push(Dump::start(router, "path0", halfway)?);
    }
    traffic(scenario, seed, &network)?;
    thread::sleep(SETTLE);
    drop(dumps);
    Ok(Captures { counters: network.counters()?, ..captures })
}

/// The captures of a scenario in `folder`, made or to be made; counters are not kept.
pub fn kept(scenario: &Scenario, folder: &Path) -> Captures {
    let file = |end: &str| folder.join(format!("{}-{end}.pcap", scenario.name));
    let halfway = (scenario.topology == Topology::Halfway).then(|| file("halfway"));
    Captures { server: file("server"), client: file("client"), halfway, counters: Vec::new() }
}

/// Namespaces and the paths between them.
struct Network {
    server: Namespace,
    client: Namespace,
    router: Option<Namespace>,
    server_device: &'static str,
    _emulator: Emulator,
}

impl Network {
    fn new(scenario: &Scenario, seed: u64) -> Result<Self, Failed> {
        let (server, client) = (Namespace::new()?, Namespace::new()?);
        let router = match scenario.topology {
            Topology::Direct => None,
            _ => Some(Namespace::new()?),
        };
        let mut emulator = Emulator::start([], Seed(seed))?;
        let far = router.as_ref().unwrap_or(&server);
        let mut join = |client: &Namespace, server: &Namespace, index: usize| -> Result<(), Failed> {
            let spec: PathSpec = scenario.paths[index].parse()?;
            let name = format!("path{index}");
            let (client, server) = (client.tun(&name)?, server.tun(&name)?);
            let path = TunPath::new(client, server, spec.up, spec.down);
            emulator.add_tun_path(path.seed(Seed(seed).child("path", index as u64)))?;
            Ok(())
        };
        join(&client, far, 0)?;
        if scenario.topology == Topology::Halfway {
            join(far, &server, 1)?;
        }
        for namespace in [Some(&server), Some(&client), router.as_ref()].into_iter().flatten() {
            prepare(namespace, scenario)?;
        }
        ip(
            &client,
            "address add 10.87.0.1/32 dev path0; link set path0 up txqueuelen 10000; route add default dev path0",
        )?;
        let server_device = match (scenario.topology, &router) {
            (Topology::Offload, Some(router)) => {
                veth(router, &server)?;
                ip(
                    &server,
                    "address add 10.88.0.1/32 dev near; link set near up; route add 10.88.0.254 dev near; route add default via 10.88.0.254",
                )?;
                ip(
                    router,
                    "address add 10.88.0.254/32 dev far; link set far up; route add 10.88.0.1 dev far",
                )?;
                ip(router, "link set path0 up txqueuelen 10000; route add 10.87.0.1 dev path0")?;
                "near"
            }
            (Topology::Halfway, Some(router)) => {
                ip(
                    &server,
                    "address add 10.88.0.1/32 dev path1; link set path1 up txqueuelen 10000; route add default dev path1",
                )?;
                ip(router, "link set path0 up txqueuelen 10000; route add 10.87.0.1 dev path0")?;
                ip(router, "link set path1 up txqueuelen 10000; route add 10.88.0.1 dev path1")?;
                "path1"
            }
            _ => {
                ip(
                    &server,
                    "address add 10.88.0.1/32 dev path0; link set path0 up txqueuelen 10000; route add default dev path0",
                )?;
                "path0"
            }
        };
        Ok(Self { server, client, router, server_device, _emulator: emulator })
    }

    fn counters(&self) -> Result<Vec<(&'static str, u64)>, Failed> {
        let mut sums: Vec<(&'static str, u64)> = COUNTERS.iter().map(|name| (*name, 0)).collect();
        for namespace in [&self.server, &self.client] {
            let text = namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/netstat"))??;
            for (name, sum) in &mut sums {
                *sum += counter(&text, name).unwrap_or(0);
            }
        }
        Ok(sums)
    }
}

/// Of `TcpExt`.
const COUNTERS: [&str; 6] = [
    "TCPTimeouts",
    "TCPLossProbes",
    "TCPFastRetrans",
    "TCPSlowStartRetrans",
    "TCPLostRetransmit",
    "TCPSynRetrans",
];

/// The value below `name`, in the kernel's form of a line of names and a line of numbers.
fn counter(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|word| word == name)?;
    numbers.split_whitespace().nth(place)?.parse().ok()
}

/// Settings of one kernel's TCP.
fn prepare(namespace: &Namespace, scenario: &Scenario) -> Result<(), Failed> {
    // What one connection learns must not steer the next.
    let common = [("net.ipv4.tcp_no_metrics_save", "1"), ("net.ipv4.ip_forward", "1")];
    for (name, value) in common.iter().chain(scenario.settings) {
        let file = format!("/proc/sys/{}", name.replace('.', "/"));
        namespace.run(|| std::fs::write(&file, value))?.map_err(|error| format!("{file}: {error}"))?;
    }
    ip(namespace, "link set lo up")
}

/// Runs `ip` with each of the commands between semicolons.
fn ip(namespace: &Namespace, commands: &str) -> Result<(), Failed> {
    for command in commands.split(';').map(str::trim) {
        let output = namespace.run(|| Command::new("ip").args(command.split_whitespace()).output())??;
        if !output.status.success() {
            return Err(format!("ip {command}: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
        }
    }
    Ok(())
}

/// Joins router and server by a pair of devices that leave segmentation to each other.
fn veth(router: &Namespace, server: &Namespace) -> Result<(), Failed> {
    let mut sleeper = server.run(|| Command::new("sleep").arg("60").spawn())??;
    let made = ip(router, &format!("link add far type veth peer name near netns {}", sleeper.id()));
    let _ = sleeper.kill();
    let _ = sleeper.wait();
    made
}

/// A tcpdump that ends with this.
struct Dump(Child);

impl Dump {
    fn start(namespace: &Namespace, device: &str, file: &Path) -> Result<Self, Failed> {
        let mut command = Command::new("tcpdump");
        command.args([
            "-i",
            device,
            "-s",
            "128",
            "-B",
            "16384",
            "-U",
            "--time-stamp-precision=nano",
            "-Z",
            "root",
        ]);
        command.arg("-w").arg(file).arg("tcp").stderr(Stdio::piped());
        let started = namespace.run(|| command.spawn())?;
        let mut child = started.map_err(|error| format!("tcpdump: {error} (apt-get install tcpdump)"))?;
        let mut said = String::new();
        let stderr = child.stderr.as_mut().ok_or("it is piped")?;
        while !said.contains("listening") {
            let mut byte = [0];
            if stderr.read(&mut byte)? == 0 {
                return Err(format!("tcpdump: {said}").into());
            }
            said.push(char::from(byte[0]));
        }
        Ok(Self(child))
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        // A signal that lets it write what it has.
        let _ = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

/// Lets workers fetch until all connections were made.
fn traffic(scenario: &Scenario, seed: u64, network: &Network) -> Result<(), Failed> {
    let address = SocketAddr::from((SERVER, SERVER_PORT));
    let listener = network.server.run(|| TcpListener::bind(address))??;
    thread::spawn(move || {
        while let Ok((connection, from)) = listener.accept() {
            if from.ip() == SERVER {
                break; // the end
            }
            thread::spawn(move || serve(connection));
        }
    });
    let next = Arc::new(AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..scenario.workers {
            scope.spawn(|| {
                let worker = network.client.run(|| {
                    loop {
                        // From 1 on, each once, so that the seed decides all sizes.
                        let number = next.fetch_add(1, Ordering::Relaxed) + 1;
                        if number > scenario.connections {
                            break;
                        }
                        // A fetch that fails is part of what is captured.
                        let _ = fetch(scenario, seed.wrapping_mul(1 << 20) + u64::from(number), address);
                    }
                });
                worker.expect("the namespace is there");
            });
        }
    });
    network.server.run(|| TcpStream::connect(address))??;
    Ok(())
}

/// Answers each four bytes with as many bytes as they say.
fn serve(mut connection: TcpStream) {
    let _ = connection.set_read_timeout(Some(LIMIT));
    let _ = connection.set_nodelay(true);
    let mut size = [0; 4];
    while connection.read_exact(&mut size).is_ok() {
        if connection.write_all(&vec![0; u32::from_be_bytes(size) as usize]).is_err() {
            break;
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "people think in real time")]
fn fetch(scenario: &Scenario, seed: u64, address: SocketAddr) -> std::io::Result<()> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(LIMIT))?;
    let (least, most) = scenario.bytes;
    for request in 0..scenario.requests {
        let draw = Seed(seed).child("size", u64::from(request)).0 as f64 / u64::MAX as f64;
        let size = (least * (most / least).powf(draw)) as u32;
        connection.write_all(&size.to_be_bytes())?;
        let mut buffer = vec![0; size as usize];
        connection.read_exact(&mut buffer)?;
        if draw > 0.7 {
            thread::sleep(Duration::from_millis((draw * 400.0) as u64)); // somebody thinks
        }
    }
    Ok(())
}
