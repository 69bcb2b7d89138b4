//! A server whose answers are the test's to give.

use std::collections::VecDeque;

use mendpath::{Connection, RecvStream, SendStream};
use mendpath_cli::{
    client::{Addresses, ClientOptions},
    destination::DestinationPolicy::AllowPrivate,
    protocol::{MAX_MESSAGE, Reply, read_frame, write_frame},
    server::ProxyServer,
};

use super::{client, client_options, server_options};

/// Its connection with a client, and the requests that wait for an answer.
pub struct Hand {
    pub connection: Connection,
    pub control: (SendStream, RecvStream),
    pub asked: VecDeque<(SendStream, RecvStream)>,
}

impl Hand {
    /// With a client that has been let in, and to whose options `change` is made.
    pub async fn start(change: impl FnOnce(&mut ClientOptions)) -> (Self, Addresses) {
        let state = tempfile::tempdir().unwrap();
        let server = ProxyServer::bind(&server_options(state.path(), AllowPrivate)).unwrap();
        let mut options = client_options(server.invitation().clone());
        change(&mut options);
        let accepting = async {
            let connection = server.endpoint().accept().await.unwrap().await.unwrap();
            let mut control = connection.accept_bi().await.unwrap();
            read_frame(&mut control.1, MAX_MESSAGE).await.unwrap();
            connection.admit();
            write_frame(&mut control.0, &Reply::ok().encode()).await.unwrap();
            Self { connection, control, asked: VecDeque::new() }
        };
        tokio::join!(accepting, client(options))
    }

    /// The next request.
    pub async fn hear(&mut self) {
        let (send, mut receive) = self.connection.accept_bi().await.unwrap();
        read_frame(&mut receive, MAX_MESSAGE).await.unwrap();
        self.asked.push_back((send, receive));
    }

    /// Answers the oldest request.
    pub async fn answer(&mut self, reply: Reply) -> (SendStream, RecvStream) {
        let (mut send, receive) = self.asked.pop_front().unwrap();
        write_frame(&mut send, &reply.encode()).await.unwrap();
        (send, receive)
    }

    /// Hears a request and answers it.
    pub async fn grant(&mut self) -> (SendStream, RecvStream) {
        self.hear().await;
        self.answer(Reply::ok()).await
    }
}
