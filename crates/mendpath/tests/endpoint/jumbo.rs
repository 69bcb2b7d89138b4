//! Datagrams as large as loopback carries.

use mendpath::{Connection, PathOptions, PathState, TransportConfig};

use crate::common::{LOOPBACK, Pair, check_pattern, configs, watchdog, write_pattern};

const LENGTH: u64 = 2 << 20;

/// Moves bytes from the client to the server.
async fn transfer(client: &Connection, server: &Connection) {
    let mut send = client.open_uni().await.unwrap();
    let write = async {
        write_pattern(&mut send, 0, LENGTH).await;
        send.finish().unwrap();
    };
    let read = async { check_pattern(&mut server.accept_uni().await.unwrap(), 0).await };
    let ((), length) = tokio::join!(write, read);
    assert_eq!(length, LENGTH);
}

fn mtu(connection: &Connection) -> u16 {
    connection.path_stats().iter().find(|path| path.state == PathState::Active).unwrap().mtu
}

/// Asks the operating system, and believes what gets through. A connection that has lost something
/// does not ask: then the next one does.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_over_loopback_uses_its_large_packets() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = loop {
            let (client, server) = pair.connect().await;
            transfer(&client, &server).await;
            transfer(&client, &server).await;
            if mtu(&client) > 1_452 {
                break (client, server);
            }
        };
        assert_eq!(mtu(&client), TransportConfig::default().jumbo_datagram_size);
        transfer(&client, &server).await;
        // A path more: what one carries must fit the other.
        client.add_path(PathOptions::new().local(LOOPBACK)).await.unwrap();
        assert!(client.path_stats().iter().all(|path| path.mtu <= 1_452));
        transfer(&client, &server).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_but_the_usual_size_if_so_configured() {
    watchdog(async {
        let (server, mut client) = configs();
        client.transport_mut().jumbo_datagram_size = 0;
        let pair = Pair::with(server, client);
        let (client, server) = pair.connect().await;
        for _ in 0..3 {
            transfer(&client, &server).await;
            assert!(mtu(&client) <= 1_452);
        }
    })
    .await;
}
