//! `--tcp raw`: packets of the client's TUN device come out of the server's as they were, and go on
//! from there under the server's address.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    process::{Command, Stdio},
    thread,
};

use super::{
    bed as any_bed,
    bed::{Bed, Family, OUTSIDE, OUTSIDE_V6, Outside, PATIENCE, ROUTER, pause},
    echo,
    program::Server,
    tunnel::{
        DNS_PORT, end, inside_with, ip, name_server, output, plain, start_talking_tunnel, start_tunnel,
        start_tunnel_that_says,
    },
};

const SERVER_ADMIN: &str = "127.0.0.1:9100";
const CLIENT_ADMIN: &str = "127.0.0.1:9101";

/// A server that offers tunnels of packets, and a host behind it that echoes.
pub(super) struct World {
    pub(super) server: Server,
    outside: Outside,
    tcp: SocketAddr,
    tcp_v6: SocketAddr,
    udp: SocketAddr,
    /// Says who connects.
    who: SocketAddr,
}

impl World {
    pub(super) fn new(bed: &Bed) -> Self {
        let outside = bed.outside();
        let listener = |ip: std::net::IpAddr| outside.at_host(|| TcpListener::bind((ip, 0)).unwrap());
        let [tcp, tcp_v6] = [OUTSIDE.into(), OUTSIDE_V6.into()].map(|ip| echo::tcp(listener(ip)));
        let who_listens = listener(OUTSIDE.into());
        let who = who_listens.local_addr().unwrap();
        thread::spawn(move || {
            while let Ok((mut tcp, from)) = who_listens.accept() {
                let _ = tcp.write_all(from.ip().to_string().as_bytes());
            }
        });
        let udp = echo::udp(outside.at_host(|| UdpSocket::bind((OUTSIDE, 0)).unwrap()));
        let names = bed.at_server(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, DNS_PORT)).unwrap());
        thread::spawn(move || name_server(&names));
        let (dns, admin) = (format!("--dns=127.0.0.1:{DNS_PORT}"), format!("--admin={SERVER_ADMIN}"));
        let server = Server::start_with(bed, "0.0.0.0:4433", &["--tunnel", &dns, &admin]);
        Self { server, outside, tcp, tcp_v6, udp, who }
    }
}

/// `mendpath run --tcp raw` with this binary, at the client's end.
fn inside(world: &World, task: &str) -> Command {
    inside_with(&world.server, &["--tcp", "raw"], task)
}

/// `/stats` of either end.
fn stats(connect: impl FnOnce() -> TcpStream, admin: &str) -> serde_json::Value {
    let mut tcp = connect();
    write!(tcp, "GET /stats HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

fn server_stats(bed: &Bed) -> serde_json::Value {
    let connect = || bed.at_server(|| TcpStream::connect(SERVER_ADMIN).unwrap());
    stats(connect, SERVER_ADMIN)["tunnel"].clone()
}

#[test]
fn a_commands_packets_come_out_at_the_server_as_they_were() {
    let Some(bed) = bed_or_skip(2, Family::Both) else { return };
    let world = World::new(&bed);
    for (task, heard) in [
        (format!("echo {}", world.tcp), "heard:300000".to_owned()),
        (format!("echo {}", world.tcp_v6), "heard:300000".to_owned()),
        (format!("datagram {}", world.udp), "heard:20000".to_owned()),
        (format!("many {} 300", world.tcp), "heard:300".to_owned()),
        (format!("who {}", world.who), format!("seen as:{ROUTER}")),
        ("ask 198.18.0.2:53".to_owned(), "answer:10.99.0.1".to_owned()),
    ] {
        let (output, text) = output(&bed, &mut inside(&world, &task));
        assert!(output.status.success() && text.contains(&heard), "{task}: {text}");
    }
    let seen = server_stats(&bed);
    assert!(seen["large"].as_u64().unwrap() > 0, "what fits no datagram went on the stream: {seen}");
    assert_eq!(seen["malformed"], 0, "{seen}");
    assert_eq!(seen["clients"], 0, "{seen}");
    assert!(bed.wires.iter().all(|wire| wire.passed() > 100), "both paths carried packets");
}

/// What may not be reached is answered with an ICMP error: other clients, and the server's device.
#[test]
fn other_clients_are_out_of_reach() {
    let Some(bed) = bed_or_skip(1, Family::Both) else { return };
    let world = World::new(&bed);
    for place in ["198.19.0.9:80", "198.19.0.1:80"] {
        let mut command = inside(&world, &format!("fails {place}"));
        let (_, text) = output(&bed, &mut command);
        assert!(text.contains("Unreachable"), "{place}: {text}");
    }
    assert!(server_stats(&bed)["dropped"]["forbidden"].as_u64().unwrap() >= 2);
}

/// A server that offers no tunnel says so, in one line, and nothing is changed.
#[test]
fn a_server_without_tunnels_says_so() {
    let Some(bed) = any_bed(1, Family::V4) else { return };
    let server = Server::start(&bed, "0.0.0.0:4433");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mendpath"));
    command.args(["tunnel", "--tcp", "raw", "--path", "path0"]);
    command.env("MENDPATH_INVITATION", server.invitation()).stdin(Stdio::null());
    let output = bed.at_client(|| command.output().unwrap());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("offers no tunnel") && said.contains("Start the server with --tunnel"), "{said}");
    assert!(!ip(&bed, "link").contains("mendpath0"));
}

/// The bed; none, said aloud, also without the program that a server with tunnels needs.
pub(super) fn bed_or_skip(paths: usize, family: Family) -> Option<Bed> {
    if Command::new("nft").arg("--version").output().is_err() {
        let _ = writeln!(std::io::stderr(), "skipped: there is no nft");
        return None;
    }
    any_bed(paths, family)
}

/// What the server changed in its machine.
fn changed(bed: &Bed) -> (String, [String; 2]) {
    bed.at_server(|| {
        let rules = Command::new("nft").args(["list", "ruleset"]).output().unwrap();
        let forwarding = ["ipv4/ip_forward", "ipv6/conf/all/forwarding"]
            .map(|file| std::fs::read_to_string(format!("/proc/sys/net/{file}")).unwrap());
        (String::from_utf8_lossy(&rules.stdout).into_owned(), forwarding)
    })
}

/// The server is killed and comes back: the machine's packets go on with the same addresses, and
/// its own machine is as before once it stops.
#[test]
fn a_machine_keeps_its_addresses_when_the_server_is_killed() {
    let Some(bed) = bed_or_skip(2, Family::Both) else { return };
    let before = changed(&bed);
    let mut world = World::new(&bed);
    assert_eq!(changed(&bed).1.map(|value| value.trim().to_owned()), ["1", "1"]);
    let admin = format!("--admin={CLIENT_ADMIN}");
    let mut tunnel = start_tunnel(&bed, world.server.invitation(), &["--tcp", "raw", &admin]);
    let addresses = || ip(&bed, "-br addr show mendpath0");
    let given = addresses();
    assert!(given.contains("198.19."), "{given}");
    let who = format!("who {}", world.who);
    let seen_as = format!("seen as:{ROUTER}");
    assert!(plain(&bed, &who).contains(&seen_as));

    world.server.kill_and_restart(&bed);
    assert!(plain(&bed, &format!("echo {}", world.tcp)).contains("heard:300000"));
    assert!(plain(&bed, &who).contains(&seen_as));
    assert_eq!(addresses(), given);
    assert_eq!(server_stats(&bed)["clients"], 1);
    let seen = || {
        let connect = || bed.connect(CLIENT_ADMIN.parse().unwrap());
        stats(connect, CLIENT_ADMIN)["tun"]["raw"].clone()
    };
    let becomes = |name: &str, least: u64| {
        for _ in 0..PATIENCE.as_millis() / 50 {
            if seen()[name].as_u64().unwrap() >= least {
                return;
            }
            pause(std::time::Duration::from_millis(50));
        }
        panic!("{name} should be {least}: {}", seen());
    };
    becomes("packets_received", 100);

    // Somebody else's address gets nowhere.
    let strange = seen()["strange"].as_u64().unwrap();
    bed.at_client(|| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
        socket.bind_device(Some(b"mendpath0")).unwrap();
        socket.bind(&SocketAddr::from(([198, 18, 0, 1], 0)).into()).unwrap();
        socket.send_to(b"x", &world.udp.into()).unwrap();
    });
    becomes("strange", strange + 1);

    let pid = nix::unistd::Pid::from_raw(tunnel.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(tunnel.wait().unwrap().success());
    world.server.stop();
    assert_eq!(changed(&bed), before);
    drop(world.outside);
}

/// By a route of the user's own, which says nothing of an address, and although somebody takes the address away.
#[test]
fn what_has_no_address_of_its_own_goes_out_from_the_assigned_one() {
    let Some(bed) = bed_or_skip(2, Family::Both) else { return };
    let world = World::new(&bed);
    let (tunnel, output, _) = start_tunnel_that_says(
        &bed,
        world.server.invitation(),
        &["--tcp", "raw", "--no-routes"],
        "nothing leads to it",
    );
    ip(&bed, &format!("route add {OUTSIDE}/32 dev mendpath0"));
    ip(&bed, &format!("-6 route add {OUTSIDE_V6}/128 dev mendpath0"));
    for place in [world.tcp, world.tcp_v6] {
        assert!(plain(&bed, &format!("echo {place}")).contains("heard:300000"), "{place}");
    }
    drop(output);
    end(tunnel);

    let tunnel = start_tunnel(&bed, world.server.invitation(), &["--tcp", "raw"]);
    let addresses = || ip(&bed, "-br -4 addr show mendpath0");
    let before = addresses();
    let given = before.split_whitespace().find(|word| word.starts_with("198.19.")).unwrap();
    ip(&bed, &format!("addr del {given} dev mendpath0"));
    let is_back = || addresses() == before;
    assert!((0..PATIENCE.as_millis() / 50).any(|_| {
        pause(std::time::Duration::from_millis(50));
        is_back()
    }));
    end(tunnel);
}

/// The server comes back without tunnels, and then with them: who waits is told why.
#[test]
fn a_tunnel_that_the_server_no_longer_gives_is_told_of_and_goes_on_when_it_does() {
    let Some(bed) = bed_or_skip(2, Family::Both) else { return };
    let mut world = World::new(&bed);
    let (tunnel, output) = start_talking_tunnel(&bed, world.server.invitation(), &["--tcp", "raw"]);
    let mut said = BufReader::new(output).lines().map_while(Result::ok);
    world.server.restart_with(&bed, "--tunnel", false);
    assert!(said.any(|line| line.contains("any more: this server offers no tunnel of packets; asking on")));
    world.server.restart_with(&bed, "--tunnel", true);
    assert!(said.any(|line| line.contains("the server gives a tunnel of packets again")));
    assert!(plain(&bed, &format!("echo {}", world.tcp)).contains("heard:300000"));
    end(tunnel);
}

/// Who calls itself alike is told so while the first is there, and has its place once it is gone,
/// however it went.
#[test]
fn a_second_machine_of_the_same_name_is_refused_while_the_first_is_there() {
    let Some(bed) = bed_or_skip(2, Family::Both) else { return };
    let world = World::new(&bed);
    let raw = ["--tcp", "raw"];
    let first = start_tunnel(&bed, world.server.invitation(), &raw);
    let given = ip(&bed, "-br -4 addr show mendpath0");

    let mut second = Command::new(env!("CARGO_BIN_EXE_mendpath"));
    second
        .args(["tunnel", "--path", "path0"])
        .args(raw)
        .env("MENDPATH_INVITATION", world.server.invitation());
    let (refused, _) = output(&bed, second.stdin(Stdio::null()).stderr(Stdio::piped()));
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("the same /etc/machine-id and the same host name has it"), "{text}");
    assert!(plain(&bed, &format!("echo {}", world.tcp)).contains("heard:300000"));

    end(first);
    let third = start_tunnel(&bed, world.server.invitation(), &raw);
    assert_eq!(ip(&bed, "-br -4 addr show mendpath0"), given);
    assert!(plain(&bed, &format!("echo {}", world.tcp)).contains("heard:300000"));
    end(third);
}
