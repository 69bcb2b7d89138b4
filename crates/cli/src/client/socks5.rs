//! The SOCKS5 front end (RFC 1928, RFC 1929): CONNECT and UDP ASSOCIATE.

use std::{net::SocketAddr, sync::Arc};

use fast_socks5::{
    ReplyError, Socks5Command,
    server::{Socks5ServerProtocol, SocksServerError, states::CommandRead},
    util::target_addr::TargetAddr,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tracing::debug;

use super::{
    Credentials, HANDSHAKE_TIMEOUT, Shared, socks5_udp,
    tunnel::{self, Tunnel},
};
use crate::{
    listener::Place,
    protocol::Reply,
    splice::linger,
    status::Protocol,
    target::{Host, Target, is_name},
};

/// A program that has said what it wants and waits for the answer.
pub(super) type Waiting<S> = Socks5ServerProtocol<S, CommandRead>;

/// Where the proxied connection comes from is not told: it would be an address of the server.
const UNSPECIFIED: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// Serves one connection to the proxy. Who is not connected hears why, also if it has said already what was
/// for the host.
pub(crate) async fn serve(mut tcp: TcpStream, place: Place, shared: Arc<Shared>) {
    let (Ok(local), Ok(program)) = (tcp.local_addr(), tcp.peer_addr()) else { return };
    let credentials = shared.credentials();
    let greeted = tokio::time::timeout(HANDSHAKE_TIMEOUT, greet(&mut tcp, credentials.as_ref())).await;
    let (waiting, command, address) = match greeted {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(error)) => {
            debug!(%program, %error, "not SOCKS5, or not let in");
            return linger(tcp).await;
        }
        Err(_) => return debug!(%program, "the SOCKS5 handshake took too long"),
    };
    place.occupy().await;
    let tunnel = match command {
        Socks5Command::TCPConnect => connect(waiting, address, &shared).await,
        Socks5Command::UDPAssociate => {
            socks5_udp::serve(waiting, local, program, &shared).await;
            None
        }
        Socks5Command::TCPBind => {
            refuse(waiting, ReplyError::CommandNotSupported).await;
            None
        }
    };
    match tunnel {
        Some(tunnel) => tunnel.carry(tcp).await,
        None => {
            // It has got all that it will get, and others may wait for its seat.
            place.vacate();
            linger(tcp).await;
        }
    }
}

pub(super) async fn greet<S: AsyncRead + AsyncWrite + Unpin>(
    tcp: S,
    credentials: Option<&Credentials>,
) -> Result<(Waiting<S>, Socks5Command, TargetAddr), SocksServerError> {
    let authenticated = match credentials {
        None => Socks5ServerProtocol::accept_no_auth(tcp).await?,
        Some(credentials) => {
            let check = |user: String, password: String| credentials.match_pair(&user, &password);
            Socks5ServerProtocol::accept_password_auth(tcp, check).await?.0
        }
    };
    authenticated.read_command().await
}

/// What the program is connected with from now on; `None` if it was refused, or is gone.
async fn connect(waiting: Waiting<&mut TcpStream>, address: TargetAddr, shared: &Shared) -> Option<Tunnel> {
    let Some(target) = target_of(address) else {
        refuse(waiting, ReplyError::AddressTypeNotSupported).await;
        return None;
    };
    match tunnel::open(shared, Protocol::Socks5, target, &[]).await {
        Ok(tunnel) => waiting.reply_success(UNSPECIFIED).await.ok().map(|_| tunnel),
        Err(reply) => {
            refuse(waiting, reply_error(&reply)).await;
            None
        }
    }
}

/// `None` for names that no resolver takes.
pub(super) fn target_of(address: TargetAddr) -> Option<Target> {
    match address {
        TargetAddr::Ip(address) => Some(Target::from_addr(address)),
        TargetAddr::Domain(name, port) => {
            // Some programs send literal addresses as names.
            let host = match name.parse() {
                Ok(ip) => Host::Ip(ip),
                Err(_) if is_name(&name) => Host::Name(name),
                Err(_) => return None,
            };
            Some(Target { host, port })
        }
    }
}

pub(super) async fn refuse(waiting: Waiting<&mut TcpStream>, error: ReplyError) {
    let _ = waiting.reply_error(&error).await;
}

/// The server's answer in SOCKS5's words.
pub(super) fn reply_error(reply: &Reply) -> ReplyError {
    ReplyError::from_u8(reply.status.socks5())
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{OnceLock, RwLock},
        time::Duration,
    };

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        time::timeout,
    };

    use super::*;
    use crate::{client::Uplink, protocol::Status};

    /// It is waited for until it has read the answer, and goes when it likes.
    #[tokio::test]
    async fn who_is_refused_keeps_nobody_from_a_seat() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut program = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (tcp, _) = listener.accept().await.unwrap();
        let (place, _send_away) = Place::alone();
        let other = place.beside();
        let (credentials, tun) = (RwLock::default(), OnceLock::default());
        let uplink = Uplink::without_server();
        let shared = Shared { uplink, credentials, answers: Arc::default(), tun };
        let served = tokio::spawn(serve(tcp, place, Arc::new(shared)));
        // BIND, which there is not.
        program.write_all(&[5, 1, 0, 5, 2, 0, 1, 127, 0, 0, 1, 0, 80]).await.unwrap();
        let mut answer = Vec::new();
        program.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer[..4], [5, 0, 5, 7]);
        timeout(Duration::ZERO, other.occupy()).await.expect("the only seat is free");
        drop(program);
        served.await.unwrap();
    }

    #[test]
    fn answers_keep_their_meaning() {
        for (status, code) in
            [(Status::Forbidden, 2), (Status::Refused, 5), (Status::TimedOut, 4), (Status::Unsupported, 7)]
        {
            assert_eq!(reply_error(&Reply::new(status, "")).as_u8(), code);
        }
    }

    #[test]
    fn literal_addresses_in_names_are_addresses() {
        let target =
            |name: &str| target_of(TargetAddr::Domain(name.into(), 80)).map(|target| target.to_string());
        assert_eq!(target("192.0.2.1").as_deref(), Some("192.0.2.1:80"));
        assert_eq!(target("2001:db8::1").as_deref(), Some("[2001:db8::1]:80"));
        assert_eq!(target("example.org").as_deref(), Some("example.org:80"));
        assert_eq!(target("exa\nmple"), None);
    }
}
