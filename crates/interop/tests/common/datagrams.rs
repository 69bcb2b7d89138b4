//! Unreliable datagrams (RFC 9221).

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{Pair, both_roles};
use crate::stack;

both_roles!(datagrams_each_way, a_datagram_that_is_too_long);

/// Few enough that no buffer on the way is full: none is lost on loopback.
const COUNT: usize = 50;

async fn datagrams_each_way(pair: Pair) {
    let size = |max: usize, index: usize| if index == 0 { max } else { 2 + index };
    let max = pair.ours.max_datagram_size().unwrap().min(pair.theirs.max_datagram_size().unwrap());
    let all: BTreeSet<Vec<u8>> = (0..COUNT).map(|index| vec![index as u8; size(max, index)]).collect();
    for data in &all {
        pair.ours.send_datagram(data.clone().into()).unwrap();
        pair.theirs.send_datagram(data.clone().into()).unwrap();
    }
    let (mut here, mut there) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..COUNT {
        here.insert(pair.ours.read_datagram().await.unwrap().to_vec());
        there.insert(pair.theirs.read_datagram().await.unwrap().to_vec());
    }
    assert!(here == all && there == all, "what was sent is what arrives, each once");
}

async fn a_datagram_that_is_too_long(pair: Pair) {
    let long = Bytes::from(vec![0; 70_000]);
    let ours = pair.ours.send_datagram(long.clone()).unwrap_err();
    assert!(matches!(ours, mendpath::SendDatagramError::TooLarge { .. }), "{ours}");
    let theirs = pair.theirs.send_datagram(long).unwrap_err();
    assert!(matches!(theirs, stack::SendDatagramError::TooLarge), "{theirs}");
}
