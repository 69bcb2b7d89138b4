//! Session tickets, 0-RTT and key updates over real sockets.

use std::time::Duration;

use mendpath::{Connection, ReadError, ServerConfig, WriteError};

use crate::common::{Pair, configs, echo, watchdog};

/// A question and its echo on a stream of its own.
async fn ask(connection: &Connection, question: &[u8]) {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(question).await.unwrap();
    send.finish().unwrap();
    assert_eq!(recv.read_to_end(1 << 20).await.unwrap(), question);
}

/// A server that takes early data and echoes at once, and a client that has been there.
async fn visited() -> (Pair, ServerConfig) {
    let (server, client) = configs();
    let server = server.early_data(true);
    let pair = Pair::with(server.clone(), client.early_data(true));
    let endpoint = pair.server.clone();
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            if let Ok((connection, _)) = incoming.accept().unwrap().into_0rtt() {
                tokio::spawn(echo(connection));
            }
        }
    });
    let first = pair.client.connect(pair.address(), "localhost").unwrap();
    let first = first.into_0rtt().expect_err("nothing is known about the server yet").await.unwrap();
    ask(&first, b"who are you?").await;
    assert!(!first.is_resumed());
    first.close(0u8.into(), b"");
    (pair, server)
}

#[tokio::test]
async fn the_second_visit_begins_with_data() {
    watchdog(async {
        let (pair, _) = visited().await;
        let (connection, accepted) =
            pair.client.connect(pair.address(), "localhost").unwrap().into_0rtt().unwrap();
        ask(&connection, b"early").await;
        assert!(accepted.await && connection.is_resumed());
        ask(&connection, b"late").await;
    })
    .await;
}

/// That of browsers, which offer keys against quantum computers, takes two packets.
#[tokio::test]
async fn a_server_reads_the_rest_of_a_long_hello_before_it_begins() {
    watchdog(async {
        let (server, client) = configs();
        let names = (0..200).map(|n| format!("protocol-{n}")).chain(["mendpath/1".to_owned()]);
        let pair = Pair::with(server, client.alpn(names));
        let connecting = pair.client.connect(pair.address(), "localhost").unwrap();
        let incoming = pair.server.accept().await.unwrap();
        // By then the rest has come.
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        tick.tick().await;
        tick.tick().await;
        let (served, complete) = incoming.accept().unwrap().into_0rtt().expect("all of it is there");
        tokio::spawn(echo(served));
        let connection = connecting.await.unwrap();
        ask(&connection, b"who are you?").await;
        assert!(complete.await);
    })
    .await;
}

#[tokio::test]
async fn streams_of_rejected_early_data_fail_and_new_ones_work() {
    watchdog(async {
        let (pair, server) = visited().await;
        // Tickets are for the configuration that gave them out.
        pair.server.set_server_config(Some(server.max_streams(100, 100)));
        let (connection, accepted) =
            pair.client.connect(pair.address(), "localhost").unwrap().into_0rtt().unwrap();
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(b"early").await.unwrap();
        assert!(!accepted.await && !connection.is_resumed());
        assert_eq!(send.write(b"more").await, Err(WriteError::ZeroRttRejected));
        assert_eq!(recv.read(&mut [0; 8]).await, Err(ReadError::ZeroRttRejected));
        let (mut again, mut answer) = connection.open_bi().await.unwrap();
        assert_eq!(again.id(), send.id(), "ids start over");
        drop((send, recv));
        again.write_all(b"again").await.unwrap();
        again.finish().unwrap();
        assert_eq!(answer.read_to_end(100).await.unwrap(), b"again");
    })
    .await;
}

#[tokio::test]
async fn keys_are_updated_on_request() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        tokio::spawn(echo(server));
        ask(&client, b"before").await;
        client.force_key_update();
        while client.stats().key_updates == 0 {
            ask(&client, b"during").await;
        }
        ask(&client, b"after").await;
    })
    .await;
}

#[tokio::test]
async fn tickets_are_good_with_a_configuration_for_each_client() {
    watchdog(async {
        let (server, client) = configs();
        let server = server.early_data(true);
        let pair = Pair::with(configs().0, client.early_data(true));
        let endpoint = pair.server.clone();
        tokio::spawn(async move {
            while let Some(incoming) = endpoint.accept().await {
                tokio::spawn(echo(incoming.accept_with(&server.clone()).unwrap().await.unwrap()));
            }
        });
        let first = pair.client.connect(pair.address(), "localhost").unwrap().await.unwrap();
        ask(&first, b"who are you?").await;
        first.close(0u8.into(), b"");
        let second = pair.client.connect(pair.address(), "localhost").unwrap();
        let (second, accepted) = second.into_0rtt().unwrap();
        ask(&second, b"early").await;
        assert!(accepted.await && second.is_resumed());
    })
    .await;
}
