//! Endpoints: sockets, and who connects.

use std::sync::Arc;

use mendpath::{Connection, Endpoint, PathOptions, VarInt};
use pyo3::prelude::*;
use tokio::sync::{Mutex, mpsc};

use super::{
    bridge::{Operation, Outcome},
    config::{NativeClientConfig, NativeServerConfig},
    connection::{Address, NativeConnection, PathWish, address, address_of, path_options},
    errors,
    runtime::{Here, runtime},
};

/// Connections whose handshake is complete and that nobody has accepted yet. Further ones wait with
/// their handshake done, within the server's limit of connections.
const BACKLOG: usize = 128;

/// Sockets, and the connections that run over them.
#[pyclass(frozen, module = "mendpath._native")]
pub(crate) struct NativeEndpoint(Here<Inner>);

struct Inner {
    endpoint: Endpoint,
    arrived: Arc<Mutex<mpsc::Receiver<Connection>>>,
    /// Takes the task that accepts along.
    _accepts: Option<Accepts>,
}

/// A task that ends with this.
struct Accepts(tokio::task::JoinHandle<()>);

impl Drop for Accepts {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Completes handshakes side by side, so that no client waits for another.
async fn accept_all(endpoint: Endpoint, arrived: mpsc::Sender<Connection>) {
    while let Some(incoming) = endpoint.accept().await {
        let arrived = arrived.clone();
        tokio::spawn(async move {
            // A handshake that fails is the client's affair; the endpoint counts it.
            if let Ok(connection) = incoming.await {
                let _ = arrived.send(connection).await;
            }
        });
    }
}

#[pymethods]
impl NativeEndpoint {
    #[new]
    fn new(py: Python<'_>, local: Vec<Address>, server: Option<&NativeServerConfig>) -> PyResult<Self> {
        let tokio = runtime()?;
        let mut builder = Endpoint::builder();
        for one in &local {
            builder = builder.bind(address(one)?);
        }
        let serves = server.is_some();
        if let Some(config) = server {
            builder = builder.server(config.0.clone());
        }
        let (send, receive) = mpsc::channel(BACKLOG);
        let inner = py.detach(|| {
            let _entered = tokio.enter();
            let endpoint = builder.build()?;
            let accepts = serves.then(|| Accepts(tokio.spawn(accept_all(endpoint.clone(), send))));
            Ok::<_, std::io::Error>(Inner {
                endpoint,
                arrived: Arc::new(Mutex::new(receive)),
                _accepts: accepts,
            })
        })?;
        Ok(Self(Here::new(inner)))
    }

    /// Connects, and waits for the handshake.
    fn connect(
        &self,
        py: Python<'_>,
        config: &NativeClientConfig,
        remote: Address,
        server_name: &str,
        via: Option<PathWish>,
    ) -> PyResult<Operation> {
        let inner = self.0.get()?;
        let remote = address(&remote)?;
        let via: Option<PathOptions> = via.as_ref().map(path_options).transpose()?;
        let tokio = runtime()?;
        let started = py.detach(|| {
            let _entered = tokio.enter();
            match via {
                Some(path) => inner.endpoint.connect_via(&config.0, &path, remote, server_name),
                None => inner.endpoint.connect_with(&config.0, remote, server_name),
            }
        });
        let connecting = started.map_err(|error| match error {
            error @ mendpath::ConnectError::Local(_) => {
                pyo3::exceptions::PyOSError::new_err(error.to_string())
            }
            error => errors::wrong(error),
        })?;
        Ok(Operation::new(async move {
            let result = connecting.await;
            Box::new(move |py: Python<'_>| match result {
                Ok(connection) => Ok(Py::new(py, NativeConnection::new(connection))?.into_any()),
                Err(error) => Err(errors::lost(py, &error)),
            }) as Outcome
        }))
    }

    /// The next connection; `None` once the endpoint is closed.
    fn accept(&self) -> PyResult<Operation> {
        let arrived = self.0.get()?.arrived.clone();
        Ok(Operation::new(async move {
            let connection = arrived.lock().await.recv().await;
            Box::new(move |py: Python<'_>| match connection {
                Some(connection) => Ok(Py::new(py, NativeConnection::new(connection))?.into_any()),
                None => Ok(py.None()),
            }) as Outcome
        }))
    }

    fn close(&self, py: Python<'_>, code: u64, reason: &[u8]) -> PyResult<()> {
        let code = VarInt::try_from(code).map_err(errors::wrong)?;
        let inner = self.0.get()?;
        py.detach(|| inner.endpoint.close(code, reason));
        Ok(())
    }

    /// Waits until no connection is left.
    fn idle(&self) -> PyResult<Operation> {
        let endpoint = self.0.get()?.endpoint.clone();
        Ok(Operation::new(async move {
            endpoint.wait_idle().await;
            Box::new(|py: Python<'_>| Ok(py.None())) as Outcome
        }))
    }

    #[getter]
    fn open_connections(&self) -> PyResult<usize> {
        Ok(self.0.get()?.endpoint.open_connections())
    }

    #[getter]
    fn addresses(&self) -> PyResult<Vec<Address>> {
        Ok(self.0.get()?.endpoint.local_addrs().into_iter().map(address_of).collect())
    }

    /// Binds one more socket, and answers with its address.
    fn bind(&self, py: Python<'_>, local: Address) -> PyResult<Address> {
        let (inner, local, tokio) = (self.0.get()?, address(&local)?, runtime()?);
        let bound = py.detach(|| {
            let _entered = tokio.enter();
            inner.endpoint.bind(local)
        });
        Ok(address_of(bound?))
    }
}
