//! Bulk and many small streams, in both directions.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::JoinSet,
};

use super::{Pair, Streams, both_roles, check, echo, write};
use crate::BULK;

both_roles!(bulk_each_way, a_thousand_small_streams);

/// Both directions at once.
async fn bulk_each_way(pair: Pair) {
    let (ours, theirs) = (pair.ours.clone(), pair.theirs.clone());
    let up = tokio::spawn(send(ours.clone(), theirs.clone()));
    let down = tokio::spawn(send(theirs, ours));
    assert_eq!(up.await.unwrap(), BULK);
    assert_eq!(down.await.unwrap(), BULK);
}

/// Returns how many bytes arrived in order.
async fn send(from: impl Streams, to: impl Streams) -> u64 {
    let receiver = tokio::spawn(async move { check(&mut to.accept_uni().await.unwrap()).await });
    let mut stream = from.open_uni().await.unwrap();
    write(&mut stream, 0, BULK).await;
    stream.shutdown().await.unwrap();
    receiver.await.unwrap()
}

/// All at once, far more than either side permits at a time: opening waits for credit.
async fn a_thousand_small_streams(pair: Pair) {
    tokio::spawn(echo(pair.ours.clone()));
    tokio::spawn(echo(pair.theirs.clone()));
    requests(pair.ours.clone()).await;
    requests(pair.theirs.clone()).await;
}

async fn requests(connection: impl Streams) {
    let mut tasks = JoinSet::new();
    for index in 0..1_000_u32 {
        let connection = connection.clone();
        tasks.spawn(async move {
            let (mut send, mut recv) = connection.open_bi().await.unwrap();
            let request: Vec<u8> = index.to_be_bytes().repeat(index as usize % 60);
            send.write_all(&request).await.unwrap();
            send.shutdown().await.unwrap();
            let mut answer = Vec::new();
            recv.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, request);
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}
