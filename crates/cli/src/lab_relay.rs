//! Both ends of the lab's contender `mendpath-new`: a TCP connection is carried by a QUIC
//! connection of its own, whose set-up counts. Without tokens and proxy protocol, so only for the
//! lab's namespaces.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use mendpath::{ClientConfig, Endpoint, Incoming, PathOptions};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

use crate::{
    args::RelayArgs,
    failure::{Failure, io_reason},
    identity::{CERTIFICATE_NAME, Identity},
    lab_end::{self, choice},
    protocol::CloseCode,
    server::Tally,
    splice::{Patience, splice_tcp},
};

/// Without a byte for this long, a connection is given up.
const IDLE: Duration = Duration::from_secs(60);
/// Connections at a time; more have to wait.
const MOST: usize = 256;

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
    let places = Arc::new(Semaphore::new(MOST));
    while let Some(incoming) = endpoint.accept().await {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { break };
        let tally = Arc::clone(&tally);
        tokio::spawn(async move {
            // What goes wrong shows at the client's end.
            let _ = serve(incoming, origin, &tally).await;
            drop(place);
        });
    }
    Err(lab_end::closed())
}

async fn serve(incoming: Incoming, origin: SocketAddr, tally: &Arc<Tally>) -> Option<()> {
    let connection = incoming.await.ok()?;
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
    let identity = Identity::load_or_create(&args.dir)?;
    let config = ClientConfig::with_pinned_key(identity.server.pin()).transport(choice(args).config(IDLE, 0));
    let endpoint = Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0))).map_err(failed)?;
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let places = Arc::new(Semaphore::new(MOST));
    loop {
        let (tcp, _) = listener.accept().await.map_err(failed)?;
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
        let (endpoint, config, from) = (endpoint.clone(), config.clone(), from.to_vec());
        tokio::spawn(async move {
            // A program whose connection cannot be carried sees it closed.
            let _ = carry(tcp, &endpoint, &config, server, &from).await;
            drop(place);
        });
    }
}

async fn carry(
    tcp: TcpStream,
    endpoint: &Endpoint,
    config: &ClientConfig,
    server: SocketAddr,
    from: &[IpAddr],
) -> Option<()> {
    tcp.set_nodelay(true).ok()?;
    let (first, others) = from.split_first()?;
    let path = PathOptions::new().local_ip(*first);
    let connection = endpoint.connect_via(config, &path, server, CERTIFICATE_NAME).ok()?.await.ok()?;
    for address in others {
        let (connection, path) = (connection.clone(), PathOptions::new().local_ip(*address).remote(server));
        tokio::spawn(async move { connection.add_path(path).await });
    }
    let (send, receive) = connection.open_bi().await.ok()?;
    splice_tcp(tcp, (receive, send), Patience::with(IDLE), &()).await;
    connection.close(CloseCode::Done.into(), b"");
    Some(())
}
