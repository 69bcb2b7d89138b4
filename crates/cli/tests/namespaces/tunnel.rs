//! `mendpath run` and `mendpath tunnel`: programs that know of no proxy. The program is this test's
//! own binary, which finds in its environment what it is to do.

use std::{
    fs::Permissions,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _, UdpSocket},
    os::unix::fs::PermissionsExt as _,
    process::{Child, ChildStderr, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use super::{
    bed as bed_or_skip,
    bed::{Bed, Family, PATIENCE, SERVER, SERVER_V6, pause},
    echo,
    program::Server,
    raw,
};

/// What the program inside is to do.
pub(super) const TASK: &str = "MENDPATH_TEST_TASK";
/// A name that the test's own name server knows.
const NAME: &str = "host.mendpath.test";
/// The port of DNS that it listens on.
pub(super) const DNS_PORT: u16 = 5_301;

/// Not a test, but the program that runs inside, where its environment says so.
#[test]
fn program_inside() {
    let Ok(task) = std::env::var(TASK) else { return };
    let words: Vec<&str> = task.split(' ').collect();
    match words.as_slice() {
        ["echo", place] => echo(place),
        ["many", place, count] => many(place, count.parse().unwrap()),
        ["datagram", place] => datagram(place),
        ["fails", place] => {
            let error = TcpStream::connect_timeout(&place.parse().unwrap(), PATIENCE).unwrap_err();
            println!("kind:{:?}:{}", error.kind(), error.raw_os_error().unwrap_or(0));
        }
        ["who", place] => {
            let mut seen = String::new();
            TcpStream::connect(place).unwrap().read_to_string(&mut seen).unwrap();
            println!("seen as:{seen}");
        }
        ["ask", place] => ask(place),
        ["ping", place] => ping(place),
        ["exit", code] => std::process::exit(code.parse().unwrap()),
        ["wait"] => {
            println!("waiting");
            loop {
                thread::park();
            }
        }
        other => panic!("{other:?}"),
    }
}

/// Sends a few bytes, closes its direction, and hears them back.
fn echo(place: &str) {
    let place = place.to_socket_addrs().unwrap().next().unwrap();
    let mut tcp = TcpStream::connect(place).unwrap();
    let said = vec![7; 300_000];
    let mut other = tcp.try_clone().unwrap();
    let writer = thread::spawn(move || {
        other.write_all(&said).unwrap();
        other.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut heard = Vec::new();
    tcp.read_to_end(&mut heard).unwrap();
    writer.join().unwrap();
    println!("heard:{}", heard.len());
}

/// Connections at a time.
fn many(place: &str, count: usize) {
    let mut all: Vec<TcpStream> = (0..count).map(|_| TcpStream::connect(place).unwrap()).collect();
    all.iter_mut().for_each(|tcp| tcp.write_all(b"x").unwrap());
    let heard = all.iter_mut().map(|tcp| tcp.read_exact(&mut [0]).is_ok());
    println!("heard:{}", heard.filter(|heard| *heard).count());
}

fn datagram(place: &str) {
    let place: SocketAddr = place.parse().unwrap();
    let any: SocketAddr = if place.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect(place).unwrap();
    // One that needs the stream, and one that does not; both may be lost, as UDP may be.
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    for size in [100, 20_000] {
        let heard = (0..60).find_map(|_| {
            socket.send(&vec![5; size]).unwrap();
            let mut buffer = vec![0; 65_535];
            socket.recv(&mut buffer).ok()
        });
        println!("heard:{}", heard.unwrap());
    }
}

/// Asks a name server for the address of [`NAME`].
fn ask(place: &str) {
    let mut query = vec![1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in NAME.split('.') {
        query.push(label.len() as u8);
        query.extend(label.as_bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(place).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send(&query).unwrap();
    let mut buffer = [0; 512];
    let n = socket.recv(&mut buffer).unwrap();
    let address: [u8; 4] = buffer[n - 4..n].try_into().unwrap();
    println!("answer:{}", Ipv4Addr::from(address));
}

/// Asks for an echo, as who is not root may.
fn ping(place: &str) {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::ICMPV4)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let place: SocketAddr = format!("{place}:0").parse().unwrap();
    let socket: UdpSocket = socket.into();
    let heard = (0..60).find_map(|sequence| {
        socket.send_to(&[8, 0, 0, 0, 0, 0, 0, sequence, 1, 2, 3], place).unwrap();
        let mut buffer = [0; 100];
        let (n, from) = socket.recv_from(&mut buffer).ok()?;
        (from.ip() == place.ip() && buffer[0] == 0).then(|| buffer[8..n].to_vec())
    });
    println!("echo:{:?}", heard.unwrap());
}

/// A server with a name server beside it, and hosts that echo.
pub(super) struct World {
    pub(super) server: Server,
    tcp: SocketAddr,
    tcp_v6: SocketAddr,
    udp: SocketAddr,
}

impl World {
    pub(super) fn new(bed: &Bed) -> Self {
        let listener = |ip: std::net::IpAddr| bed.at_server(|| TcpListener::bind((ip, 0)).unwrap());
        let [tcp, tcp_v6] = [SERVER.into(), SERVER_V6.into()].map(|ip| echo::tcp(listener(ip)));
        let udp = echo::udp(bed.at_server(|| UdpSocket::bind((SERVER, 0)).unwrap()));
        let names = bed.at_server(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, DNS_PORT)).unwrap());
        thread::spawn(move || name_server(&names));
        let dns = format!("--dns=127.0.0.1:{DNS_PORT}");
        let server = Server::start_with(bed, "0.0.0.0:4433", &[&dns]);
        Self { server, tcp, tcp_v6, udp }
    }
}

/// Knows one name, which is the server's.
pub(super) fn name_server(socket: &UdpSocket) {
    let mut buffer = [0; 512];
    while let Ok((n, from)) = socket.recv_from(&mut buffer) {
        let query = &buffer[..n];
        let end = query[12..].iter().position(|byte| *byte == 0).unwrap() + 12;
        let question = &query[12..end + 5];
        let wants_v4 = query[end + 2] == 1;
        let mut answer =
            [&query[..2], &[0x81, 0x80, 0, 1, 0, u8::from(wants_v4), 0, 0, 0, 0], question].concat();
        if wants_v4 {
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
            answer.extend(SERVER.octets());
        }
        let _ = socket.send_to(&answer, from);
    }
}

/// `mendpath run` with this binary, at the client's end.
fn inside(world: &World, task: &str) -> Command {
    inside_with(&world.server, &[], task)
}

/// The same with options.
pub(super) fn inside_with(server: &Server, options: &[&str], task: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mendpath"));
    let program = std::env::current_exe().unwrap();
    command.arg("run").args(options).args(["--path", "path0", "--path", "path1", "--"]).arg(program);
    command.args(["--exact", "tunnel::program_inside", "--nocapture", "--quiet"]);
    command.env("MENDPATH_INVITATION", server.invitation()).env(TASK, task);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(super) fn output(bed: &Bed, command: &mut Command) -> (Output, String) {
    let output = bed.at_client(|| command.output().unwrap());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    (output, text)
}

#[test]
fn a_command_reaches_hosts_over_tcp_udp_and_by_name() {
    let Some(bed) = bed_or_skip(2, Family::Both) else { return };
    let world = World::new(&bed);
    let by_name = format!("echo {NAME}:{}", world.tcp.port());
    for (task, heard) in [
        (format!("echo {}", world.tcp), "heard:300000"),
        (format!("echo {}", world.tcp_v6), "heard:300000"),
        (by_name, "heard:300000"),
        (format!("datagram {}", world.udp), "heard:100"),
        (format!("datagram {}", world.udp), "heard:20000"),
        (format!("many {} 300", world.tcp), "heard:300"),
    ] {
        let (output, text) = output(&bed, &mut inside(&world, &task));
        assert!(output.status.success() && text.contains(heard), "{task}: {text}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("mendpath:"), "it has nothing to say");
    }
}

/// A program hears what it would hear without a tunnel, and when it would: not that it is connected
/// before it is.
#[test]
fn what_cannot_be_reached_shows_as_that() {
    let Some(bed) = bed_or_skip(1, Family::Both) else { return };
    let world = World::new(&bed);
    let closed = bed.at_server(|| TcpListener::bind((SERVER, 0)).unwrap()).local_addr().unwrap();
    for (place, wanted) in [
        (closed.to_string(), "kind:ConnectionRefused"),
        ("10.98.0.1:80".to_owned(), "Unreachable"),
        ("[2001:db8::1]:80".to_owned(), "Unreachable"),
        ("224.0.0.1:80".to_owned(), "NetworkUnreachable"),
        ("198.18.0.2:80".to_owned(), "kind:ConnectionRefused"),
    ] {
        let mut command = inside(&world, &format!("fails {place}"));
        let (_, text) = output(&bed, &mut command);
        assert!(text.contains(wanted), "{place}: {text}");
    }
}

#[test]
fn the_exit_code_and_signals_are_the_commands() {
    let Some(bed) = bed_or_skip(1, Family::Both) else { return };
    let world = World::new(&bed);
    let (done, _) = output(&bed, &mut inside(&world, "exit 7"));
    assert_eq!(done.status.code(), Some(7));
    let mut missing = Command::new(env!("CARGO_BIN_EXE_mendpath"));
    missing.args(["run", "--path", "path0", "--", "no-such-program"]);
    missing.env("MENDPATH_INVITATION", world.server.invitation());
    let (done, _) = output(&bed, &mut missing);
    assert_eq!(done.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&done.stderr).contains("cannot run `no-such-program`"));

    let mut waiting = bed.at_client(|| inside(&world, "wait").spawn().unwrap());
    read_until(waiting.stdout.take().unwrap(), "waiting");
    let pid = nix::unistd::Pid::from_raw(waiting.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(waiting.wait().unwrap().code(), Some(128 + 15));
}

/// Programs that use select(2) must not get descriptors above 1,023.
#[test]
fn a_command_keeps_its_limit_of_open_files() {
    let Some(bed) = bed_or_skip(1, Family::Both) else { return };
    let world = World::new(&bed);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -S -n 200; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_mendpath")]);
    command.args(["run", "--path", "path0", "--", "sh", "-c", "ulimit -S -n"]);
    command.env("MENDPATH_INVITATION", world.server.invitation());
    let (_, text) = output(&bed, &mut command);
    assert_eq!(text.trim(), "200");
}

/// As with nohup: who closes the terminal wants it to go on.
#[test]
fn a_command_ignores_the_signals_that_it_is_to_ignore() {
    let Some(bed) = bed_or_skip(1, Family::Both) else { return };
    let world = World::new(&bed);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_mendpath")]);
    command.args(["run", "--path", "path0", "--", "grep", "SigIgn", "/proc/self/status"]);
    command.env("MENDPATH_INVITATION", world.server.invitation());
    let (_, text) = output(&bed, &mut command);
    let ignored = text.trim().strip_prefix("SigIgn:").unwrap();
    assert_eq!(u64::from_str_radix(ignored.trim(), 16).unwrap() & 1, 1, "{text}");
}

/// It would go on into what crash reports and logs say of a program's surroundings.
#[test]
fn a_command_does_not_hear_the_invitation() {
    let Some(bed) = bed_or_skip(1, Family::Both) else { return };
    let world = World::new(&bed);
    let mut command = Command::new(env!("CARGO_BIN_EXE_mendpath"));
    command.args(["run", "--path", "path0", "--", "sh", "-c", "echo \"${MENDPATH_INVITATION-none} $OTHER\""]);
    command.env("MENDPATH_INVITATION", world.server.invitation()).env("OTHER", "others");
    let (_, text) = output(&bed, &mut command);
    assert_eq!(text.trim(), "none others");
}

/// Which it may read in a new network: who puts another file in the place of /etc/resolv.conf takes away what lies
/// over it for the command.
#[test]
fn a_command_may_ask_the_machines_own_name_servers() {
    let Some(bed) = bed_or_skip(1, Family::Both) else { return };
    if !std::path::Path::new("/etc/resolv.conf").exists() {
        let _ = writeln!(std::io::stderr(), "skipped: there is no /etc/resolv.conf");
        return;
    }
    let world = World::new(&bed);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "nameserver 192.0.2.53\n").unwrap();
    let asks = inside(&world, "ask 192.0.2.53:53");
    let mut elsewhere = Command::new("unshare");
    let script = "mount --bind \"$0\" /etc/resolv.conf; exec \"$@\"";
    elsewhere.args(["-m", "sh", "-c", script]).arg(file.path()).arg(asks.get_program()).args(asks.get_args());
    elsewhere.envs(asks.get_envs().filter_map(|(name, value)| Some((name, value?))));
    elsewhere.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (_, text) = output(&bed, &mut elsewhere);
    assert!(text.contains("answer:10.99.0.1"), "{text}");
}

fn read_until(mut output: impl std::io::Read, wanted: &str) {
    let (mut text, mut byte) = (String::new(), [0]);
    while !text.contains(wanted) {
        assert_eq!(output.read(&mut byte).unwrap(), 1, "it ended: {text}");
        text.push(byte[0].into());
    }
}

/// Programs whose connections wait for open files would seem to hang without a reason.
#[test]
fn a_shortage_of_open_files_is_told() {
    let Some(bed) = bed_or_skip(2, Family::Both) else { return };
    let world = World::new(&bed);
    let many = inside(&world, &format!("many {} 55", world.tcp));
    let mut limited = Command::new("sh");
    // Whoever waits for the line in vain is told that it ended.
    let script = "ulimit -n 64; exec timeout 60 \"$0\" \"$@\"";
    limited.args(["-c", script]).arg(many.get_program()).args(many.get_args());
    limited.envs(many.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut limited = bed.at_client(|| limited.spawn().unwrap());
    read_until(limited.stderr.take().unwrap(), "one of 64 open files");
    let pid = nix::unistd::Pid::from_raw(limited.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    limited.wait().unwrap();
}

/// A program of the client's namespace that knows of nothing at all.
pub(super) fn plain(bed: &Bed, task: &str) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "tunnel::program_inside", "--nocapture", "--quiet"]);
    command.env(TASK, task).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    output(bed, &mut command).1
}

/// `ip` in the client's namespace.
pub(super) fn ip(bed: &Bed, line: &str) -> String {
    let output = bed.at_client(|| Command::new("ip").args(line.split_whitespace()).output().unwrap());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Red Hat's systems let packets in only the way that answers would go, and a name server is mostly the
/// router of the network that the machine is in. Some kernels would let its answers in all the same.
#[test]
fn name_servers_of_the_machines_own_network_answer_where_ways_back_are_checked() {
    let Some(bed) = bed_or_skip(2, Family::Both) else { return };
    let world = World::new(&bed);
    bed.at_client(|| std::fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "1").unwrap());
    let tunnel = start_tunnel(&bed, world.server.invitation(), &[]);
    let file = "/proc/sys/net/ipv4/conf/mendpath0/rp_filter";
    let is_loose = || bed.at_client(|| std::fs::read_to_string(file)).unwrap().trim() == "2";
    assert!(is_loose());
    // As systemd does there once udev has heard of the device.
    bed.at_client(|| std::fs::write(file, "1")).unwrap();
    let is_loose_again = (0..PATIENCE.as_millis() / 20).any(|_| {
        pause(Duration::from_millis(20));
        is_loose()
    });
    assert!(is_loose_again);
    let text = plain(&bed, "ask 10.77.0.53:53");
    assert!(text.contains("answer:10.99.0.1"), "{text}");
    end(tunnel);
}

/// A machine may give new devices no IPv6, and have some all the same.
#[test]
fn a_tunnel_has_ipv6_where_new_devices_get_none() {
    let Some(bed) = bed_or_skip(2, Family::Both) else { return };
    let world = World::new(&bed);
    bed.at_client(|| std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap());
    let tunnel = start_tunnel(&bed, world.server.invitation(), &[]);
    assert!(plain(&bed, &format!("echo {}", world.tcp_v6)).contains("heard:300000"));
    assert!(ip(&bed, &format!("-6 route get {SERVER_V6}")).contains("dev mendpath0"));
    end(tunnel);
}

/// When it ends, also by being killed, nothing of it stays once the next has come and gone.
#[test]
fn the_whole_machine_goes_through_a_tunnel_and_is_as_before_afterwards() {
    let Some(bed) = bed_or_skip(2, Family::Both) else { return };
    let world = World::new(&bed);
    let host = bed.at_server(|| {
        let args = ["addr", "add", "10.98.7.1/32", "dev", "lo"];
        assert!(Command::new("ip").args(args).status().unwrap().success());
        // As systemd sets it.
        std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647").unwrap();
        TcpListener::bind("10.98.7.1:0").unwrap()
    });
    let place = host.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((mut tcp, from)) = host.accept() {
            let _ = tcp.write_all(from.ip().to_string().as_bytes());
        }
    });
    assert!(plain(&bed, &format!("who {place}")).contains("seen as:10.77."), "without a tunnel");
    let other = bed.at_server(|| TcpListener::bind("10.98.7.1:0").unwrap());
    let mut kept = bed.at_client(|| TcpStream::connect(other.local_addr().unwrap()).unwrap());
    let (mut far, _) = other.accept().unwrap();
    let before = ip(&bed, "rule");
    for killed in [true, false] {
        let mut tunnel = start_tunnel(&bed, world.server.invitation(), &[]);
        let rules = ip(&bed, "rule");
        assert!(rules.contains("28014:"), "{rules}");
        let text = plain(&bed, &format!("who {place}"));
        assert!(text.contains("seen as:10.98.7.1"), "it comes from the server: {text}");
        bed.at_client(|| std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647")).unwrap();
        let text = plain(&bed, "ping 10.98.7.1");
        assert!(text.contains("echo:[1, 2, 3]"), "{text}");
        let text = plain(&bed, "ask 192.0.2.53:53");
        assert!(text.contains("answer:10.99.0.1"), "whatever name server is asked: {text}");
        kept.write_all(b"still").unwrap();
        let mut heard = [0; 5];
        far.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"still", "a connection of before goes on");
        let mut off = Command::new(env!("CARGO_BIN_EXE_mendpath"));
        let off = bed.at_client(|| off.args(["tunnel", "--remove-kill-switch"]).output().unwrap());
        let said = String::from_utf8_lossy(&off.stderr);
        assert!(off.status.code() == Some(2) && said.contains("refusing to take off"), "{said}");
        if killed {
            tunnel.kill().unwrap();
        } else {
            let pid = nix::unistd::Pid::from_raw(tunnel.id().cast_signed());
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        }
        let status = tunnel.wait().unwrap();
        assert_eq!(status.success(), !killed, "{status}");
        assert!(!ip(&bed, "link").contains("mendpath0"));
    }
    assert_eq!(ip(&bed, "rule"), before);
}

/// Nothing may leave in the clear because the tunnel fails, and nobody is to believe in one that
/// carries nothing.
#[test]
fn who_takes_the_device_away_ends_the_tunnel_and_not_its_kill_switch() {
    let Some(bed) = raw::bed_or_skip(2, Family::Both) else { return };
    let world = World::new(&bed);
    let has_kill_switch = || {
        let mut command = Command::new("nft");
        command.args(["list", "table", "inet", "mendpath_kill_switch"]);
        bed.at_client(|| command.output().unwrap()).status.success()
    };
    for taken in ["link set mendpath0 down", "link del mendpath0"] {
        let mut tunnel = start_tunnel(&bed, world.server.invitation(), &["--kill-switch"]);
        assert!(has_kill_switch());
        ip(&bed, taken);
        let looks = PATIENCE.as_millis() / 20;
        let ended = (0..looks).find_map(|_| {
            pause(Duration::from_millis(20));
            tunnel.try_wait().unwrap()
        });
        tunnel.kill().unwrap();
        assert_eq!(ended.and_then(|ended| ended.code()), Some(1), "{taken}");
        assert!(has_kill_switch(), "{taken}");
        let mut off = Command::new(env!("CARGO_BIN_EXE_mendpath"));
        let off = bed.at_client(|| off.args(["tunnel", "--remove-kill-switch"]).status().unwrap());
        assert!(off.success() && !has_kill_switch(), "{taken}");
    }
}

/// Who was told that nothing gets out until the tunnel is started again relies on that while it is not.
#[test]
fn a_kill_switch_that_was_left_outlasts_a_start_that_fails() {
    let Some(bed) = raw::bed_or_skip(2, Family::Both) else { return };
    let world = World::new(&bed);
    let nft = |words: &str| {
        let words = words.split_whitespace();
        bed.at_client(|| Command::new("nft").args(words).output().unwrap()).status.success()
    };
    assert!(nft("add table inet mendpath_kill_switch"));
    // By a device that is down when the kill switch is set no route can be had, and those that it had are gone.
    let (_folder, path) = nft_after("link set mendpath0 down");
    let mut tunnel = Command::new(env!("CARGO_BIN_EXE_mendpath"));
    tunnel.args(["tunnel", "--path", "path0", "--path", "path1", "--kill-switch"]);
    tunnel.env("MENDPATH_INVITATION", world.server.invitation()).env("PATH", path).stdin(Stdio::null());
    let (ended, _) = output(&bed, &mut tunnel);
    assert_eq!(ended.status.code(), Some(1));
    assert!(nft("list table inet mendpath_kill_switch"));
}

/// A folder with an `nft` that calls `ip` with these words before it does what it is for, the first time, and a
/// PATH that begins there.
pub(super) fn nft_after(words: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().display();
    let first = format!("mkdir {here}/done 2>/dev/null && ip {words}");
    let nft = folder.path().join("nft");
    std::fs::write(&nft, format!("#!/bin/sh\n{first}\nPATH=${{PATH#*:}}\nexec nft \"$@\"\n")).unwrap();
    std::fs::set_permissions(&nft, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{here}:{}", std::env::var("PATH").unwrap());
    (folder, path)
}

/// What comes in from outside must be answered the way that it came, after a change of network, too.
#[test]
fn an_address_that_comes_later_stays_out_of_the_tunnel() {
    let Some(bed) = bed_or_skip(2, Family::Both) else { return };
    let world = World::new(&bed);
    let tunnel = start_tunnel(&bed, world.server.invitation(), &[]);
    for (family, address, prefix) in [("-4", "10.77.0.9", 24), ("-6", "fd77::9", 64)] {
        let rule = format!("from {address} goto 28015");
        let wait_until = |there: bool| {
            let looks = PATIENCE.as_millis() / 20;
            let done = (0..looks).any(|_| {
                pause(Duration::from_millis(20));
                ip(&bed, &format!("{family} rule")).contains(&rule) == there
            });
            assert!(done, "{rule}: {there}");
        };
        ip(&bed, &format!("{family} addr add {address}/{prefix} dev path0"));
        wait_until(true);
        ip(&bed, &format!("{family} addr del {address}/{prefix} dev path0"));
        wait_until(false);
    }
    let before = ip(&bed, "rule");
    assert!(before.contains("from 10.77.0.2 goto 28015"), "the others keep theirs: {before}");
    end(tunnel);
}

/// As where each of several lines has a table of its own: answers must not go out by another line, whose
/// provider drops them.
#[test]
fn rules_of_the_users_own_decide_for_the_machines_addresses_as_before() {
    let Some(bed) = bed_or_skip(2, Family::Both) else { return };
    let world = World::new(&bed);
    // The bed's own rules come before the tunnel's, a user's first one behind.
    ip(&bed, "addr add 10.77.1.9/24 dev path1");
    ip(&bed, "route add default dev path1 table 200");
    ip(&bed, "rule add from 10.77.1.9 table 200 priority 32000");
    let way_of = |remote: &str| ip(&bed, &format!("route get {remote} from 10.77.1.9"));
    let [host, server] = ["203.0.113.9", "10.99.0.1"];
    let before = [way_of(host), way_of(server)];
    assert!(before.iter().all(|way| way.contains("dev path1 table 200")), "{before:?}");
    let tunnel = start_tunnel(&bed, world.server.invitation(), &[]);
    assert_eq!([way_of(host), way_of(server)], before);
    assert!(ip(&bed, &format!("route get {host}")).contains("dev mendpath0"));
    end(tunnel);
}

/// The server may have been waited for, and the machine be in another network by then: connections that were
/// made there from outside must not get into the tunnel, which would reset them.
#[test]
fn an_address_that_came_before_the_server_was_reached_stays_out_of_the_tunnel() {
    let Some(bed) = bed_or_skip(2, Family::Both) else { return };
    let world = World::new(&bed);
    bed.wires.iter().for_each(|wire| wire.swallow_larger_than(100));
    let (tunnel, mut output, _) =
        start_tunnel_that_says(&bed, world.server.invitation(), &["--wait"], "Trying again");
    ip(&bed, "addr add 10.77.0.9/24 dev path0");
    let mut monitor = Command::new("ip");
    monitor.args(["monitor", "rule"]).stdout(Stdio::piped());
    let mut monitor = bed.at_client(|| monitor.spawn().unwrap());
    let (rules, (tell, told)) = (monitor.stdout.take().unwrap(), mpsc::channel());
    thread::spawn(move || {
        BufReader::new(rules).lines().map_while(Result::ok).for_each(|line| _ = tell.send(line));
    });
    // It hears of rules from some moment on.
    while told.recv_timeout(Duration::from_millis(100)).is_err() {
        ip(&bed, "rule add from 192.0.2.1 table 99");
        ip(&bed, "rule del from 192.0.2.1 table 99");
    }
    bed.wires.iter().for_each(|wire| wire.swallow_larger_than(65_535));
    read_until(&mut output, "goes through the tunnel");
    let lines = std::iter::from_fn(|| told.recv_timeout(PATIENCE).ok());
    let before: Vec<String> = lines.take_while(|line| !line.starts_with("28014:")).collect();
    assert!(before.iter().any(|line| line.contains("from 10.77.0.9 goto 28015")), "{before:?}");
    end(monitor);
    end(tunnel);
}

/// A cloud tells its machines there who they are; and who looks for others on the network finds them.
#[test]
fn what_goes_no_further_than_its_link_stays_there() {
    let Some(bed) = bed_or_skip(2, Family::Both) else { return };
    let world = World::new(&bed);
    let way_of = |remote: &str| ip(&bed, &format!("route get {remote}"));
    let remotes = ["169.254.169.254", "239.255.255.250", "255.255.255.255"];
    let before = remotes.map(way_of);
    assert!(before.iter().all(|way| way.contains("dev path0")), "{before:?}");
    let tunnel = start_tunnel(&bed, world.server.invitation(), &[]);
    assert_eq!(remotes.map(way_of), before);
    end(tunnel);
}

/// As routers have it, whose lines to several providers share one address, and as servers are that
/// stand behind several ports of one.
#[test]
fn one_address_may_be_on_two_interfaces_and_of_two_servers() {
    let Some(bed) = bed_or_skip(2, Family::Both) else { return };
    let world = World::new(&bed);
    ip(&bed, "addr add 10.77.0.2/32 dev lo");
    let invitation = format!("{}&also={SERVER}:4434", world.server.invitation());
    let tunnel = start_tunnel(&bed, &invitation, &[]);
    let rules = ip(&bed, "rule");
    for once in ["from 10.77.0.2 goto 28015", "from all to 10.99.0.1 goto 28015"] {
        assert_eq!(rules.matches(once).count(), 1, "{rules}");
    }
    end(tunnel);
}

/// It takes programs' connections for ones from outside, and they only find that nobody answers.
#[test]
fn a_firewall_that_keeps_programs_from_the_listener_is_told_of() {
    let Some(bed) = raw::bed_or_skip(2, Family::Both) else { return };
    let world = World::new(&bed);
    let (tunnel, output) = start_talking_tunnel(&bed, world.server.invitation(), &[]);
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).for_each(|line| _ = tell.send(line));
    });
    let nft = |rules: &str| {
        let done = bed.at_client(|| Command::new("nft").arg(rules).status().unwrap());
        assert!(done.success(), "{rules}");
    };
    nft("table inet shut { chain input { type filter hook input priority 0; policy drop; \
         iifname \"lo\" accept; ct state established,related accept; }; }");
    let program = bed.at_client(|| {
        let socket = socket2::Socket::new(socket2::Domain::IPV6, socket2::Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        // It has only begun to.
        let _ = socket.connect(&world.tcp_v6.into());
        socket
    });
    let mut lines = std::iter::from_fn(|| told.recv_timeout(PATIENCE).ok());
    assert!(lines.any(|line| line.contains("a firewall of this machine seems to drop them")));
    drop(program);
    nft("delete table inet shut");
    assert!(plain(&bed, &format!("echo {}", world.tcp_v6)).contains("heard:300000"));
    end(tunnel);
}

pub(super) fn start_tunnel(bed: &Bed, invitation: &str, more: &[&str]) -> Child {
    let (tunnel, mut output) = start_talking_tunnel(bed, invitation, more);
    // Whatever it says later must not block it.
    thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    tunnel
}

/// The same, and what it says from then on.
pub(super) fn start_talking_tunnel(bed: &Bed, invitation: &str, more: &[&str]) -> (Child, ChildStderr) {
    let (tunnel, output, _) = start_tunnel_that_says(bed, invitation, more, "goes through the tunnel");
    (tunnel, output)
}

/// The same once it has said these words, and all that it has said.
pub(super) fn start_tunnel_that_says(
    bed: &Bed,
    invitation: &str,
    more: &[&str],
    words: &str,
) -> (Child, ChildStderr, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mendpath"));
    command.args(["tunnel", "--path", "path0", "--path", "path1"]).args(more);
    command.env("MENDPATH_INVITATION", invitation);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut tunnel = bed.at_client(|| command.spawn().unwrap());
    let mut output = tunnel.stderr.take().unwrap();
    let (mut text, mut byte) = (String::new(), [0]);
    while !text.contains(words) {
        assert_eq!(output.read(&mut byte).unwrap(), 1, "it ended: {text}");
        text.push(byte[0].into());
    }
    (tunnel, output, text)
}

/// Kills it.
pub(super) fn end(mut program: Child) {
    program.kill().unwrap();
    program.wait().unwrap();
}
