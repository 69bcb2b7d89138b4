//! The protocol between the proxy's client and server (docs/proxy-protocol.md): frames on a stream,
//! and packets in datagrams.

use mendpath_cli::protocol::{Hello, MAX_MESSAGE, Notice, Packet, Reply, Request, read_frame, write_frame};

use crate::socks5::block_on;

/// A stream of frames, each read as every message.
pub fn run(data: &[u8]) {
    if let Ok((association, packet)) = Packet::decode_datagram(data) {
        assert_eq!(packet.encode_datagram(association), data);
    }
    let mut stream = data;
    block_on(async {
        while let Ok(Some(body)) = read_frame(&mut stream, MAX_MESSAGE).await {
            assert!(body.len() <= MAX_MESSAGE);
            message(&body);
            let mut wire = Vec::new();
            write_frame(&mut wire, &body).await.expect("a vector takes everything");
            assert!(
                data.windows(wire.len()).any(|window| window == wire),
                "a frame is written as it was read"
            );
        }
    });
}

/// Whatever is understood is written as it was read.
fn message(body: &[u8]) {
    if let Ok(hello) = Hello::decode(body) {
        assert_eq!(hello.encode(), body);
    }
    if let Ok(request) = Request::decode(body) {
        assert_eq!(request.encode(), body);
    }
    if let Ok(reply) = Reply::decode(body) {
        assert!(!reply.text.contains(char::is_control), "text for a terminal");
        assert_eq!(Reply::decode(&reply.encode()).as_ref(), Ok(&reply));
    }
    if let Ok(notice) = Notice::decode(body) {
        if let Notice::Draining { text, .. } = &notice {
            assert!(!text.contains(char::is_control), "text for a terminal");
        }
        assert_eq!(Notice::decode(&notice.encode()).as_ref(), Ok(&notice));
    }
    if let Ok(packet) = Packet::decode(body) {
        assert_eq!(packet.encode(), body);
    }
}
