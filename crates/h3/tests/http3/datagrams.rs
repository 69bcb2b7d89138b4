//! Datagrams of HTTP/3.

use bytes::{Buf, Bytes};
use h3_datagram::datagram_handler::HandleDatagramsExt;
use mendpath_h3::Connection;

use crate::common::{Pair, get, watchdog};

#[tokio::test]
async fn datagrams_belong_to_a_request() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let serving = tokio::spawn(async move {
            let mut accepted = h3::server::builder()
                .enable_datagram(true)
                .build::<_, Bytes>(Connection::new(server))
                .await
                .unwrap();
            let resolver = accepted.accept().await.unwrap().unwrap();
            let (_, stream) = resolver.resolve_request().await.unwrap();
            let mut reader = accepted.get_datagram_reader();
            let mut sender = accepted.get_datagram_sender(stream.id());
            let datagram = reader.read_datagram().await.unwrap();
            assert_eq!(datagram.stream_id(), stream.id());
            let mut payload = datagram.into_payload();
            sender.send_datagram(payload.copy_to_bytes(payload.remaining())).unwrap();
            (stream, accepted, reader.read_datagram().await.is_err())
        });
        let (driver, mut requests) = h3::client::builder()
            .enable_datagram(true)
            .build::<_, _, Bytes>(Connection::new(client.clone()))
            .await
            .unwrap();
        let stream = requests.send_request(get("/")).await.unwrap();
        let mut reader = driver.get_datagram_reader();
        let mut sender = driver.get_datagram_sender(stream.id());
        let too_large = sender.send_datagram(Bytes::from(vec![0; 70_000]));
        assert!(too_large.is_err());
        sender.send_datagram(Bytes::from_static(b"ping")).unwrap();
        let datagram = reader.read_datagram().await.unwrap();
        assert_eq!(datagram.stream_id(), stream.id());
        assert_eq!(datagram.payload().chunk(), b"ping");
        // The handles of datagrams hold the connection open.
        client.close(0_u32.into(), b"");
        let (_stream, _accepted, ended) = serving.await.unwrap();
        assert!(ended, "the end of the connection is told");
    })
    .await;
}
