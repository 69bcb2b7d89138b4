//! Address families, and addresses of the server's own machine.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket},
    process::Command,
};

use mendpath_cli::{destination::DestinationPolicy::*, invitation::Invitation, server::ProxyServer};

use crate::{process::Process, support::*};

const ANY_V6: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::LOCALHOST), 0);

fn skip(reason: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// One server on `[::]` serves clients of both families; a client that has nothing but IPv6 is
/// served as well, down to its proxy.
#[tokio::test(flavor = "multi_thread")]
async fn both_families_reach_a_server_on_the_wildcard() {
    if UdpSocket::bind(ANY_V6).is_err() {
        return skip("no IPv6 on this machine");
    }
    within(async {
        let state = tempfile::tempdir().unwrap();
        let state = state.path().to_str().unwrap();
        let server = Process::start(&[
            "server",
            "--listen",
            "[::]:0",
            "--advertise",
            "localhost",
            "--allow-private",
            "--state",
            state,
        ]);
        let invitation: Invitation = server.line_with("mendpath://").parse().unwrap();
        let echo = echo_server().await;
        let echo_v6 = echo_server_at(ANY_V6).await;
        for (host, path, proxy) in [("127.0.0.1", "127.0.0.1", "127.0.0.1:0"), ("[::1]", "::1", "[::1]:0")] {
            let invitation = invitation.to_string().replace("localhost", host);
            let client = Process::start(&["client", &invitation, "--path", path, "--socks5", proxy]);
            let proxy = client.address_after("SOCKS5 proxy on ");
            for target in [echo, echo_v6] {
                let (mut tcp, code, _) = socks5(proxy, 1, target).await;
                assert_eq!(
                    (code, converse(&mut tcp, b"hi ").await),
                    (0, b"hi goodbye".to_vec()),
                    "{host} to {target}"
                );
            }
        }
    })
    .await;
}

/// A server of IPv6 alone: whoever listens on `[::1]` is not reached over IPv4, and needs none.
#[tokio::test(flavor = "multi_thread")]
async fn a_pair_needs_no_ipv4() {
    if UdpSocket::bind(ANY_V6).is_err() {
        return skip("no IPv6 on this machine");
    }
    within(async {
        let state = tempfile::tempdir().unwrap();
        let mut options = server_options(state.path(), AllowPrivate);
        options.listen = ANY_V6;
        let server = ProxyServer::bind(&options).unwrap();
        let mut options = client_options(server.invitation().clone());
        tokio::spawn(server.run());
        options.socks5 = Some(ANY_V6);
        let proxy = client(options).await.socks5.unwrap();
        let (mut tcp, code, _) = socks5(proxy, 1, echo_server_at(ANY_V6).await).await;
        assert_eq!((code, converse(&mut tcp, b"six ").await), (0, b"six goodbye".to_vec()));
    })
    .await;
}

/// Runs `ip` with these words.
fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Public addresses that are this machine's are refused from the moment that it has them, in every
/// form; its neighbours' are not.
#[test]
fn the_servers_own_addresses_are_refused() {
    // The namespace belongs to this thread and to the sockets that it makes.
    let unshared = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET);
    if unshared.is_err() || Command::new("ip").arg("-V").output().is_err() {
        return skip("needs root and iproute2");
    }
    for words in [
        "link set lo up",
        "link add net0 type veth peer name net1",
        "link set net0 up",
        "link set net1 up",
        "address add 5.6.7.8/24 dev net0",
    ] {
        ip(words);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(within(async {
        let server = Server::start(PublicOnly);
        let proxy = client(client_options(server.invitation.clone())).await.socks5.unwrap();
        // A service that listens for this machine's own programs.
        let local = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = local.local_addr().unwrap().port();
        let reply = async |ip: &str| socks5(proxy, 1, SocketAddr::new(ip.parse().unwrap(), port)).await.1;
        const FORBIDDEN: u8 = 2;
        for own in
            ["5.6.7.8", "::ffff:5.6.7.8", "64:ff9b::506:708", "2002:506:708::1", "5.6.7.255", "5.6.7.0"]
        {
            assert_eq!(reply(own).await, FORBIDDEN, "{own}");
        }
        for later in ["9.9.9.9", "2a00:1::5"] {
            assert_ne!(reply(later).await, FORBIDDEN, "{later}");
            ip(&format!(
                "address add {later}{} dev net0",
                if later.contains(':') { "/64 nodad" } else { "/32" }
            ));
            assert_eq!(reply(later).await, FORBIDDEN, "{later}");
        }
        // A whole network that the kernel delivers here, which no interface lists.
        ip("route add local 7.7.7.0/24 dev lo");
        assert_eq!(reply("7.7.7.7").await, FORBIDDEN);
        assert_ne!(reply("5.6.7.9").await, FORBIDDEN);
        local.set_nonblocking(true).unwrap();
        assert!(local.accept().is_err(), "nobody was connected to");

        let server = Server::start(AllowPrivate);
        let proxy = client(client_options(server.invitation.clone())).await.socks5.unwrap();
        assert_eq!(socks5(proxy, 1, SocketAddr::new("5.6.7.8".parse().unwrap(), port)).await.1, 0);
    }));
}
