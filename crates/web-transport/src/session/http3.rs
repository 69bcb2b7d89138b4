//! Sessions over HTTP/3 (draft-ietf-webtrans-http3), one to a connection: what a browser's
//! `new WebTransport(...)` opens.
//!
//! The connection's application protocol is [`ALPN`]; its SETTINGS and the CONNECT are those of
//! the crate `web-transport-proto`, which browsers of all drafts in use get along with. A
//! connection carries one session and nothing else: ordinary requests on it are reset with
//! `H3_REQUEST_REJECTED`.

mod accept;
mod capsules;
mod handshake;
mod rules;
mod source;

use std::{
    pin::pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use mendpath::{Connection, VarInt};
use tokio::task::AbortHandle;
use web_transport_proto::{Capsule, Frame, StreamUni};

pub(crate) use accept::Accepting;
use capsules::Ended;
use handshake::Control;
pub use handshake::{HandshakeError, Request, connect};
use rules::{Broken, DATAGRAM_ERROR};
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

/// H3_REQUEST_REJECTED.
const REQUEST_REJECTED: VarInt = VarInt::from_u32(0x10b);
/// WT_BUFFERED_STREAM_REJECTED.
const STREAM_REJECTED: VarInt = VarInt::from_u32(0x3994_bd84);

/// What is particular to a session over HTTP/3.
pub(crate) struct Http3 {
    /// The id of the stream of the CONNECT, which is the session's.
    id: u64,
    protocol: Option<String>,
    /// Where capsules are written, until the session ends.
    connect: Mutex<Option<mendpath::SendStream>>,
    connection: Connection,
    /// The control stream, which must stay open.
    _control: mendpath::SendStream,
    /// Hears what the peer says, and ends with the session's last handle.
    listening: OnceLock<AbortHandle>,
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
    pub(crate) fn in_datagram(&self, mut data: Bytes) -> Result<Option<Bytes>, Broken> {
        let quarter = web_transport_proto::VarInt::decode(&mut data).map(|quarter| quarter.into_inner());
        match quarter {
            Ok(quarter) if quarter >> 60 == 0 => Ok((quarter == self.id / 4).then_some(data)),
            _ => Err(Broken(DATAGRAM_ERROR, "a datagram that cannot be of a session")),
        }
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
        // Before the control stream: its end would be an error.
        self.connection.close(NO_ERROR, b"");
        if let Some(listening) = self.listening.get() {
            listening.abort();
        }
    }
}

/// A session whose CONNECT was answered with 200.
fn session(
    connection: Connection,
    control: Control,
    connect: (mendpath::SendStream, mendpath::RecvStream),
    protocol: Option<String>,
) -> Session {
    let Control { send: sending, recv: control, early } = control;
    let (connect, capsules) = connect;
    let http3 = Http3 {
        id: connect.id().0,
        protocol,
        connect: Mutex::new(Some(connect)),
        connection: connection.clone(),
        _control: sending,
        listening: OnceLock::new(),
    };
    let (accepting, sorting) = Accepting::new(connection.clone(), http3.id, control, early);
    let session = Session::new(connection.clone(), Link::http3(http3)).accepting(accepting);
    let link = Arc::downgrade(session.link());
    let listening = tokio::spawn(async move {
        // Kept until the connection is closed: with it goes the peer's control stream, and who hears first
        // that nobody reads that takes it for an error (RFC 9114 section 6.2.1).
        let mut sorting = pin!(sorting);
        let ended = tokio::select! {
            Err(broken) = &mut sorting => Ended::Broken(broken),
            ended = capsules::last_words(capsules) => ended,
        };
        if let Some(link) = link.upgrade() {
            end(&connection, &link, ended);
        }
    });
    if let Some(http3) = session.link().of_http3() {
        let _ = http3.listening.set(listening.abort_handle());
    }
    session
}

/// Ends the session as the peer has, and the connection with it.
pub(crate) fn end(connection: &Connection, link: &Link, ended: Ended) {
    let (end, code, words) = match ended {
        Ended::Closed(code, words) => {
            (SessionError::Closed { code, reason: words.clone() }, Codes::Http3.encode(code), words)
        }
        Ended::Broken(Broken(code, what)) => (SessionError::Violation(what), code, what.to_owned()),
        Ended::Gone => match connection.close_reason() {
            // Nobody ended the session: the connection is gone.
            Some(lost) => {
                link.end(SessionError::of_connection(lost, Codes::Http3));
                return;
            }
            None => (SessionError::Closed { code: 0, reason: String::new() }, NO_ERROR, String::new()),
        },
    };
    if link.end(end) {
        connection.close(code, words.as_bytes());
    } else {
        // Both ends closed it; whoever was first is waited for no longer.
        connection.close(NO_ERROR, b"");
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
