//! The HTTP front end: what a program sends, in pieces.

use mendpath_cli::client::{Credentials, fuzzing};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::socks5::block_on;

/// The first byte is the size of the pieces; the rest is what the program sends. hyper and what
/// stands before it must agree about where every request begins and ends: the door panics if they
/// do not.
pub fn run(data: &[u8]) {
    let Some((&piece, sent)) = data.split_first() else { return };
    let credentials = Credentials { user: "alice".into(), password: "open".into() };
    let heard = block_on(async {
        let (program, proxy) = tokio::io::duplex(usize::from(piece).max(1) * 16);
        let (mut answers, mut says) = tokio::io::split(program);
        let said = async {
            let _ = says.write_all(sent).await;
            let _ = says.shutdown().await;
        };
        let mut answered = Vec::new();
        let (heard, (), _) = tokio::join!(
            fuzzing::http_requests(proxy, &credentials),
            said,
            answers.read_to_end(&mut answered)
        );
        heard
    });
    for request in heard {
        match request {
            Ok(request) => check(&request, sent),
            Err(code) => assert!((400..600).contains(&code)),
        }
    }
}

fn check(request: &fuzzing::HttpRequest, sent: &[u8]) {
    if request.authorized {
        let text = String::from_utf8_lossy(sent).to_ascii_lowercase();
        assert!(text.contains("proxy-authorization"), "in without a password");
    }
    let Some(head) = &request.rewritten else { return };
    let ends = head.windows(4).filter(|four| four == b"\r\n\r\n").count();
    assert!(ends == 1 && head.ends_with(b"\r\n\r\n"), "one head, whatever was in the fields");
    let mut fields = [httparse::EMPTY_HEADER; 256];
    let mut origin = httparse::Request::new(&mut fields);
    assert_eq!(origin.parse(head), Ok(httparse::Status::Complete(head.len())));
    let count =
        |name: &str| origin.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name)).count();
    assert_eq!(count("host"), 1, "the origin server sees one Host");
    assert_eq!(
        count("proxy-authorization") + count("proxy-connection") + count("te") + count("keep-alive"),
        0
    );
    assert!(count("content-length") + count("transfer-encoding") <= 1, "one length");
}
