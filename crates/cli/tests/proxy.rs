//! Client and server together, as programs see them.

mod support;

use std::{net::SocketAddr, time::Duration};

use mendpath_cli::{
    client::{Client, Forward},
    destination::DestinationPolicy::*,
    protocol::{Reply, Status},
    server::ProxyServer,
    target::Target,
};
use support::{hand::Hand, *};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpSocket, TcpStream, UdpSocket},
};

const CONNECT: u8 = 1;
const BIND: u8 = 2;
const UDP_ASSOCIATE: u8 = 3;

#[tokio::test]
async fn socks5_carries_bytes_and_half_close() {
    within(async {
        let server = Server::start(AllowPrivate);
        let proxy = client(client_options(server.invitation.clone())).await.socks5.unwrap();
        let (mut tcp, code, _) = socks5(proxy, CONNECT, echo_server().await).await;
        assert_eq!(code, 0);
        let sent = pattern(1_000_000);
        let heard = converse(&mut tcp, &sent).await;
        assert!(heard.strip_suffix(b"goodbye").is_some_and(|echo| echo == sent));
    })
    .await;
}

/// Who ends a client closes its connection, which is no loss that must be told of and made good.
#[tokio::test]
async fn a_connection_that_the_client_closes_itself_is_not_made_anew() {
    within(async {
        let server = Server::start(AllowPrivate);
        let client = Client::start(client_options(server.invitation.clone())).await.unwrap();
        let session = client.uplink.session().await.unwrap();
        session.connection.close(0u32.into(), b"");
        session.connection.closed().await;
        let another = async {
            while client.uplink.session().await.is_ok_and(|next| next.reconnects == 0) {
                tokio::task::yield_now().await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(2), another).await.is_err(), "there is another one");
    })
    .await;
}

#[tokio::test]
async fn http_tunnels() {
    within(async {
        let server = Server::start(AllowPrivate);
        let proxy = client(client_options(server.invitation.clone())).await.http.unwrap();
        let echo = echo_server().await;

        let mut tcp = TcpStream::connect(proxy).await.unwrap();
        let heard =
            converse(&mut tcp, format!("CONNECT {echo} HTTP/1.1\r\nHost: {echo}\r\n\r\nping").as_bytes())
                .await;
        let heard = String::from_utf8(heard).unwrap();
        assert!(heard.starts_with("HTTP/1.1 200 Connection established\r\n"), "{heard}");
        assert!(heard.ends_with("\r\n\r\npinggoodbye"), "{heard}");

        let mut tcp = TcpStream::connect(proxy).await.unwrap();
        let heard = String::from_utf8(converse(&mut tcp, b"GET / HTTP/1.1\r\n\r\n").await).unwrap();
        assert!(heard.starts_with("HTTP/1.1 405 ") && heard.contains("use CONNECT"), "{heard}");
        assert!(heard.to_lowercase().contains("\r\nallow: connect\r\n"), "{heard}");

        let mut tcp = TcpStream::connect(proxy).await.unwrap();
        let heard = converse(&mut tcp, format!("TRACE http://{echo}/ HTTP/1.1\r\n\r\n").as_bytes()).await;
        let heard = String::from_utf8(heard).unwrap().to_lowercase();
        assert!(heard.starts_with("http/1.1 405 ") && heard.contains("\r\nallow: delete, get,"), "{heard}");
    })
    .await;
}

#[tokio::test]
async fn a_forwarded_port_passes_a_reset_on() {
    within(async {
        let server = Server::start(AllowPrivate);
        let listener = TcpListener::bind(ANY).await.unwrap();
        let mut options = client_options(server.invitation.clone());
        options.forwards = vec![
            Forward { listen: ANY, target: Target::from_addr(listener.local_addr().unwrap()) },
            Forward { listen: ANY, target: Target::from_addr(echo_server().await) },
        ];
        let forwards = client(options).await.forwards;

        let mut tcp = TcpStream::connect(forwards[1]).await.unwrap();
        assert_eq!(converse(&mut tcp, b"hello ").await, b"hello goodbye");

        let mut tcp = TcpStream::connect(forwards[0]).await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        tcp.write_all(b"x").await.unwrap();
        far.read_exact(&mut [0]).await.unwrap();
        socket2::SockRef::from(&far).set_linger(Some(std::time::Duration::ZERO)).unwrap();
        drop(far);
        let error = tcp.read(&mut [0]).await.expect_err("a reset must not look like an end");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    })
    .await;
}

/// Thirty times, a program's connection through the proxy and the host's end of it.
async fn connect_and(talk: impl AsyncFn(TcpStream, TcpStream)) {
    within(async {
        let server = Server::start(AllowPrivate);
        let listener = TcpListener::bind(ANY).await.unwrap();
        let proxy = client(client_options(server.invitation.clone())).await.socks5.unwrap();
        for _ in 0..30 {
            let (tcp, code, _) = socks5(proxy, CONNECT, listener.local_addr().unwrap()).await;
            assert_eq!(code, 0);
            let (far, _) = listener.accept().await.unwrap();
            talk(tcp, far).await;
        }
    })
    .await;
}

/// As a web server does that refuses an upload, or has no time to read it.
#[tokio::test]
async fn a_host_that_answers_and_breaks_off_is_heard() {
    connect_and(async |mut tcp, mut far| {
        tcp.write_all(b"upload").await.unwrap();
        far.read_exact(&mut [0; 6]).await.unwrap();
        far.write_all(b"413").await.unwrap();
        socket2::SockRef::from(&far).set_linger(Some(Duration::ZERO)).unwrap();
        drop(far);
        let mut heard = Vec::new();
        let end = tcp.read_to_end(&mut heard).await.expect_err("it is no end");
        assert_eq!((end.kind(), &heard[..]), (std::io::ErrorKind::ConnectionReset, &b"413"[..]));
    })
    .await;
}

/// Nothing is unread yet when it closes: its answer has an end, and what comes then is reset.
#[tokio::test]
async fn a_host_that_answers_and_closes_is_heard_by_who_goes_on() {
    connect_and(async |mut tcp, mut far| {
        let (mut read, mut write) = tcp.split();
        let answers = async {
            far.read_exact(&mut [0; 6]).await.unwrap();
            far.write_all(b"413").await.unwrap();
            drop(far);
        };
        let (upload, mut heard) = (pattern(1_000_000), Vec::new());
        let _ = tokio::join!(answers, write.write_all(&upload), read.read_to_end(&mut heard));
        assert_eq!(heard, b"413");
    })
    .await;
}

/// It has a seat at the server for as long as the host takes some of what it left: little, which waits
/// in the kernel, or more.
#[tokio::test]
async fn what_a_program_left_for_a_host_that_never_reads_is_given_up() {
    within(async {
        let short = Duration::from_millis(500);
        let server = Server::start_with(AllowPrivate, |options| options.limits.tcp_left = short);
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        socket.bind(ANY).unwrap();
        let listener = socket.listen(8).unwrap();
        let proxy = client(client_options(server.invitation.clone())).await.socks5.unwrap();
        for size in [60_000, 600_000] {
            let (mut tcp, code, _) = socks5(proxy, CONNECT, listener.local_addr().unwrap()).await;
            assert_eq!(code, 0);
            let (_far, _) = listener.accept().await.unwrap();
            tcp.write_all(&pattern(size)).await.unwrap();
            tcp.shutdown().await.unwrap();
            let end = tcp.read(&mut [0]).await.expect_err("it is no end");
            assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset);
        }
    })
    .await;
}

/// A server that answers a request only once it has heard what the program said: a client that
/// waits for the answer first waits for ever.
#[tokio::test]
async fn a_forwarded_program_need_not_wait_for_the_server_s_answer() {
    within(async {
        let forward = Forward { listen: ANY, target: Target::from_addr(closed_port().await) };
        let (mut hand, addresses) = Hand::start(|options| options.forwards.push(forward)).await;
        let serving = async {
            for answer in [Reply::ok(), Reply::new(Status::Refused, "nobody is there")] {
                hand.hear().await;
                let mut said = [0; 8];
                hand.asked[0].1.read_exact(&mut said).await.unwrap();
                assert_eq!(&said, b"question");
                let (mut send, _receive) = hand.answer(answer).await;
                send.write_all(b"answer").await.unwrap();
                send.finish().unwrap();
            }
        };
        let talking = async {
            let forward = addresses.forwards[0];
            let mut tcp = TcpStream::connect(forward).await.unwrap();
            assert_eq!(converse(&mut tcp, b"question").await, b"answer");
            // A refusal is a reset, not the end of an empty answer, and nothing after it is taken
            // for one.
            let mut tcp = TcpStream::connect(forward).await.unwrap();
            tcp.write_all(b"question").await.unwrap();
            let error = tcp.read(&mut [0]).await.expect_err("refused");
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        };
        tokio::join!(serving, talking);
    })
    .await;
}

#[tokio::test]
async fn udp_associate_carries_small_and_large_packets() {
    within(async {
        let server = Server::start(AllowPrivate);
        let proxy = client(client_options(server.invitation.clone())).await.socks5.unwrap();
        let (tcp, code, relay) = socks5(proxy, UDP_ASSOCIATE, "0.0.0.0:0".parse().unwrap()).await;
        assert_eq!(code, 0);
        let echo = udp_echo_server().await;
        let program = UdpSocket::bind(ANY).await.unwrap();
        // The second does not fit a QUIC datagram and takes the stream.
        for length in [5, 9_000, 1] {
            let payload = pattern(length);
            let datagram = udp_datagram(echo, &payload);
            let mut heard = vec![0; 65_535];
            let n = exchange(&program, relay, &datagram, &mut heard).await;
            assert_eq!(heard[..n], datagram, "the echo's address is its source, the payload is the same");
        }
        drop(tcp);
    })
    .await;
}

/// At `[::]` it comes from an address of IPv6; its sockets know none.
#[tokio::test]
async fn a_program_of_ipv4_has_udp_from_a_proxy_for_both() {
    within(async {
        let server = Server::start(AllowPrivate);
        let mut options = client_options(server.invitation.clone());
        options.socks5 = Some((std::net::Ipv6Addr::UNSPECIFIED, 0).into());
        options.credentials = Some("a:b".parse().unwrap());
        let port = client(options).await.socks5.unwrap().port();
        let mut tcp = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        tcp.write_all(&[5, 1, 2]).await.unwrap();
        tcp.read_exact(&mut [0; 2]).await.unwrap();
        tcp.write_all(b"\x01\x01a\x01b").await.unwrap();
        tcp.read_exact(&mut [0; 2]).await.unwrap();
        tcp.write_all(&socks5_request(UDP_ASSOCIATE, ANY)).await.unwrap();
        let mut reply = [0; 10];
        tcp.read_exact(&mut reply).await.unwrap();
        assert_eq!(reply[..8], [5, 0, 0, 1, 127, 0, 0, 1], "where an IPv4 socket can send to");
        tcp.write_all(b"which means nothing").await.unwrap();

        let relay = (ANY.ip(), u16::from_be_bytes([reply[8], reply[9]])).into();
        let datagram = udp_datagram(udp_echo_server().await, b"question");
        let (program, mut heard) = (UdpSocket::bind(ANY).await.unwrap(), vec![0; 100]);
        let n = exchange(&program, relay, &datagram, &mut heard).await;
        assert_eq!(heard[..n], datagram);
    })
    .await;
}

fn udp_datagram(address: SocketAddr, payload: &[u8]) -> Vec<u8> {
    // A SOCKS5 request without its version and command is the header of a datagram.
    [&[0, 0, 0], &socks5_request(CONNECT, address)[3..], payload].concat()
}

/// Sends until an answer comes: UDP may lose packets even here.
async fn exchange(program: &UdpSocket, relay: SocketAddr, datagram: &[u8], heard: &mut [u8]) -> usize {
    let mut again = tokio::time::interval(std::time::Duration::from_secs(1));
    loop {
        tokio::select! {
            _ = again.tick() => { program.send_to(datagram, relay).await.unwrap(); }
            n = program.recv(heard) => return n.unwrap(),
        }
    }
}

#[tokio::test]
async fn private_destinations_are_refused() {
    within(async {
        let server = Server::start(PublicOnly);
        let addresses = client(client_options(server.invitation.clone())).await;
        let echo = echo_server().await;
        let (_, code, _) = socks5(addresses.socks5.unwrap(), CONNECT, echo).await;
        assert_eq!(code, 2, "not allowed by ruleset");

        let mut tcp = TcpStream::connect(addresses.http.unwrap()).await.unwrap();
        let request = format!("CONNECT localhost:{} HTTP/1.1\r\n\r\n", echo.port());
        let heard = String::from_utf8(converse(&mut tcp, request.as_bytes()).await).unwrap();
        assert!(heard.starts_with("HTTP/1.1 403 ") && heard.contains("--allow-private"), "{heard}");
    })
    .await;
}

#[tokio::test]
async fn failures_to_connect_keep_their_reason() {
    within(async {
        let server = Server::start(AllowPrivate);
        let addresses = client(client_options(server.invitation.clone())).await;
        let closed = closed_port().await;
        assert_eq!(socks5(addresses.socks5.unwrap(), CONNECT, closed).await.1, 5, "connection refused");
        assert_eq!(socks5(addresses.socks5.unwrap(), BIND, closed).await.1, 7, "command not supported");

        let mut tcp = TcpStream::connect(addresses.http.unwrap()).await.unwrap();
        let request = format!("CONNECT {closed} HTTP/1.1\r\n\r\n");
        let heard = String::from_utf8(converse(&mut tcp, request.as_bytes()).await).unwrap();
        assert!(heard.starts_with("HTTP/1.1 502 "), "{heard}");
    })
    .await;
}

/// A proxy that closes before it has read what a program said at once takes its own answer away with a reset.
#[tokio::test]
async fn who_says_all_at_once_hears_why_it_is_refused() {
    within(async {
        let server = Server::start(AllowPrivate);
        let open = client(client_options(server.invitation.clone())).await.socks5.unwrap();
        let mut options = client_options(server.invitation.clone());
        options.credentials = Some("alice:sesame".parse().unwrap());
        let closed = client(options).await.socks5.unwrap();
        let (connect, bind) =
            (socks5_request(CONNECT, closed_port().await), socks5_request(BIND, closed_port().await));
        let refused = |why: u8| [&[5, 0, 5, why][..], &[0, 1, 0, 0, 0, 0, 0, 0]].concat();
        let wrong = [&[5, 1, 2, 1, 5][..], b"alice", &[6], b"wrong!", &connect].concat();
        for (proxy, said, answer) in [
            (open, [&[5, 1, 0][..], &connect].concat(), refused(5)),
            (open, [&[5, 1, 0][..], &bind].concat(), refused(7)),
            (closed, [&[5, 1, 0][..], &connect].concat(), vec![5, 0xff]),
            (closed, wrong, vec![5, 2, 1, 0xff]),
        ] {
            let mut tcp = TcpStream::connect(proxy).await.unwrap();
            tcp.write_all(&[&said[..], b"for the host"].concat()).await.unwrap();
            let mut heard = Vec::new();
            tcp.read_to_end(&mut heard).await.expect("an end without a reset");
            assert_eq!(heard, answer);
        }
    })
    .await;
}

#[tokio::test]
async fn proxies_ask_for_the_password() {
    within(async {
        let server = Server::start(AllowPrivate);
        let mut options = client_options(server.invitation.clone());
        options.credentials = Some("alice:sesame".parse().unwrap());
        let addresses = client(options).await;
        let echo = echo_server().await;

        let mut tcp = TcpStream::connect(addresses.socks5.unwrap()).await.unwrap();
        tcp.write_all(&[5, 1, 0]).await.unwrap();
        let mut method = [0; 2];
        tcp.read_exact(&mut method).await.unwrap();
        assert_eq!(method, [5, 0xff], "no acceptable method");

        for (password, verdict) in [(&b"sesame"[..], 0), (b"wrong!", 1)] {
            let mut tcp = TcpStream::connect(addresses.socks5.unwrap()).await.unwrap();
            tcp.write_all(&[&[5, 1, 2, 1, 5][..], b"alice", &[6], password].concat()).await.unwrap();
            let mut answer = [0; 4];
            tcp.read_exact(&mut answer).await.unwrap();
            assert_eq!((answer[1], answer[3] != 0), (2, verdict != 0));
        }

        let mut tcp = TcpStream::connect(addresses.http.unwrap()).await.unwrap();
        let request = format!("CONNECT {echo} HTTP/1.1\r\n\r\n");
        let heard = String::from_utf8(converse(&mut tcp, request.as_bytes()).await).unwrap();
        assert!(heard.starts_with("HTTP/1.1 407 ") && heard.contains("Proxy-Authenticate: Basic"), "{heard}");
    })
    .await;
}

#[tokio::test]
async fn fifty_at_a_time_over_two_paths() {
    within(async {
        let server = Server::start(AllowPrivate);
        let mut options = client_options(server.invitation.clone());
        options.dial.paths = vec!["127.0.0.1".parse().unwrap(), "127.0.0.2".parse().unwrap()];
        let proxy = client(options).await.socks5.unwrap();
        let echo = echo_server().await;
        let mut all = tokio::task::JoinSet::new();
        for i in 0..50 {
            all.spawn(async move {
                let (mut tcp, code, _) = socks5(proxy, CONNECT, echo).await;
                assert_eq!(code, 0);
                let sent = pattern(20_000 + i);
                let heard = converse(&mut tcp, &sent).await;
                assert!(heard.strip_suffix(b"goodbye").is_some_and(|echo| echo == sent), "connection {i}");
            });
        }
        while let Some(one) = all.join_next().await {
            one.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn the_client_comes_back_when_the_server_does() {
    within(async {
        let state = tempfile::tempdir().unwrap();
        let mut options = server_options(state.path(), AllowPrivate);
        let server = ProxyServer::bind(&options).unwrap();
        let (endpoint, invitation) = (server.endpoint().clone(), server.invitation().clone());
        options.listen = endpoint.local_addrs()[0];
        tokio::spawn(server.run());
        let proxy = client(client_options(invitation.clone())).await.socks5.unwrap();
        let echo = echo_server().await;
        assert_eq!(socks5(proxy, CONNECT, echo).await.1, 0);

        endpoint.close(6u8.into(), b"restart");
        endpoint.wait_idle().await;
        drop(endpoint);
        let again = rebind(&options).await;
        assert_eq!(*again.invitation(), invitation, "the identity stays the same");
        tokio::spawn(again.run());
        let (mut tcp, code, _) = socks5(proxy, CONNECT, echo).await;
        assert_eq!(code, 0, "the request waited for the new connection");
        assert_eq!(converse(&mut tcp, b"back ").await, b"back goodbye");
    })
    .await;
}

/// The port is free once the old endpoint's last task has ended.
async fn rebind(options: &mendpath_cli::server::ServerOptions) -> ProxyServer {
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(20));
    loop {
        ticks.tick().await;
        if let Ok(server) = ProxyServer::bind(options) {
            return server;
        }
    }
}

#[tokio::test]
async fn statistics_are_served() {
    within(async {
        let server = Server::start(AllowPrivate);
        let mut options = client_options(server.invitation.clone());
        options.admin = Some(ANY);
        let admin = client(options).await.admin.unwrap();
        let get = async |path: &str| {
            let mut tcp = TcpStream::connect(admin).await.unwrap();
            let heard =
                converse(&mut tcp, format!("GET {path} HTTP/1.1\r\nHost: {admin}\r\n\r\n").as_bytes()).await;
            let heard = String::from_utf8(heard).unwrap();
            let (head, body) = heard.split_once("\r\n\r\n").unwrap();
            (head.split(' ').nth(1).unwrap().to_owned(), body.to_owned())
        };
        let (code, body) = get("/paths").await;
        let paths: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((code.as_str(), paths.as_array().unwrap().len()), ("200", 1));
        assert!(paths[0]["rtt_ms"].is_number());
        let stats: serde_json::Value = serde_json::from_str(&get("/stats").await.1).unwrap();
        assert_eq!(stats["recovery"], "auto");
        assert!(get("/metrics").await.1.contains("\nmendpath_up 1\n"));
        assert_eq!(get("/secret").await.0, "404");
    })
    .await;
}

/// What one event of `/events` says.
async fn event(lines: &mut tokio::io::Lines<BufReader<TcpStream>>) -> serde_json::Value {
    loop {
        let line = lines.next_line().await.unwrap().expect("events have no end");
        if let Some(event) = line.strip_prefix("data: ") {
            return serde_json::from_str(event).unwrap();
        }
    }
}

#[tokio::test]
async fn the_page_is_told_what_passes_once_a_second() {
    within(async {
        let (server, echo) = (Server::start(AllowPrivate), echo_server().await);
        let mut options = client_options(server.invitation.clone());
        (options.admin, options.show_names) = (Some(ANY), false);
        let addresses = client(options).await;
        let (admin, proxy) = (addresses.admin.unwrap(), addresses.socks5.unwrap());
        let mut page = TcpStream::connect(admin).await.unwrap();
        let head = converse(&mut page, format!("GET / HTTP/1.1\r\nHost: {admin}\r\n\r\n").as_bytes()).await;
        let head = String::from_utf8(head).unwrap().to_lowercase();
        assert!(head.contains("\r\ncontent-security-policy: default-src 'none';"), "{head}");

        let mut tcp = TcpStream::connect(admin).await.unwrap();
        let request = format!("GET /events HTTP/1.1\r\nHost: {admin}\r\n\r\n");
        tcp.write_all(request.as_bytes()).await.unwrap();
        let mut lines = BufReader::new(tcp).lines();
        let first = event(&mut lines).await;
        assert_eq!(first["schema"], "mendpath-status/1");
        assert_eq!((&first["client"]["connected"], &first["traffic"]["count"]), (&true.into(), &0.into()));
        assert_eq!(first["paths"][0]["name"], "lo (127.0.0.1)");

        let (mut program, code, _) = socks5(proxy, CONNECT, echo).await;
        assert_eq!(code, 0);
        program.write_all(b"twelve bytes").await.unwrap();
        program.read_exact(&mut [0; 12]).await.unwrap();
        let passed = loop {
            let traffic = event(&mut lines).await["traffic"].take();
            if traffic["destinations"][0]["bytes_received"] == 12 {
                break traffic;
            }
        };
        let destination = &passed["destinations"][0];
        assert_eq!((&destination["host"], &destination["port"]), (&().into(), &echo.port().into()));
        assert_eq!((&destination["open"], &destination["bytes_sent"]), (&1.into(), &12.into()));
    })
    .await;
}

/// The server's process dies without a word and is started again: its client finds out with its
/// first packet, not by a timeout.
#[test]
fn a_client_of_a_restarted_server_reconnects_at_once() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first_life, second_life, clients) = (runtime(), runtime(), runtime());
    let state = tempfile::tempdir().unwrap();
    let mut options = server_options(state.path(), AllowPrivate);

    let server = first_life.block_on(async { ProxyServer::bind(&options).unwrap() });
    options.listen = server.endpoint().local_addrs()[0];
    let invitation = server.invitation().clone();
    first_life.spawn(server.run());
    let (addresses, uplink, old) = clients.block_on(within(async {
        let client = Client::start(client_options(invitation)).await.unwrap();
        let (addresses, uplink) = (client.addresses.clone(), client.uplink.clone());
        tokio::spawn(client.run());
        let session = uplink.session().await.unwrap();
        (addresses, uplink, session.connection)
    }));

    first_life.shutdown_timeout(std::time::Duration::from_secs(10));
    let server = second_life.block_on(async { ProxyServer::bind(&options).unwrap() });
    second_life.spawn(server.run());
    clients.block_on(within(async {
        // Unless something else that it had to send has told it already.
        if let Ok((mut send, _receive)) = old.open_bi().await {
            let _ = send.write_all(b"?").await;
        }
        assert_eq!(old.closed().await, mendpath::ConnectionError::Reset);
        while uplink.session().await.is_ok_and(|session| session.reconnects == 0) {
            tokio::task::yield_now().await;
        }
        let (_, code, _) = socks5(addresses.socks5.unwrap(), CONNECT, echo_server().await).await;
        assert_eq!(code, 0);
    }));
}
