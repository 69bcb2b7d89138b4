//! Test bytes that depend on their offset, so that none can be lost, doubled or moved unnoticed.

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Bytes handed over at a time.
const CHUNK: usize = 64 << 10;

/// The bytes from `offset` on.
fn fill(offset: u64, bytes: &mut [u8]) {
    let word = |index: u64| index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let skip = (offset % 8) as usize;
    let head = bytes.len().min((8 - skip) % 8);
    let (head, body) = bytes.split_at_mut(head);
    head.copy_from_slice(&word(offset / 8)[skip..][..head.len()]);
    for (index, chunk) in (offset.div_ceil(8)..).zip(body.chunks_mut(8)) {
        chunk.copy_from_slice(&word(index)[..chunk.len()]);
    }
}

/// Writes the test bytes from `offset` to `end`.
pub(crate) async fn write(stream: &mut (impl AsyncWrite + Unpin), mut offset: u64, end: u64) {
    let mut chunk = vec![0; CHUNK];
    while offset < end {
        let chunk = &mut chunk[..(end - offset).min(CHUNK as u64) as usize];
        fill(offset, chunk);
        stream.write_all(chunk).await.unwrap();
        offset += chunk.len() as u64;
    }
}

/// Reads test bytes from offset 0 to the end of the stream, and returns how many there were.
pub(crate) async fn check(stream: &mut (impl AsyncRead + Unpin)) -> u64 {
    check_and_tell(stream, |_| {}).await
}

/// The same; `progress` is told how many bytes there have been so far.
pub(crate) async fn check_and_tell(
    stream: &mut (impl AsyncRead + Unpin),
    mut progress: impl FnMut(u64),
) -> u64 {
    let (mut read, mut expected) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut offset = 0;
    loop {
        let length = stream.read(&mut read).await.unwrap();
        if length == 0 {
            return offset;
        }
        fill(offset, &mut expected[..length]);
        assert!(
            read[..length] == expected[..length],
            "a byte between {offset} and {length} further is wrong"
        );
        offset += length as u64;
        progress(offset);
    }
}

#[test]
fn every_offset_gives_the_same_bytes() {
    let mut all = [0; 64];
    fill(0, &mut all);
    for from in 0..32 {
        for to in from..64 {
            let mut part = vec![0; to - from];
            fill(from as u64, &mut part);
            assert_eq!(part, all[from..to], "{from}..{to}");
        }
    }
}
