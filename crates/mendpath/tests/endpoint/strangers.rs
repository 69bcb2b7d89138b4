//! What endpoints tell clients they do not know, over real sockets.

use mendpath::{AddressValidation, ConnectionError, Endpoint, ResetKey};

use crate::common::{LOOPBACK, Pair, configs, watchdog};

#[tokio::test]
async fn retry_is_invisible_to_applications_and_tokens_spare_it() {
    watchdog(async {
        let (server, client) = configs();
        let pair = Pair::with(server.address_validation(AddressValidation::Always), client);
        let (connection, _server_side) = pair.connect().await;
        assert_eq!(pair.server.stats().retries_sent, 1);
        // An exchange, so that NEW_TOKEN has come; it travels before anything on a stream.
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        send.write_all(b"?").await.unwrap();
        let (mut answer, _question) = _server_side.accept_bi().await.unwrap();
        answer.write_all(b"!").await.unwrap();
        assert_eq!(receive.read(&mut [0; 1]).await.unwrap(), Some(1));
        let _second = pair.connect().await;
        let stats = pair.server.stats();
        assert_eq!((stats.retries_sent, stats.accepted), (1, 2));
    })
    .await;
}

/// The server's process dies without a word and another takes its place.
#[test]
fn a_restarted_server_resets_its_old_clients() {
    let (server_config, client_config) = configs();
    let key = ResetKey::new([7; 32]);
    let start = |address| {
        let builder = Endpoint::builder().server(server_config.clone()).reset_key(key.clone());
        builder.bind(address).build().unwrap()
    };
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first_life, second_life, clients) = (runtime(), runtime(), runtime());

    let server = first_life.block_on(async { start(LOOPBACK) });
    let address = server.local_addrs()[0];
    let accepting = server.clone();
    first_life.spawn(async move {
        let connection = accepting.accept().await.unwrap().await.unwrap();
        connection.closed().await
    });
    let (_client, connection) = clients.block_on(watchdog(async {
        let client = Endpoint::builder().bind(LOOPBACK).client(client_config).build().unwrap();
        let connection = client.connect(address, "localhost").unwrap().await.unwrap();
        (client, connection)
    }));

    drop(server);
    first_life.shutdown_timeout(std::time::Duration::from_secs(10));
    let server = second_life.block_on(async { start(address) });
    let lost = clients.block_on(watchdog(async {
        // A packet of the first life that nobody acknowledged may have asked already.
        if let Ok(mut send) = connection.open_uni().await {
            let _ = send.write_all(b"still there?").await;
        }
        connection.closed().await
    }));
    assert_eq!(lost, ConnectionError::Reset);
    assert!(server.stats().resets_sent > 0);
}
