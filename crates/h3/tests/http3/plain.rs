//! `h3::server` over a connection, without the [`Server`](mendpath_h3::Server) of this crate.

use bytes::Bytes;
use h3::{
    error::{Code, ConnectionError, LocalError, StreamError},
    quic::{OpenStreams, SendStreamUnframed as _},
};
use mendpath::{ReadError, ReadToEndError, VarInt};
use mendpath_h3::{BidiStream, Connection};
use tokio::task::JoinHandle;

use crate::common::{Accepted, Pair, watchdog};

/// GET https://x/ without the dynamic table (RFC 9204).
const GET_ROOT: &[u8] = &[0x01, 0x08, 0x00, 0x00, 0xd1, 0xd7, 0xc1, 0x50, 0x01, b'x'];

/// A client below HTTP/3, and a server of `h3` that takes as many bytes of fields.
async fn connected(pair: &Pair, fields: u64) -> (mendpath::Connection, Accepted) {
    let (client, server) = pair.connect().await;
    let mut builder = h3::server::builder();
    let server = builder.max_field_section_size(fields).build(Connection::new(server)).await.unwrap();
    (client, server)
}

/// Sends these bytes as all of a request.
async fn request(client: &mendpath::Connection, bytes: &[u8]) -> mendpath::RecvStream {
    let (mut send, recv) = client.open_bi().await.unwrap();
    send.write_all(bytes).await.unwrap();
    send.finish().unwrap();
    recv
}

/// RFC 9114 section 4.2.2: `h3` answers, and leaves it to the stream to end behind that.
#[tokio::test]
async fn fields_that_are_too_large_are_answered() {
    let pair = Pair::new();
    watchdog(async {
        let (client, mut server) = connected(&pair, 12).await;
        let mut response = request(&client, GET_ROOT).await;
        let resolver = server.accept().await.unwrap().unwrap();
        assert!(matches!(resolver.resolve_request().await, Err(StreamError::HeaderTooBig { .. })));
        // HEADERS of 8 bytes: `:status` from the static table, and 431 in Huffman's code.
        assert_eq!(response.read_to_end(100).await.unwrap(), b"\x01\x08\0\0\x5f\x09\x83\x69\x90\xff");
    })
    .await;
}

/// Nobody takes it for a response.
#[tokio::test]
async fn a_response_that_never_began_ends_without_a_byte() {
    let pair = Pair::new();
    watchdog(async {
        let (client, mut server) = connected(&pair, 10_000).await;
        let mut response = request(&client, GET_ROOT).await;
        drop(server.accept().await.unwrap().unwrap().resolve_request().await.unwrap());
        assert_eq!(response.read_to_end(100).await.unwrap(), b"");
    })
    .await;
}

/// The client of `h3` takes a response that ends without a byte for an error of the connection, with all its requests.
#[tokio::test]
async fn who_panics_before_a_response_resets_its_stream() {
    let pair = Pair::new();
    watchdog(async {
        let (client, mut server) = connected(&pair, 10_000).await;
        let mut response = request(&client, GET_ROOT).await;
        let resolver = server.accept().await.unwrap().unwrap();
        let handler: JoinHandle<()> = tokio::spawn(async move {
            let _request = resolver.resolve_request().await.unwrap();
            panic!("as asked for")
        });
        assert!(handler.await.unwrap_err().is_panic());
        let cancelled = VarInt::from_u64(Code::H3_REQUEST_CANCELLED.value()).unwrap();
        assert_eq!(
            response.read_to_end(100).await.unwrap_err(),
            ReadToEndError::Read(ReadError::Reset(cancelled))
        );
    })
    .await;
}

/// As WebTransport does, whose bytes are in no frames.
#[tokio::test]
async fn a_stream_on_which_something_was_sent_unframed_does_not_look_whole() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let mut client = Connection::new(client);
        let opening = std::future::poll_fn(|cx| OpenStreams::<Bytes>::poll_open_bidi(&mut client, cx));
        let mut stream: BidiStream<Bytes> = opening.await.unwrap();
        let mut data = Bytes::from_static(b"half");
        std::future::poll_fn(|cx| stream.poll_send(cx, &mut data)).await.unwrap();
        let (_send, mut recv) = server.accept_bi().await.unwrap();
        drop(stream);
        let cancelled = VarInt::from_u64(Code::H3_REQUEST_CANCELLED.value()).unwrap();
        assert_eq!(
            recv.read_to_end(100).await.unwrap_err(),
            ReadToEndError::Read(ReadError::Reset(cancelled))
        );
    })
    .await;
}

/// RFC 9114 section 7.1. Whoever serves is told the code that the client is.
#[tokio::test]
async fn who_serves_hears_why_a_broken_frame_ends_the_connection() {
    // Within a frame's type, within its length, within fields, and GOAWAY that is shorter or longer than its
    // number, in one piece with it.
    const BROKEN: [&[u8]; 6] = [
        &[0x40],
        &[0x01, 0x40],
        &[0x01, 0x08, 0x00, 0x00],
        &[0x07, 0x00],
        &[0x07, 0x01, 0x40],
        &[7, 2, 0, 0],
    ];
    let pair = Pair::new();
    watchdog(async {
        for broken in BROKEN {
            let (client, mut server) = connected(&pair, 10_000).await;
            let _response = request(&client, broken).await;
            let resolver = server.accept().await.unwrap().unwrap();
            let (driven, resolved) = tokio::join!(server.accept(), resolver.resolve_request());
            let is_told = |error: &ConnectionError| {
                let ConnectionError::Local { error: LocalError::Application { code, .. }, .. } = error else {
                    return false;
                };
                *code == Code::H3_FRAME_ERROR
            };
            let Err(StreamError::ConnectionError(resolved)) = resolved else { panic!("{broken:x?}") };
            let Err(driven) = driven else { panic!("{broken:x?}") };
            assert!(is_told(&resolved) && is_told(&driven), "{broken:x?}: {resolved:?}, {driven:?}");
        }
    })
    .await;
}
