//! The HTTP front end: a program's request, in pieces of any size.

use mendpath_cli::client::{Credentials, fuzzing};
use tokio::io::AsyncWriteExt as _;

use crate::socks5::block_on;

/// The first byte is the size of the pieces; the rest is what the program sends.
pub fn run(data: &[u8]) {
    let Some((&piece, sent)) = data.split_first() else { return };
    let credentials = Credentials { user: "alice".into(), password: "open".into() };
    let heard = block_on(async {
        let (mut program, proxy) = tokio::io::duplex(usize::from(piece).max(1) * 16);
        let (heard, ()) = tokio::join!(fuzzing::http_request(proxy, &credentials), async {
            let _ = program.write_all(sent).await;
            let _ = program.shutdown().await;
        });
        heard
    });
    let request = match heard {
        Ok(request) => request,
        Err(code) => return assert!(code.is_none_or(|code| (400..600).contains(&code))),
    };
    let rest = &request.rest;
    assert!(rest.is_empty() || sent.windows(rest.len()).any(|window| window == rest), "bytes after the head");
    if request.authorized {
        let text = String::from_utf8_lossy(sent).to_ascii_lowercase();
        assert!(text.contains("proxy-authorization"), "in without a password");
    }
    if let Some(head) = request.rewritten {
        let ends = head.windows(4).filter(|four| four == b"\r\n\r\n").count();
        assert!(ends == 1 && head.ends_with(b"\r\n\r\n"), "one head, whatever was in the fields");
        let mut fields = [httparse::EMPTY_HEADER; 128];
        let mut origin = httparse::Request::new(&mut fields);
        assert_eq!(origin.parse(&head), Ok(httparse::Status::Complete(head.len())));
        let hosts = origin.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("host"));
        assert_eq!(hosts.count(), 1, "the origin server sees one Host");
        assert!(!origin.headers.iter().any(|field| field.name.eq_ignore_ascii_case("proxy-authorization")));
    }
}
