//! A TCP port on this machine that programs connect to.

use std::{future::Future, net::SocketAddr, sync::Arc};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tracing::{debug, warn};

use crate::failure::{Failure, io_reason};

/// Local connections per listener at a time.
const MAX_LOCAL: usize = 1_024;

/// A bound port.
pub(crate) struct Listener {
    tcp: TcpListener,
    /// With the port that the system chose for port 0.
    pub(crate) address: SocketAddr,
}

impl Listener {
    /// Binds `address`.
    ///
    /// # Errors
    /// With `what` it was for and the `option` that changes it.
    pub(crate) async fn bind(address: SocketAddr, what: &str, option: &str) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(
                format!("cannot listen on {address} for {what}"),
                io_reason(&error),
                format!("Stop it or choose another address with {option}"),
            )
        };
        let tcp = TcpListener::bind(address).await.map_err(failed)?;
        let address = tcp.local_addr().map_err(failed)?;
        Ok(Self { tcp, address })
    }

    /// Serves each connection with `serve`, at most [`MAX_LOCAL`] at a time; further ones wait.
    pub(crate) async fn serve<T, F, S>(self, shared: Arc<T>, serve: S) -> Failure
    where
        S: Fn(TcpStream, Arc<T>) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let room = Arc::new(Semaphore::new(MAX_LOCAL));
        loop {
            let seat = room.clone().acquire_owned().await.expect("the semaphore is never closed");
            match self.tcp.accept().await {
                Ok((tcp, from)) => {
                    debug!(%from, at = %self.address, "local connection");
                    let _ = tcp.set_nodelay(true);
                    let served = serve(tcp, shared.clone());
                    tokio::spawn(async move {
                        served.await;
                        drop(seat);
                    });
                }
                Err(error) => {
                    // Too many open files, or a connection gone before it was accepted: others may still come.
                    warn!(%error, at = %self.address, "cannot accept");
                    crate::backoff::pause(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    }
}
