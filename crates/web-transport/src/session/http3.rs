//! Sessions over HTTP/3 (draft-ietf-webtrans-http3), one to a connection: what a browser's
//! `new WebTransport(...)` opens.
//!
//! The connection's application protocol is [`ALPN`]; its SETTINGS and the CONNECT are those of
//! the crate `web-transport-proto`, which browsers of all drafts in use get along with. A
//! connection carries one session and nothing else: ordinary requests on it are reset with
//! `H3_REQUEST_REJECTED`.

mod accept;
mod handshake;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use mendpath::{Connection, VarInt};
use tokio::{io::AsyncReadExt, task::AbortHandle};
use web_transport_proto::{Capsule, Frame, Http3CapsuleReader, StreamUni};

pub(crate) use accept::Accepting;
use handshake::Control;
pub use handshake::{HandshakeError, Request, connect};
pub use web_transport_proto::{ConnectRequest, ConnectResponse};

use crate::{
    SessionError,
    codes::{Codes, NO_ERROR},
    session::{Dir, Link, Session},
};

/// The application protocol of HTTP/3.
pub const ALPN: &[u8] = b"h3";

/// How long the peer may take to close the connection once it was told that the session ends.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// The bytes of capsules that are read, in the whole life of a session: the reader keeps what it
/// cannot make anything of yet. Beyond, the session is over.
const MAX_CAPSULES: u64 = 64 << 10;

/// H3_REQUEST_REJECTED.
const REQUEST_REJECTED: VarInt = VarInt::from_u32(0x10b);

/// What is particular to a session over HTTP/3.
pub(crate) struct Http3 {
    /// The id of the stream of the CONNECT, which is the session's.
    id: u64,
    protocol: Option<String>,
    /// Where capsules are written, until the session ends.
    connect: Mutex<Option<mendpath::SendStream>>,
    /// The control streams, which must stay open.
    _control: (mendpath::SendStream, tokio::task::JoinHandle<()>),
    /// What runs beside the session, and ends with its last handle.
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Http3 {
    pub(crate) fn protocol(&self) -> Option<&str> {
        self.protocol.as_deref()
    }

    /// What tells whose stream it is (section 4.1 and 4.2).
    pub(crate) fn before_streams(&self, dir: Dir) -> Bytes {
        let mut words = Vec::new();
        match dir {
            Dir::Uni => StreamUni::WEBTRANSPORT.encode(&mut words),
            Dir::Bi => Frame::WEBTRANSPORT.encode(&mut words),
        }
        encode(self.id, &mut words);
        words.into()
    }

    /// The quarter of the stream's id (RFC 9297 section 2.1).
    pub(crate) fn before_datagrams(&self) -> Bytes {
        let mut words = Vec::new();
        encode(self.id / 4, &mut words);
        words.into()
    }

    /// What follows that in a datagram of this session, however many bytes the peer writes it in
    /// (RFC 9000 section 16).
    pub(crate) fn in_datagram(&self, mut data: Bytes) -> Option<Bytes> {
        let quarter = web_transport_proto::VarInt::decode(&mut data).ok()?;
        (quarter.into_inner() == self.id / 4).then_some(data)
    }

    /// Says so in a capsule (section 6), and closes the connection when the peer does, or does not.
    pub(crate) fn close(&self, connection: &Connection, link: &Arc<Link>, code: u32, reason: &str) {
        if !link.end(SessionError::Connection(mendpath::ConnectionError::LocallyClosed)) {
            return;
        }
        let mut connect = self.connect.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Kept to the end, as the control stream is in it: a peer that sees that close first takes
        // it for an error of the connection (RFC 9114 section 6.2.1).
        let link = link.clone();
        let (connection, reason) = (connection.clone(), reason.to_owned());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            connection.close(Codes::Http3.encode(code), reason.as_bytes());
            // Not before: its reset would be an end with code 0.
            return drop(connect);
        };
        runtime.spawn(async move {
            let capsule = frame(&Capsule::CloseWebTransportSession { code, reason: reason.clone() });
            let say = async {
                let connect = connect.as_mut()?;
                connect.write_all(&capsule).await.ok()?;
                connect.finish().ok()?;
                Some(connection.closed().await)
            };
            let _ = tokio::time::timeout(LAST_WORDS, say).await;
            connection.close(Codes::Http3.encode(code), reason.as_bytes());
            drop(link);
        });
    }
}

impl Drop for Http3 {
    fn drop(&mut self) {
        self._control.1.abort();
        let tasks = std::mem::take(self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner));
        tasks.iter().for_each(AbortHandle::abort);
    }
}

/// A session whose CONNECT was answered with 200.
fn session(
    connection: Connection,
    control: Control,
    connect: (mendpath::SendStream, mendpath::RecvStream),
    protocol: Option<String>,
) -> Session {
    let Control { send: sending, recv: mut control, early } = control;
    let (connect, capsules) = connect;
    let http3 = Http3 {
        id: connect.id().0,
        protocol,
        connect: Mutex::new(Some(connect)),
        // Nothing that follows the settings matters to one session: read, and forgotten.
        _control: (
            sending,
            tokio::spawn(async move { while let Ok(Some(_)) = control.read_chunk(usize::MAX).await {} }),
        ),
        tasks: Mutex::default(),
    };
    let (accepting, sorting) = Accepting::new(connection.clone(), http3.id, early);
    let session = Session::new(connection.clone(), Link::http3(http3)).accepting(accepting);
    let link = Arc::downgrade(session.link());
    let tasks = [
        tokio::spawn(sorting).abort_handle(),
        tokio::spawn(async move {
            let end = last_words(capsules).await;
            let (code, reason) = match &end {
                Some((code, reason)) => (Codes::Http3.encode(*code), reason.clone()),
                None => (NO_ERROR, String::new()),
            };
            let Some(link) = link.upgrade() else { return };
            if end.is_none()
                && let Some(lost) = connection.close_reason()
            {
                // Nobody ended the session: the connection is gone.
                link.end(SessionError::of_connection(lost, Codes::Http3));
                return;
            }
            // Without a capsule it is the same as code 0 without words (section 6).
            let (said, words) = end.unwrap_or_default();
            if link.end(SessionError::Closed { code: said, reason: words }) {
                connection.close(code, reason.as_bytes());
            } else {
                // Both ends closed it; whoever was first is waited for no longer.
                connection.close(NO_ERROR, b"");
            }
        })
        .abort_handle(),
    ];
    if let Some(http3) = session.link().of_http3() {
        http3.tasks.lock().unwrap_or_else(PoisonError::into_inner).extend(tasks);
    }
    session
}

/// Reads the capsules of the CONNECT's stream until it ends: the code and words of the one that
/// closes the session, if there was one.
async fn last_words(capsules: mendpath::RecvStream) -> Option<(u32, String)> {
    let mut reader = Http3CapsuleReader::new(capsules.take(MAX_CAPSULES));
    loop {
        match reader.read().await {
            Ok(Some(Capsule::CloseWebTransportSession { code, reason })) => return Some((code, reason)),
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(error) => {
                tracing::debug!(%error, "capsules end");
                return None;
            }
        }
    }
}

/// A capsule in a DATA frame (RFC 9297 section 3.2).
fn frame(capsule: &Capsule) -> Vec<u8> {
    let mut payload = Vec::new();
    capsule.encode(&mut payload);
    let mut words = Vec::new();
    Frame::DATA.encode(&mut words);
    encode(payload.len() as u64, &mut words);
    words.extend(payload);
    words
}

fn encode(value: u64, words: &mut Vec<u8>) {
    web_transport_proto::VarInt::from_u64(value).expect("below 2^62, as ids of streams are").encode(words);
}
