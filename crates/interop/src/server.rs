//! The server: files of a directory, one per stream.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use mendpath::{AddressValidation, Connection, Endpoint, Incoming, RecvStream, SendStream, ServerConfig};
use tracing::{debug, info};

use crate::{Failure, ServerArgs, hq, tls};

/// A bound server.
pub(crate) struct Server {
    endpoint: Endpoint,
    root: Arc<Path>,
}

impl Server {
    /// Binds the sockets, and prints their addresses.
    pub(crate) fn start(args: &ServerArgs) -> Result<Self, Failure> {
        let root: PathBuf =
            args.root.canonicalize().map_err(|source| Failure::File { path: args.root.clone(), source })?;
        let validation = if args.retry { AddressValidation::Always } else { AddressValidation::default() };
        let config =
            ServerConfig::with_tls(tls::server(args)?).early_data(true).address_validation(validation);
        let mut builder = Endpoint::builder().server(config);
        for &local in &args.listen {
            builder = builder.bind(local);
        }
        let endpoint = builder.build().map_err(Failure::Bind)?;
        for local in endpoint.local_addrs() {
            println!("listening on {local}");
        }
        Ok(Self { endpoint, root: root.into() })
    }

    /// Until the endpoint is closed.
    pub(crate) async fn serve(self) -> Result<(), Failure> {
        while let Some(incoming) = self.endpoint.accept().await {
            tokio::spawn(connection(incoming, self.root.clone()));
        }
        Ok(())
    }
}

async fn connection(incoming: Incoming, root: Arc<Path>) {
    let remote = incoming.remote_address();
    let connection = match incoming.await {
        Ok(connection) => connection,
        Err(error) => return info!(%remote, %error, "no connection"),
    };
    info!(%remote, multipath = connection.multipath_negotiated(), "connected");
    let error = requests(&connection, &root).await;
    info!(%remote, %error, "ended");
}

async fn requests(connection: &Connection, root: &Arc<Path>) -> mendpath::ConnectionError {
    loop {
        match connection.accept_bi().await {
            Ok((send, recv)) => tokio::spawn(answer(send, recv, root.clone())),
            Err(error) => return error,
        };
    }
}

async fn answer(mut send: SendStream, mut recv: RecvStream, root: Arc<Path>) {
    let Some(request) = read_request(&mut recv).await else { return };
    let Some(path) = hq::file(&root, &request) else {
        debug!(request = %String::from_utf8_lossy(&request), "refused");
        let _ = send.reset(hq::NO_ANSWER);
        return;
    };
    let sent = async {
        let mut file = tokio::fs::File::open(&path).await?;
        tokio::io::copy(&mut file, &mut send).await
    };
    match sent.await {
        Ok(bytes) => {
            debug!(path = %path.display(), bytes, "sent");
            let _ = send.finish();
        }
        Err(error) => {
            debug!(path = %path.display(), %error, "not sent");
            let _ = send.reset(hq::NO_ANSWER);
        }
    }
}

/// The first line; `None` if the stream fails before.
async fn read_request(recv: &mut RecvStream) -> Option<Vec<u8>> {
    let mut request = vec![0; hq::MAX_REQUEST];
    let mut length = 0;
    while length < request.len() && !request[..length].contains(&b'\n') {
        match recv.read(&mut request[length..]).await.ok()? {
            Some(read) => length += read,
            None => break,
        }
    }
    request.truncate(length);
    Some(request)
}
