//! Both ends of the lab's contender `mendpath-new`: a TCP connection is carried by a QUIC
//! connection of its own, whose set-up counts. It knows nothing of those before: the kernel's TCP
//! remembers nothing in the lab either. Without tokens and proxy protocol, so only for the lab's
//! namespaces.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use mendpath::{ClientConfig, Connection, Endpoint, Incoming, PathOptions, ServerConfig};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

use crate::{
    args::RelayArgs,
    descriptors,
    failure::{Failure, io_reason},
    identity::{CERTIFICATE_NAME, Identity},
    lab_end::{self, choice},
    protocol::CloseCode,
    server::Tally,
    splice::{Patience, splice_tcp},
};

/// Without a byte for this long, a connection is given up.
const IDLE: Duration = Duration::from_secs(60);
/// Connections at a time: of the fetches of a plan that begin together, and of the transfers beside them.
const MOST: usize = 2 * lab::MOST_AT_ONCE as usize;

/// Leads the first stream of each connection to `origin`; never returns but with a failure.
///
/// # Errors
/// When it cannot listen.
pub async fn server(
    listen: SocketAddr,
    origin: SocketAddr,
    admin: Option<SocketAddr>,
    args: &RelayArgs,
) -> Result<(), Failure> {
    let (endpoint, tally) = lab_end::listen(listen, admin, args, IDLE).await?;
    take(&endpoint, &tally, origin, args).await
}

async fn take(
    endpoint: &Endpoint,
    tally: &Arc<Tally>,
    origin: SocketAddr,
    args: &RelayArgs,
) -> Result<(), Failure> {
    let identity = Identity::load_or_create(&args.dir)?;
    let places = Arc::new(Semaphore::new(MOST));
    loop {
        // Made before anybody comes, so that it takes none of their time.
        let config = lab_end::server_config(&identity, args, IDLE)?;
        let Some(incoming) = endpoint.accept().await else { break };
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { break };
        let tally = Arc::clone(tally);
        tokio::spawn(async move {
            // What goes wrong shows at the client's end.
            let _ = serve(incoming, &config, origin, &tally).await;
            drop(place);
        });
    }
    Err(lab_end::closed())
}

async fn serve(
    incoming: Incoming,
    config: &ServerConfig,
    origin: SocketAddr,
    tally: &Arc<Tally>,
) -> Option<()> {
    let connection = incoming.accept_with(config).ok()?.await.ok()?;
    let _entry = tally.enter(&connection, None, &Arc::from("lab"));
    let (send, receive) = connection.accept_bi().await.ok()?;
    let tcp = TcpStream::connect(origin).await.ok()?;
    tcp.set_nodelay(true).ok()?;
    splice_tcp(tcp, (receive, send), Patience::with(IDLE), &()).await;
    connection.closed().await;
    Some(())
}

/// Carries each TCP connection over a connection of its own to `server`, over a path from each
/// local address; never returns but with a failure.
///
/// # Errors
/// When it cannot listen.
pub async fn client(
    listen: SocketAddr,
    server: SocketAddr,
    from: &[IpAddr],
    args: &RelayArgs,
) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::new("cannot serve the lab", io_reason(&error), "Report this");
    // The lab's own are for two sockets a fetch; here each path of each connection has one of its own, too.
    descriptors::raise_for_connections();
    let identity = Identity::load_or_create(&args.dir)?;
    let endpoint = Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0))).map_err(failed)?;
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let places = Arc::new(Semaphore::new(MOST));
    loop {
        let config = client_config(&identity, args);
        let (tcp, _) = listener.accept().await.map_err(failed)?;
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
        let (endpoint, from) = (endpoint.clone(), from.to_vec());
        tokio::spawn(async move {
            // A program whose connection cannot be carried sees it closed.
            let _ = carry(tcp, &endpoint, &config, server, &from).await;
            drop(place);
        });
    }
}

/// Of a connection that is the first one for all it knows.
fn client_config(identity: &Identity, args: &RelayArgs) -> ClientConfig {
    ClientConfig::with_pinned_key(identity.server.pin()).transport(choice(args).config(IDLE, 0))
}

async fn carry(
    tcp: TcpStream,
    endpoint: &Endpoint,
    config: &ClientConfig,
    server: SocketAddr,
    from: &[IpAddr],
) -> Option<()> {
    tcp.set_nodelay(true).ok()?;
    let connection = connect(endpoint, config, server, from).await?;
    let (send, receive) = connection.open_bi().await.ok()?;
    splice_tcp(tcp, (receive, send), Patience::with(IDLE), &()).await;
    connection.close(CloseCode::Done.into(), b"");
    Some(())
}

/// Connects over the path from the first address; the others follow.
async fn connect(
    endpoint: &Endpoint,
    config: &ClientConfig,
    server: SocketAddr,
    from: &[IpAddr],
) -> Option<Connection> {
    let (first, others) = from.split_first()?;
    let path = PathOptions::new().local_ip(*first);
    let connection = endpoint.connect_via(config, &path, server, CERTIFICATE_NAME).ok()?.await.ok()?;
    for address in others {
        let (connection, path) = (connection.clone(), PathOptions::new().local_ip(*address).remote(server));
        tokio::spawn(async move { connection.add_path(path).await });
    }
    Some(connection)
}

#[cfg(test)]
mod tests {
    use mendpath::{ControllerKind, RecoveryKind, SchedulerKind};
    use tokio::io::copy;

    use super::*;
    use crate::transport::REPAIR_SYMBOLS;

    fn args(folder: &tempfile::TempDir) -> RelayArgs {
        RelayArgs {
            dir: folder.path().to_owned(),
            recovery: RecoveryKind::default(),
            congestion: ControllerKind::Auto,
            scheduler: SchedulerKind::default(),
            repair_symbols: REPAIR_SYMBOLS,
        }
    }

    /// Who waits for a place seems to be slow, and behind transfers that go on never has one: he gives up.
    #[tokio::test]
    async fn a_crowd_has_its_places() {
        let folder = tempfile::tempdir().unwrap();
        let (args, local) = (args(&folder), IpAddr::from([127, 0, 0, 1]));
        let (endpoint, tally) = lab_end::listen((local, 0).into(), None, &args, IDLE).await.unwrap();
        let server = endpoint.local_addrs()[0];
        let crowd = async || {
            let config = client_config(&Identity::load_or_create(&args.dir).unwrap(), &args);
            let client = Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0))).unwrap();
            let mut crowd = Vec::new();
            while crowd.len() < 300 {
                crowd.push(connect(&client, &config, server, &[local]).await.unwrap());
            }
        };
        tokio::select! {
            // Nobody opens a stream, which would lead there.
            ended = take(&endpoint, &tally, server, &args) => panic!("{ended:?}"),
            () = crowd() => {}
        }
    }

    #[tokio::test]
    async fn no_connection_knows_of_those_before() {
        let folder = tempfile::tempdir().unwrap();
        let args = args(&folder);
        let local = IpAddr::from([127, 0, 0, 1]);
        let origin = TcpListener::bind((local, 0)).await.unwrap();
        let place = origin.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut tcp, _)) = origin.accept().await {
                let (mut read, mut write) = tcp.split();
                let _ = copy(&mut read, &mut write).await;
            }
        });
        let (endpoint, tally) = lab_end::listen((local, 0).into(), None, &args, IDLE).await.unwrap();
        let server = endpoint.local_addrs()[0];
        let fetch = async || {
            let identity = Identity::load_or_create(&args.dir).unwrap();
            let client = Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0))).unwrap();
            // The server's end knows no session of a client that keeps what it is given, either.
            let kept = client_config(&identity, &args);
            for config in [kept.clone(), kept, client_config(&identity, &args)] {
                let connection = connect(&client, &config, server, &[local]).await.unwrap();
                let (mut send, mut receive) = connection.open_bi().await.unwrap();
                send.write_all(b"what was sent").await.unwrap();
                send.finish().unwrap();
                assert_eq!(receive.read_to_end(100).await.unwrap(), b"what was sent");
                assert!(!connection.is_resumed());
                connection.close(CloseCode::Done.into(), b"");
            }
        };
        tokio::select! {
            ended = take(&endpoint, &tally, place, &args) => panic!("{ended:?}"),
            () = fetch() => {}
        }
    }
}
