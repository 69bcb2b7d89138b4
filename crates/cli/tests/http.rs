//! The HTTP proxy between programs and origin servers that keep connections, lie, or mean harm.

mod support;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use mendpath_cli::{
    destination::DestinationPolicy::*,
    protocol::{Reply, Status},
};
use support::{hand::Hand, http::*, *};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Notify,
};

/// A proxy pair.
struct Pair {
    proxy: SocketAddr,
    _server: Server,
}

impl Pair {
    async fn start() -> Self {
        Self::with_password(None).await
    }

    async fn with_password(password: Option<&str>) -> Self {
        let server = Server::start(AllowPrivate);
        let mut options = client_options(server.invitation.clone());
        options.credentials = password.map(|text| text.parse().unwrap());
        Self { proxy: client(options).await.http.unwrap(), _server: server }
    }

    async fn program(&self) -> Program {
        Program::new(self.proxy).await
    }
}

/// A request for `origin`.
fn get(origin: &Origin, path: &str, fields: &str) -> String {
    let address = origin.address;
    format!("GET http://{address}{path} HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n")
}

/// The second request on a connection goes where it wants to go, with its cookies, and the password
/// for the proxy goes nowhere.
#[tokio::test]
async fn each_request_goes_to_its_own_origin() {
    within(async {
        let pair = Pair::with_password(Some("alice:sesame")).await;
        let (one, two) = (origin(|_| ok("one")).await, origin(|_| ok("two")).await);
        let mut program = pair.program().await;
        let password = "Proxy-Authorization: Basic YWxpY2U6c2VzYW1l\r\n";
        for (origin, cookie, body) in
            [(&one, "for=one", "one"), (&two, "for=two", "two"), (&one, "for=one", "one")]
        {
            let request = get(origin, "/", &format!("Cookie: {cookie}\r\n{password}"));
            let (head, heard) = program.ask(&request).await;
            assert_eq!((code(&head), heard.as_str()), (200, body));
        }
        assert_eq!((one.connections(), two.connections()), (vec![2], vec![1]));
        for (origin, own, other) in [(&one, "for=one", "for=two"), (&two, "for=two", "for=one")] {
            for request in origin.requests() {
                assert!(request.starts_with("GET / HTTP/1.1\r\n"), "{request}");
                assert_eq!(field(&request, "host"), Some(origin.address.to_string().as_str()));
                assert!(request.contains(own) && !request.contains(other), "{request}");
                assert!(!request.to_lowercase().contains("proxy-"), "{request}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn connections_to_origins_belong_to_one_program() {
    within(async {
        let (pair, origin) = (Pair::start().await, origin(|_| ok("here")).await);
        let (mut one, mut two) = (pair.program().await, pair.program().await);
        for _ in 0..3 {
            for program in [&mut one, &mut two] {
                assert_eq!(program.ask(&get(&origin, "/", "")).await.1, "here");
            }
        }
        assert_eq!(origin.connections(), [3, 3]);
    })
    .await;
}

/// The connection of a request that may not be made twice serves others afterwards, in place of the one
/// that was kept.
#[tokio::test]
async fn one_connection_to_an_origin_is_kept() {
    within(async {
        let (pair, origins) = (Pair::start().await, [origin(|_| ok("")).await, origin(|_| ok("")).await]);
        let mut program = pair.program().await;
        assert_eq!(code(&program.ask(&get(&origins[0], "/", "")).await.0), 200);
        for _ in 0..5 {
            let post = get(&origins[1], "/", "Content-Length: 0\r\n").replace("GET", "POST");
            assert_eq!(code(&program.ask(&post).await.0), 200);
        }
        for origin in &origins {
            assert_eq!(code(&program.ask(&get(origin, "/", "")).await.0), 200);
        }
        assert_eq!(origins[0].connections(), [2]);
        assert_eq!(origins[1].connections(), [1, 1, 1, 1, 2]);
    })
    .await;
}

/// Many origin servers on one connection: only a few of theirs are kept.
#[tokio::test]
async fn few_connections_to_origins_are_kept() {
    within(async {
        let pair = Pair::start().await;
        let mut origins = Vec::new();
        for _ in 0..6 {
            origins.push(origin(|_| ok("")).await);
        }
        let mut program = pair.program().await;
        for _ in 0..2 {
            for origin in &origins {
                assert_eq!(code(&program.ask(&get(origin, "/", "")).await.0), 200);
            }
        }
        // In turn, four are forgotten before they are needed again.
        for origin in &origins {
            assert_eq!(origin.connections(), [1, 1]);
        }
        assert_eq!(code(&program.ask(&get(&origins[5], "/", "")).await.0), 200);
        assert_eq!(origins[5].connections(), [1, 2]);
    })
    .await;
}

#[tokio::test]
async fn every_request_needs_the_password() {
    within(async {
        let (pair, origin) = (Pair::with_password(Some("alice:sesame")).await, origin(|_| ok("in")).await);
        let mut program = pair.program().await;
        let right = get(&origin, "/right", "Proxy-Authorization: Basic YWxpY2U6c2VzYW1l\r\n");
        assert_eq!(program.ask(&right).await.1, "in");
        let (head, _) = program.ask(&get(&origin, "/without", "")).await;
        assert_eq!((code(&head), field(&head, "connection")), (407, Some("close")));
        assert_eq!(field(&head, "proxy-authenticate"), Some("Basic realm=\"mendpath\""));
        assert_eq!(program.hear_rest().await, (String::new(), false));
        assert_eq!(origin.requests().len(), 1);
    })
    .await;
}

/// What two programs could understand differently reaches no origin server, nor does what comes
/// behind it.
#[tokio::test]
async fn smuggling_is_refused() {
    within(async {
        let (pair, origin) = (Pair::start().await, origin(|_| ok("")).await);
        let at = origin.address;
        let post = |fields: &str| format!("POST http://{at}/first HTTP/1.1\r\nHost: {at}\r\n{fields}\r\n");
        let chunked = "Transfer-Encoding: chunked\r\n";
        for (request, wanted) in [
            (post(&format!("Content-Length: 5\r\n{chunked}")) + "0\r\n\r\n", 400),
            (post(&format!("{chunked}Content-Length: 5\r\n")) + "0\r\n\r\n", 400),
            (post("Content-Length: 5\r\nContent-Length: 6\r\n") + "hello!", 400),
            (post("Content-Length: 5, 5\r\n") + "hello", 400),
            (post("Content-Length: +5\r\n") + "hello", 400),
            (post("Content-Length : 5\r\n") + "hello", 400),
            (post("X: a\r\n Content-Length: 5\r\n") + "hello", 400),
            (post("X: a\rContent-Length: 5\r\n") + "hello", 400),
            (post("Transfer-Encoding: gzip, chunked\r\n") + "0\r\n\r\n", 501),
            (post(&chunked.repeat(2)) + "0\r\n\r\n", 501),
            (post("Transfer-Encoding: \x0bchunked\r\n") + "0\r\n\r\n", 400),
            (post("Host: other.example\r\n"), 400),
            (format!("POST http://{at}/ HTTP/1.0\r\n{chunked}\r\n0\r\n\r\n"), 501),
            (format!("GET http://user@{at}/first HTTP/1.1\r\n\r\n"), 400),
            (format!("GET http://{at}@other.example/first HTTP/1.1\r\n\r\n"), 400),
            (format!("GET http://{at}:80/first HTTP/1.1\r\n\r\n"), 400),
            (format!("GET http://{at}\\@other/first HTTP/1.1\r\n\r\n"), 400),
            (format!("GET  http://{at}/first HTTP/1.1\r\n\r\n"), 400),
            (format!("GET http://{at}/first HTTP/3.0\r\n\r\n"), 505),
            (format!("CONNECT {at} HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"), 400),
            (post(&format!("X: {}\r\n", "a".repeat(40_000))), 431),
            (post(&"X: a\r\n".repeat(200)), 431),
        ] {
            let mut program = pair.program().await;
            program.say(&(request.clone() + &get(&origin, "/hidden", ""))).await;
            let (head, text) = program.hear().await;
            assert_eq!((code(&head), field(&head, "connection")), (wanted, Some("close")), "{request}");
            assert!(text.starts_with("mendpath: "), "{text}");
            assert_eq!(program.hear_rest().await.0, "", "{request}");
        }
        assert_eq!(origin.requests(), [""; 0]);
    })
    .await;
}

/// Bodies that are no chunks end the connection on both sides: the origin server gets no complete
/// request.
#[tokio::test]
async fn bad_chunks_are_refused() {
    within(async {
        let (pair, origin) = (Pair::start().await, origin(|_| ok("")).await);
        let at = origin.address;
        let bodies = [
            "x\r\n",
            "5\nhello\r\n0\r\n\r\n",
            "5\r\nhello!\r\n0\r\n\r\n",
            "5;a\nb\r\nhello\r\n0\r\n\r\n",
            "-1\r\n",
            "\r\n",
        ];
        for body in bodies {
            for method in ["POST", "GET"] {
                let mut program = pair.program().await;
                let head = format!("{method} http://{at}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
                program.say(&(head + body + &get(&origin, "/hidden", ""))).await;
                let (head, _) = program.hear().await;
                assert_eq!((code(&head), field(&head, "connection")), (400, Some("close")), "{body:?}");
                assert_eq!(program.hear_rest().await.0, "", "{body:?}");
            }
        }
        assert_eq!(origin.requests(), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn fields_about_the_connection_stay_on_their_side() {
    within(async {
        let pair = Pair::start().await;
        let origin = origin(|_| {
            let fields = "Connection: keep-alive, X-Secret\r\nX-Secret: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\n\
                          Upgrade: h2c\r\nTrailer: X-T\r\nSet-Cookie: a=b\r\nX-Odd-Case: kept\r\n";
            (format!("HTTP/1.1 200 Very Well\r\n{fields}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n"), Then::Keep)
        })
        .await;
        let mut program = pair.program().await;
        let request = get(
            &origin,
            "/a?b",
            "Connection: close, X-Mine, Content-Length\r\nX-Mine: 1\r\nProxy-Connection: keep-alive\r\nKeep-Alive: 300\r\n\
             TE: trailers\r\nTrailer: X\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nX-Odd-CASE: kept\r\nCookie: c=d\r\n\
             Content-Length: 4\r\n",
        );
        let (head, body) = program.ask(&(request + "body")).await;
        assert!(head.starts_with("HTTP/1.1 200 Very Well\r\n"), "{head}");
        assert_eq!(body, "5\r\nhello\r\n0\r\n\r\n");
        let names = |head: &str| {
            let lines = head.split("\r\n\r\n").next().unwrap().split("\r\n").skip(1);
            let mut names: Vec<_> = lines.map(|line| line.split(':').next().unwrap().to_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&head), ["Connection", "Date", "Set-Cookie", "Transfer-Encoding", "X-Odd-Case"]);
        assert_eq!(field(&head, "connection"), Some("close"), "the program asked for it");
        let request = &origin.requests()[0];
        assert!(request.starts_with("GET /a?b HTTP/1.1\r\n") && request.ends_with("\r\n\r\nbody"), "{request}");
        assert_eq!(names(request), ["Content-Length", "Cookie", "Host", "X-Odd-CASE"]);
    })
    .await;
}

/// A response that is cut is not the end of a response, whatever its length is told by.
#[tokio::test]
async fn origins_that_cut_their_response_are_noticed() {
    within(async {
        let pair = Pair::start().await;
        let origin = origin(|request| {
            let (fields, then) = match request.split(' ').nth(1).unwrap() {
                "/length" => ("Content-Length: 10\r\n\r\nhello", Then::Close),
                "/chunk" => ("Transfer-Encoding: chunked\r\n\r\n10\r\nhello", Then::Close),
                "/chunks" => ("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", Then::Close),
                "/bad-chunk" => ("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nx\r\n", Then::Keep),
                "/reset" => ("\r\nhello", Then::Reset),
                "/whole" => ("\r\nhello", Then::Close),
                other => panic!("{other}"),
            };
            (format!("HTTP/1.1 200 OK\r\n{fields}"), then)
        })
        .await;
        for path in ["/length", "/chunk", "/chunks", "/bad-chunk", "/reset"] {
            for version in ["1.1", "1.0"] {
                let mut program = pair.program().await;
                program.say(&get(&origin, path, "").replace("HTTP/1.1", &format!("HTTP/{version}"))).await;
                let head = program.hear_head().await;
                assert_eq!(code(&head), 200);
                if path == "/reset" {
                    // It resets as soon as it hears more; that the beginning has passed is certain
                    // only then.
                    let mut hello = vec![0; if version == "1.1" { 10 } else { 5 }];
                    program.0.read_exact(&mut hello).await.unwrap();
                    drop(program);
                    continue;
                }
                let (rest, was_reset) = program.hear_rest().await;
                assert!(was_reset && !rest.ends_with("0\r\n\r\n"), "{path} {version}: {rest}");
            }
        }
        let mut program = pair.program().await;
        let (_, body) = program.ask(&get(&origin, "/whole", "")).await;
        assert_eq!(body, "5\r\nhello\r\n0\r\n\r\n", "an end is an end");
    })
    .await;
}

#[tokio::test]
async fn responses_that_nobody_can_trust_are_not_passed_on() {
    within(async {
        let pair = Pair::start().await;
        let origin = origin(|request| {
            let said = match request.split(' ').nth(1).unwrap() {
                "/both" => "200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                "/lengths" => "200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
                "/gzip" => "200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
                "/folded" => "200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
                "/407" => "407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n",
                "/101" => "101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
                "/noise" => return ("SSH-2.0-OpenSSH\r\n".into(), Then::Keep),
                "/nothing" => return (String::new(), Then::Close),
                "/more" => "200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
                "/fine" => "200 OK\r\nContent-Length: 4\r\n\r\nfine",
                other => panic!("{other}"),
            };
            (format!("HTTP/1.1 {said}"), Then::Keep)
        })
        .await;
        let mut program = pair.program().await;
        for path in ["/both", "/lengths", "/gzip", "/folded", "/407", "/101", "/noise", "/nothing"] {
            let (head, text) = program.ask(&get(&origin, path, "")).await;
            assert!(code(&head) == 502 && text.starts_with("mendpath: "), "{path}: {head}{text}");
            assert_eq!(field(&head, "proxy-authenticate"), None);
        }
        assert_eq!(program.ask(&get(&origin, "/more", "")).await.1, "ok");
        assert_eq!(program.ask(&get(&origin, "/fine", "")).await.1, "fine", "what nobody asked for answers nothing");
    })
    .await;
}

/// RFC 9110 section 8.6: some read two equal ones otherwise than others.
#[tokio::test]
async fn a_length_that_is_said_twice_is_passed_on_once() {
    within(async {
        let pair = Pair::start().await;
        let origin =
            origin(|_| ("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok".into(), Then::Keep)).await;
        let mut program = pair.program().await;
        let (head, body) = program.ask(&get(&origin, "/", "")).await;
        assert_eq!((field(&head, "content-length"), body.as_str()), (Some("2"), "ok"));
    })
    .await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_their_order() {
    within(async {
        let pair = Pair::start().await;
        let (one, two) = (origin(|_| ok("one")).await, origin(|_| ok("two")).await);
        let mut program = pair.program().await;
        let post = format!("POST http://{}/ HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody", two.address);
        let bad = format!("GET http://{}/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n", two.address);
        program.say(&[get(&one, "/", ""), post, get(&one, "/", ""), bad, get(&one, "/", "")].concat()).await;
        for body in ["one", "two", "one"] {
            assert_eq!(program.hear().await.1, body);
        }
        let (head, _) = program.hear().await;
        assert_eq!((code(&head), program.hear_rest().await.0.as_str()), (400, ""));
        assert!(two.requests()[0].ends_with("\r\n\r\nbody"));
        assert_eq!((one.connections(), two.connections()), (vec![2], vec![1]));
    })
    .await;
}

#[tokio::test]
async fn responses_without_a_body_keep_the_connection() {
    within(async {
        let pair = Pair::start().await;
        let origin = origin(|request| match request.split(' ').nth(1).unwrap() {
            "/204" => ("HTTP/1.1 204 No Content\r\n\r\n".into(), Then::Keep),
            "/304" => {
                ("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\nETag: x\r\n\r\n".into(), Then::Keep)
            }
            _ if request.starts_with("HEAD") => {
                ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".into(), Then::Keep)
            }
            _ => ok("body"),
        })
        .await;
        let mut program = pair.program().await;
        program.say(&get(&origin, "/", "").replace("GET", "HEAD")).await;
        let head = program.hear_head().await;
        assert_eq!((code(&head), field(&head, "content-length")), (200, Some("9")));
        for (path, status) in [("/204", 204), ("/304", 304)] {
            program.say(&get(&origin, path, "")).await;
            assert_eq!(code(&program.hear_head().await), status);
        }
        assert_eq!(program.ask(&get(&origin, "/", "")).await.1, "body");
        assert_eq!(origin.connections(), [4]);
    })
    .await;
}

/// Both bodies pass piece by piece: each side goes on only after the other has heard the last
/// piece.
#[tokio::test]
async fn bodies_are_streamed_both_ways() {
    within(async {
        let pair = Pair::start().await;
        let origin = talking_origin(|mut tcp, _| async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(tcp.read_u8().await.unwrap());
            }
            tcp.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await.unwrap();
            let mut chunk = [0; 6];
            for _ in 0..5 {
                tcp.read_exact(&mut chunk).await.unwrap();
                tcp.write_all(&chunk).await.unwrap();
            }
            tcp.read_exact(&mut chunk[..5]).await.unwrap();
            assert_eq!(&chunk[..5], b"0\r\n\r\n");
            tcp.write_all(b"0\r\n\r\n").await.unwrap();
        })
        .await;
        let mut program = pair.program().await;
        let at = origin.address;
        program.say(&format!("PUT http://{at}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")).await;
        assert_eq!(code(&program.hear_head().await), 200);
        for i in 0..5 {
            let said = format!("1\r\n{i}\r\n");
            program.say(&said).await;
            let mut heard = vec![0; 6];
            program.0.read_exact(&mut heard).await.unwrap();
            assert_eq!(heard, said.as_bytes());
        }
        program.say("0\r\n\r\n").await;
        let mut end = [0; 5];
        program.0.read_exact(&mut end).await.unwrap();
        assert_eq!(&end, b"0\r\n\r\n");
    })
    .await;
}

/// A program that does not read holds its origin server up, not the proxy's memory.
#[tokio::test]
async fn a_program_that_does_not_read_holds_the_origin_up() {
    within(async {
        let pair = Pair::start().await;
        let (sent, mut progress) = tokio::sync::watch::channel(0_u64);
        let origin = talking_origin(move |mut tcp, _| {
            let sent = sent.clone();
            async move {
                hear_request(&mut tcp).await;
                tcp.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                while tcp.write_all(&[b'x'; 65_536]).await.is_ok() {
                    sent.send_modify(|sent| *sent += 65_536);
                }
            }
        })
        .await;
        let mut program = pair.program().await;
        program.say(&get(&origin, "/", "")).await;
        assert_eq!(code(&program.hear_head().await), 200);
        // Until it stands still: flow control and the buffers of four sockets are some megabytes.
        while tokio::time::timeout(Duration::from_secs(2), progress.changed()).await.is_ok() {
            assert!(*progress.borrow() < 256 << 20, "somebody keeps all of it");
        }
        // And on it goes.
        let before = *progress.borrow();
        let mut taken = vec![0; 1 << 20];
        while *progress.borrow() == before {
            program.0.read_exact(&mut taken).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_body_is_asked_for_only_when_the_origin_wants_it() {
    within(async {
        let pair = Pair::start().await;
        let origin = talking_origin(|mut tcp, heard| async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(tcp.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            if head.starts_with("POST /no") {
                heard(head);
                tcp.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n").await.unwrap();
                return heard(format!("rest {:?}", tcp.read(&mut [0]).await.map_err(|error| error.kind())));
            }
            tcp.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
            let mut body = [0; 4];
            tcp.read_exact(&mut body).await.unwrap();
            heard(head + str::from_utf8(&body).unwrap());
            tcp.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
        })
        .await;
        let post = |path: &str| {
            let fields = "Expect: 100-continue\r\nContent-Length: 4\r\n";
            format!("POST http://{}{path} HTTP/1.1\r\n{fields}\r\n", origin.address)
        };
        let mut program = pair.program().await;
        program.say(&post("/yes")).await;
        assert_eq!(code(&program.hear_head().await), 100);
        assert_eq!(program.ask("body").await.1, "ok");
        assert!(field(&origin.requests()[0], "expect").is_some() && origin.requests()[0].ends_with("body"));

        let mut program = pair.program().await;
        assert_eq!(code(&program.ask(&post("/no")).await.0), 413, "without a 100");
        assert_eq!(program.hear_rest().await.0, "");

        let mut program = pair.program().await;
        let other = post("/yes").replace("100-continue", "wonders");
        assert_eq!(code(&program.ask(&other).await.0), 417);
    })
    .await;
}

/// An origin server that does not want a body may take its time to say why.
#[tokio::test]
async fn a_refusal_without_a_100_arrives_whole() {
    within(async {
        let pair = Pair::start().await;
        let heard = Arc::new(Notify::new());
        let more = heard.clone();
        let origin = talking_origin(move |mut tcp, _| {
            let more = more.clone();
            async move {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(tcp.read_u8().await.unwrap());
                }
                for piece in ["HTTP/1.1 403 Forbidden\r\nContent-Length: 12\r\n\r\n", "one ", "two ", "last"]
                {
                    tcp.write_all(piece.as_bytes()).await.unwrap();
                    more.notified().await;
                }
            }
        })
        .await;
        let mut program = pair.program().await;
        let fields = "Expect: 100-continue\r\nContent-Length: 4\r\n";
        program.say(&format!("POST http://{}/ HTTP/1.1\r\n{fields}\r\n", origin.address)).await;
        assert_eq!(code(&program.hear_head().await), 403);
        for piece in ["one ", "two ", "last"] {
            heard.notify_one();
            let mut found = [0; 4];
            program.0.read_exact(&mut found).await.expect("the rest is lost");
            assert_eq!(found, piece.as_bytes());
        }
    })
    .await;
}

/// What the program did not finish is not the origin server's fault.
#[tokio::test]
async fn a_request_that_is_cut_is_incomplete() {
    within(async {
        let pair = Pair::start().await;
        let origin = origin(|_| ok("whole")).await;
        for body in ["Content-Length: 10\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"] {
            let mut program = pair.program().await;
            program.say(&format!("POST http://{}/ HTTP/1.1\r\n{body}", origin.address)).await;
            program.0.shutdown().await.unwrap();
            let (head, text) = program.hear().await;
            assert!(code(&head) == 400 && text.contains("incomplete"), "{body}: {head}{text}");
        }
        assert_eq!(origin.requests(), Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn other_protocols_pass_once_the_origin_agrees() {
    within(async {
        let pair = Pair::start().await;
        let origin = talking_origin(|mut tcp, heard| async move {
            let request = hear_request(&mut tcp).await.unwrap();
            let agrees = request.starts_with("GET /ws");
            heard(request);
            if !agrees {
                let (said, _) = ok("no");
                return tcp.write_all(said.as_bytes()).await.unwrap();
            }
            let switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX: y\r\n\r\nhello ";
            tcp.write_all(switching.as_bytes()).await.unwrap();
            let (mut read, mut write) = tcp.split();
            tokio::io::copy(&mut read, &mut write).await.unwrap();
        })
        .await;
        let fields = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n";
        let mut program = pair.program().await;
        assert_eq!(program.ask(&get(&origin, "/plain", fields)).await.1, "no");
        let mut declined = pair.program().await;
        assert_eq!(declined.ask(&get(&origin, "/plain", fields)).await.1, "no");
        declined.0.shutdown().await.unwrap();
        assert_eq!(declined.hear_rest().await, (String::new(), false), "no reset");
        program.say(&get(&origin, "/ws", fields)).await;
        let head = program.hear_head().await;
        assert_eq!((code(&head), field(&head, "upgrade"), field(&head, "x")), (101, Some("websocket"), Some("y")));
        let heard = converse(&mut program.0, b"frames that are no HTTP").await;
        assert_eq!(heard, b"hello frames that are no HTTP");
        let request = &origin.requests()[2];
        assert_eq!((field(request, "upgrade"), field(request, "connection")), (Some("websocket"), Some("upgrade")));
    })
    .await;
}

/// Its time runs from the request to the end of what that became.
#[tokio::test]
async fn a_request_for_another_protocol_is_complete_when_that_is_over() {
    within(async {
        let server = Server::start(AllowPrivate);
        let mut options = client_options(server.invitation.clone());
        options.admin = Some(ANY);
        let addresses = client(options).await;
        let origin = talking_origin(|mut tcp, _| async move {
            hear_request(&mut tcp).await.unwrap();
            let switching =
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
            tcp.write_all(switching.as_bytes()).await.unwrap();
            let (mut read, mut write) = tcp.split();
            tokio::io::copy(&mut read, &mut write).await.unwrap();
        })
        .await;
        let mut program = Program::new(addresses.http.unwrap()).await;
        program.say(&get(&origin, "/", "Connection: Upgrade\r\nUpgrade: websocket\r\n")).await;
        assert_eq!(code(&program.hear_head().await), 101);
        assert_eq!(converse(&mut program.0, b"frames").await, b"frames");
        let counted = requests_over(addresses.admin.unwrap()).await;
        assert_eq!(counted, "protocol=\"http\",outcome=\"complete\"} 1");
    })
    .await;
}

/// What the client's metrics say first of requests that are over, once one is.
async fn requests_over(admin: SocketAddr) -> String {
    let ask = format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\n\r\n");
    loop {
        let metrics = converse(&mut TcpStream::connect(admin).await.unwrap(), ask.as_bytes()).await;
        let metrics = String::from_utf8(metrics).unwrap();
        let requests = "mendpath_request_duration_seconds_count{";
        if let Some(counted) = metrics.lines().find_map(|line| line.strip_prefix(requests)) {
            return counted.to_owned();
        }
    }
}

/// Trailers are not passed on, and are the end of a body all the same, on both ways.
#[tokio::test]
async fn what_ends_with_trailers_is_complete() {
    within(async {
        let server = Server::start(AllowPrivate);
        let mut options = client_options(server.invitation.clone());
        options.admin = Some(ANY);
        let addresses = client(options).await;
        let said = |body: &str| {
            format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\nX-Sum: 1\r\n\r\n", body.len())
        };
        let origin = origin(move |_| (format!("HTTP/1.1 200 OK\r\n{}", said("answer")), Then::Keep)).await;
        let mut program = Program::new(addresses.http.unwrap()).await;
        let post = format!("POST http://{}/ HTTP/1.1\r\n{}", origin.address, said("question"));
        assert_eq!(program.ask(&post).await.1, "6\r\nanswer\r\n0\r\n\r\n");
        let counted = requests_over(addresses.admin.unwrap()).await;
        assert_eq!(counted, "protocol=\"http\",outcome=\"complete\"} 1");
        assert_eq!(program.ask(&get(&origin, "/", "")).await.1, "6\r\nanswer\r\n0\r\n\r\n");
        assert!(
            origin.requests()[0].ends_with("\r\n\r\n8\r\nquestion\r\n0\r\n\r\n"),
            "{:?}",
            origin.requests()
        );
        assert_eq!(origin.connections(), [2], "nothing keeps the next request from the same connection");
    })
    .await;
}

/// An origin server closes a kept connection just when the next request is on its way. What may be made
/// twice is; the rest goes by a connection of its own.
#[tokio::test]
async fn no_request_is_lost_where_an_origin_closes_a_kept_connection() {
    within(async {
        let pair = Pair::start().await;
        // It says that it keeps the connection, and hangs up when it hears of it again.
        let origin = talking_origin(|mut tcp, heard| async move {
            heard(hear_request(&mut tcp).await.unwrap());
            let (said, _) = ok("once");
            tcp.write_all(said.as_bytes()).await.unwrap();
            let _ = tcp.read_u8().await;
        })
        .await;
        let mut program = pair.program().await;
        for _ in 0..3 {
            assert_eq!(program.ask(&get(&origin, "/", "")).await.1, "once");
        }
        // Nobody would know whether it had done what it was asked to do.
        let post = format!("POST http://{}/ HTTP/1.1\r\nContent-Length: 0\r\n\r\n", origin.address);
        for _ in 0..2 {
            let (head, text) = program.ask(&post).await;
            assert_eq!((code(&head), text.as_str()), (200, "once"));
        }
        assert_eq!(origin.connections(), [1, 1, 1, 1, 1]);
    })
    .await;
}

#[tokio::test]
async fn a_program_may_end_its_direction_before_the_answer() {
    within(async {
        let (pair, origin) = (Pair::start().await, origin(|_| ok("still here")).await);
        let mut program = pair.program().await;
        let heard = converse(&mut program.0, get(&origin, "/", "").as_bytes()).await;
        assert!(heard.ends_with(b"\r\n\r\nstill here"), "{}", String::from_utf8_lossy(&heard));
    })
    .await;
}

#[tokio::test]
async fn refusals_of_plain_requests_keep_their_reason() {
    within(async {
        let server = Server::start(PublicOnly);
        let proxy = client(client_options(server.invitation.clone())).await.http.unwrap();
        let mut program = Program::new(proxy).await;
        let (head, text) = program.ask("GET http://127.0.0.1/ HTTP/1.1\r\n\r\n").await;
        assert!(code(&head) == 403 && text.contains("--allow-private"), "{head}{text}");
        // More than waits anywhere: it is sent to its end, and then the reason is read.
        let big = "x".repeat(8 << 20);
        let post = format!("POST http://127.0.0.1/ HTTP/1.1\r\nContent-Length: {}\r\n\r\n{big}", big.len());
        let (head, text) = program.ask(&post).await;
        assert!(code(&head) == 403 && text.contains("--allow-private"), "{head}{text}");

        let pair = Pair::start().await;
        let closed = closed_port().await;
        let (head, text) = pair.program().await.ask(&format!("GET http://{closed}/ HTTP/1.1\r\n\r\n")).await;
        assert!(code(&head) == 502 && text.contains("cannot connect"), "{head}{text}");
    })
    .await;
}

/// A server that answers only once it has heard the request itself: a client that waits for the
/// answer first waits for ever.
#[tokio::test]
async fn requests_do_not_wait_for_the_connection() {
    within(async {
        let (mut hand, addresses) = Hand::start(|_| {}).await;
        let serving = async {
            for (begins, answer, said) in [
                ("GET /", Reply::ok(), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
                ("GET /", Reply::new(Status::Refused, "nobody is there"), ""),
                ("early", Reply::ok(), "late"),
            ] {
                hand.hear().await;
                let mut heard = [0; 5];
                hand.asked[0].1.read_exact(&mut heard).await.unwrap();
                assert_eq!(str::from_utf8(&heard).unwrap(), begins);
                let (mut send, _receive) = hand.answer(answer).await;
                send.write_all(said.as_bytes()).await.unwrap();
                send.finish().unwrap();
            }
        };
        let talking = async {
            let mut program = Program::new(addresses.http.unwrap()).await;
            assert_eq!(program.ask("GET http://a.example/ HTTP/1.1\r\n\r\n").await.1, "ok");
            let (head, text) = program.ask("GET http://b.example/ HTTP/1.1\r\n\r\n").await;
            assert_eq!((code(&head), text.as_str()), (502, "mendpath: nobody is there\n"));
            program.say("CONNECT c.example:1 HTTP/1.1\r\n\r\nearly").await;
            assert_eq!(code(&program.hear_head().await), 200);
            assert_eq!(program.hear_rest().await.0, "late");
        };
        tokio::join!(serving, talking);
    })
    .await;
}
