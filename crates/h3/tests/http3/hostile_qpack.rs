//! Bombs of QPACK: few bytes that stand for many, for what is not there, or for what would have to be kept.

use h3::error::Code;
use mendpath_h3::Limits;

use crate::{
    common::{Pair, watchdog},
    hostile::{GET_ROOT, against, answers, closed_with, code},
};

/// What comes before the fields of a section that needs no dynamic table (RFC 9204 section 4.5.1).
const PREFIX: &[u8] = &[0x00, 0x00];
/// HEADERS of the status 431 and no other field.
const TOO_LARGE: &[u8] = b"\x01\x08\0\0\x5f\x09\x83\x69\x90\xff";

/// HEADERS with these bytes.
fn headers(section: &[u8]) -> Vec<u8> {
    let length = 0x8000_0000 | u32::try_from(section.len()).unwrap();
    [&[0x01][..], &length.to_be_bytes(), section].concat()
}

/// The server has said what it takes, and h3's client keeps to that: this one does not wait for it.
#[tokio::test]
async fn fields_that_are_too_large_are_answered_with_431() {
    let pair = Pair::new();
    watchdog(async {
        let client = against(&pair, Limits::default()).await;
        // All from the static table: `age: 0` is 36 bytes for one, a `content-security-policy` 108 for two, which
        // would make 1.7 MB of the longest frame that is taken.
        for field in [&[0xc2_u8][..], &[0xff, 0x16]] {
            let (mut send, mut recv) = client.open_bi().await.unwrap();
            // `:method GET` and so many fields.
            let section = [PREFIX, &[0xd1], &field.repeat(16_000)].concat();
            send.write_all(&headers(&section)).await.unwrap();
            let _ = send.finish();
            let answer = recv.read_to_end(10_000).await.unwrap();
            assert!(answer.starts_with(TOO_LARGE), "{answer:x?}");
        }
        answers(client).await;
    })
    .await;
}

/// There is none, so that nothing waits for one to be filled either (RFC 9204 section 2.2.1).
#[tokio::test]
async fn fields_of_a_dynamic_table_end_the_connection() {
    let pair = Pair::new();
    watchdog(async {
        // A field of it and one behind its base, and a name of it and one behind its base.
        let fields: [&[u8]; 4] = [&[0x80], &[0x10], &[0x40, 0x01, b'x'], &[0x00, 0x01, b'x']];
        for field in fields {
            let client = against(&pair, Limits::default()).await;
            let (mut send, _recv) = client.open_bi().await.unwrap();
            send.write_all(&headers(&[PREFIX, &[0xd1], field].concat())).await.unwrap();
            assert_eq!(closed_with(&client).await, code(Code::QPACK_DECOMPRESSION_FAILED), "{field:x?}");
        }
    })
    .await;
}

/// Nothing is allocated for what a number alone announces.
#[tokio::test]
async fn numbers_without_end_end_the_connection() {
    let pair = Pair::new();
    watchdog(async {
        let fields: [&[u8]; 4] = [
            // Of a field in the static table: one that there is not, and one beyond all numbers.
            &[0xff, 0xff, 0xff, 0xff, 0x7f],
            &[0xff; 12],
            // A path of a quarter of a gigabyte, and a name of as much.
            &[0x51, 0x7f, 0xff, 0xff, 0xff, 0x7f, b'/'],
            &[0x27, 0xff, 0xff, 0xff, 0x7f, b'x'],
        ];
        for field in fields {
            let client = against(&pair, Limits::default()).await;
            let (mut send, _recv) = client.open_bi().await.unwrap();
            send.write_all(&headers(&[PREFIX, &[0xd1], field].concat())).await.unwrap();
            assert_eq!(closed_with(&client).await, code(Code::QPACK_DECOMPRESSION_FAILED), "{field:x?}");
        }
    })
    .await;
}

/// An encoder may say what it likes: its stream has room for 16 kB, and takes sixteen times as much.
#[tokio::test]
async fn instructions_for_a_dynamic_table_are_not_kept() {
    let pair = Pair::with_both(|client| client, |server| server.receive_windows(64 << 10, 16 << 10));
    watchdog(async {
        let client = against(&pair, Limits::default()).await;
        let mut control = client.open_uni().await.unwrap();
        control.write_all(&[0x00, 0x04, 0x00]).await.unwrap();
        let mut encoder = client.open_uni().await.unwrap();
        // A table of 220 bytes, and then `x: y` for it again and again (RFC 9204 sections 4.3.1 and 4.3.3).
        encoder.write_all(&[0x02, 0x3f, 0xbd, 0x01]).await.unwrap();
        encoder.write_all(&[0x41, b'x', 0x01, b'y'].repeat(64 << 10)).await.unwrap();
        // It has all once it has taken nearly all.
        while client.undelivered(encoder.id()) > 0 {
            tokio::task::yield_now().await;
        }
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(GET_ROOT).await.unwrap();
        send.finish().unwrap();
        let answer = recv.read_to_end(1_000).await.unwrap();
        assert!(answer.windows(5).any(|part| part == b"hello"), "{answer:?}");
    })
    .await;
}
