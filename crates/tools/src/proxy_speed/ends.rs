//! The contenders, and both ends of one: processes of their own.

use std::{
    env,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use emulator::{Emulator, PathId, Seed, UdpPath};
use netsim::LinkConfig;
use tempfile::TempDir;

use super::{
    Outcome,
    load::{self, Host, Load},
};
use crate::account::Account;

/// How long both ends may take to carry the first bytes.
const START: Duration = Duration::from_secs(10);
/// Without a byte for so long, a fetch has failed.
const STALL: Duration = Duration::from_secs(20);
/// Between two looks at whether they do.
const LOOK: Duration = Duration::from_millis(50);
/// The key is for nobody: the same cipher as ours, AES-128-GCM, and no delay of small packets either.
const SHADOWSOCKS: [&str; 5] =
    ["-m", "2022-blake3-aes-128-gcm", "-k", "bWVuZHBhdGgtbGFiLWtleQ==", "--tcp-no-delay"];

/// A pair of programs.
pub enum Contender {
    /// `mendpath server` and `mendpath client --socks5` as they are by default, of this file.
    Mendpath(String, PathBuf),
    /// shadowsocks-rust with SOCKS5: a TCP connection for each of the program's.
    Shadowsocks,
    /// stunnel: TLS 1.3 to the one host that it leads to, without SOCKS.
    Stunnel,
}

impl Contender {
    /// Whether it can be put on an emulated path.
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Mendpath(..))
    }

    /// Whether its programs are on the PATH.
    pub fn is_there(&self) -> bool {
        let programs: &[&str] = match self {
            Self::Mendpath(..) => &[],
            Self::Shadowsocks => &["sslocal", "ssserver"],
            Self::Stunnel => &["stunnel"],
        };
        let path = env::var_os("PATH").unwrap_or_default();
        let there = |program: &&str| env::split_paths(&path).any(|folder| folder.join(program).is_file());
        programs.iter().all(there)
    }
}

/// Both ends of a contender, running.
pub struct Ends {
    /// What it is called in the table.
    pub name: String,
    client: Process,
    server: Process,
    listen: SocketAddr,
    /// It asks nobody where to: it knows one host.
    leads_to_host: bool,
    _emulator: Option<Emulator>,
    _state: TempDir,
}

impl Ends {
    /// Starts them, ours over an emulated path if there is a `link`.
    ///
    /// # Errors
    /// If one cannot be started.
    pub fn start(contender: &Contender, host: SocketAddr, link: Option<&LinkConfig>) -> Outcome<Self> {
        let state = tempfile::tempdir()?;
        let (listen, port) = (free_tcp()?, free_tcp()?);
        let (mut emulator, leads_to_host) = (None, matches!(contender, Contender::Stunnel));
        let (name, server, client) = match contender {
            Contender::Mendpath(name, file) => {
                let server = free_udp()?;
                emulator = link.map(|link| emulate(server, link)).transpose()?;
                let at = emulator.as_ref().map_or(Ok(server), |path| path.client_addr(PathId(0)))?;
                let (server, client) = mendpath(file, state.path(), [server, at, listen])?;
                (name.as_str(), server, client)
            }
            Contender::Shadowsocks => {
                let [server, client] = ["ssserver", "sslocal"].map(|program| {
                    let mut command = Command::new(program);
                    command.args(["-s", &port.to_string()]).args(SHADOWSOCKS);
                    command
                });
                let (mut server, mut client) = (server, client);
                client.args(["-b", &listen.to_string()]);
                ("shadowsocks-rust", Process::start(&mut server)?, Process::start(&mut client)?)
            }
            Contender::Stunnel => {
                let (server, client) = stunnel(state.path(), [host, port, listen])?;
                ("stunnel", server, client)
            }
        };
        let name = name.to_owned();
        let ends = Self { name, client, server, listen, leads_to_host, _emulator: emulator, _state: state };
        ends.wait(host)?;
        Ok(ends)
    }

    #[expect(clippy::disallowed_methods, reason = "no contender says when it is ready")]
    fn wait(&self, host: SocketAddr) -> Outcome<()> {
        let began = Instant::now();
        loop {
            let byte = Load::Transfer(units::Bytes(1)).fetch(|| self.connect(host));
            match byte {
                Ok(_) => return Ok(()),
                Err(error) if began.elapsed() > START => {
                    return Err(format!("{} carries nothing: {error}", self.name).into());
                }
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }

    /// What either end has used: the client, the server.
    pub fn usage(&self) -> Outcome<[Usage; 2]> {
        Ok([self.client.usage()?, self.server.usage()?])
    }

    /// Fetches something through them; returns the seconds that it took.
    pub fn fetch(&self, load: Load, host: &Host) -> Outcome<f64> {
        load.fetch(|| self.connect(host.addr)).map_err(|error| format!("{}: {error}", self.name).into())
    }

    /// A connection to `host`, with SOCKS5 where that is understood (RFC 1928).
    fn connect(&self, host: SocketAddr) -> Outcome<TcpStream> {
        let mut tcp = load::open(self.listen, STALL)?;
        if self.leads_to_host {
            return Ok(tcp);
        }
        let SocketAddr::V4(v4) = host else { return Err("the host has an IPv4 address".into()) };
        tcp.write_all(&[5, 1, 0])?;
        let (mut method, mut reply) = ([0; 2], [0; 10]);
        tcp.read_exact(&mut method).map_err(load::named)?;
        let address = [&[5, 1, 0, 1], &v4.ip().octets()[..], &v4.port().to_be_bytes()].concat();
        tcp.write_all(&address)?;
        tcp.read_exact(&mut reply).map_err(load::named)?;
        if method == [5, 0] && reply[1] == 0 {
            Ok(tcp)
        } else {
            Err(format!("the proxy refused: {method:?} {reply:?}").into())
        }
    }
}

fn emulate(server: SocketAddr, link: &LinkConfig) -> Outcome<Emulator> {
    Ok(Emulator::start([UdpPath::new(server, link.clone(), link.clone())], Seed(1))?)
}

/// The server's end listens at `server` and is reached at `at`.
fn mendpath(file: &Path, state: &Path, [server, at, listen]: [SocketAddr; 3]) -> Outcome<(Process, Process)> {
    let mut ends = [Command::new(file), Command::new(file)];
    let [first, second] = &mut ends;
    first.args(["server", "--allow-private", "--listen", &server.to_string()]);
    first.args(["--advertise", &at.to_string(), "--state"]).arg(state).stdout(Stdio::piped());
    let mut server = Process::start(first)?;
    let mut invitation = String::new();
    BufReader::new(server.0.stdout.take().ok_or("piped")?).read_line(&mut invitation)?;
    second.args(["client", invitation.trim(), "--socks5", &listen.to_string()]);
    Ok((server, Process::start(second)?))
}

/// TLS 1.3 with AES-128-GCM, and a key that both know in place of certificates; it is for nobody.
fn stunnel(folder: &Path, [host, port, listen]: [SocketAddr; 3]) -> Outcome<(Process, Process)> {
    let keys = folder.join("keys");
    std::fs::write(&keys, "pair:6d656e64706174682d6c61622d6b6579\n")?;
    let start = |name: &str, accept: SocketAddr, connect: SocketAddr, more: &str| {
        let file = folder.join(name);
        let common = "foreground = yes\npid =\n[pair]\nciphers = PSK\n\
                      ciphersuites = TLS_AES_128_GCM_SHA256\nTIMEOUTclose = 0\n";
        let keys = keys.display();
        let text = format!("{common}{more}PSKsecrets = {keys}\naccept = {accept}\nconnect = {connect}\n");
        std::fs::write(&file, text)?;
        Process::start(Command::new("stunnel").arg(&file))
    };
    Ok((start("server", port, host, "")?, start("client", listen, port, "client = yes\n")?))
}

/// What an end has used so far, or in a while.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// CPU time, of the program and of the kernel for it.
    pub cpu: Duration,
    /// Times that one of its threads waited for something.
    pub sleeps: u64,
}

impl Usage {
    /// What was used since `before`.
    pub fn since(self, before: Self) -> Self {
        // The count of a thread goes with it.
        Self { cpu: self.cpu - before.cpu, sleeps: self.sleeps.saturating_sub(before.sleeps) }
    }
}

/// A process that ends when this is dropped.
struct Process(Child);

impl Process {
    fn start(command: &mut Command) -> Outcome<Self> {
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let program = command.get_program().display().to_string();
        command.spawn().map(Self).map_err(|error| format!("cannot start {program}: {error}").into())
    }

    fn usage(&self) -> Outcome<Usage> {
        let account = Account::of(self.0.id());
        Ok(Usage { cpu: account.cpu()?, sleeps: account.sleeps()? })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An address where nobody listened a moment ago.
fn free_tcp() -> Outcome<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

fn free_udp() -> Outcome<SocketAddr> {
    Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?)
}
