//! Connections, their datagrams and their paths.

use std::{future::Future, net::SocketAddr, time::Duration};

use bytes::Bytes;
use mendpath::{
    Connection, ConnectionError, ConnectionStats, DatagramOptions, PathId, PathLimits, PathOptions,
    PathState, PathStats, PathStatus, PathUse, VarInt,
};
use pyo3::{
    prelude::*,
    pybacked::PyBackedBytes,
    types::{PyBytes, PyDict},
};
use units::BitRate;

use super::{
    bridge::{Operation, Outcome},
    config::seconds,
    errors,
    reader::NativeReader,
    runtime::{Here, runtime},
    updates::NativeUpdates,
    writer::NativeWriter,
};

/// Host and port, as Python has them.
pub(super) type Address = (String, u16);

/// # Errors
/// If the host is no IP address.
pub(super) fn address((host, port): &Address) -> PyResult<SocketAddr> {
    let ip = host.parse().map_err(|_| errors::wrong(format!("`{host}` is no IP address")))?;
    Ok(SocketAddr::new(ip, *port))
}

pub(super) fn address_of(address: SocketAddr) -> Address {
    (address.ip().to_string(), address.port())
}

/// Where a path starts and leads: local address, interface, remote address, seconds to wait, and
/// whether it is a backup.
pub(super) type PathWish = (Option<Address>, Option<String>, Option<Address>, Option<f64>, bool);

pub(super) fn path_options(wish: &PathWish) -> PyResult<PathOptions> {
    let (local, interface, remote, timeout, backup) = wish;
    let mut options = PathOptions::new().status(status(*backup));
    if let Some(local) = local {
        options = options.local(address(local)?);
    }
    if let Some(interface) = interface {
        options = options.interface(interface);
    }
    if let Some(remote) = remote {
        options = options.remote(address(remote)?);
    }
    if let Some(timeout) = timeout {
        options = options.timeout(seconds("timeout", *timeout)?);
    }
    Ok(options)
}

fn status(backup: bool) -> PathStatus {
    if backup { PathStatus::Backup } else { PathStatus::Available }
}

/// A connection.
#[pyclass(frozen, module = "mendpath._native")]
pub(crate) struct NativeConnection(Here<Connection>);

impl NativeConnection {
    pub(super) fn new(connection: Connection) -> Self {
        Self(Here::new(connection))
    }

    /// An operation on a handle of its own.
    fn operation<T, F>(
        &self,
        start: impl FnOnce(Connection) -> F,
        told: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Operation>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ConnectionError>> + Send + 'static,
    {
        let work = start(self.0.get()?.clone());
        Ok(Operation::new(async move {
            let result = work.await;
            Box::new(move |py: Python<'_>| match result {
                Ok(value) => told(py, value),
                Err(error) => Err(errors::lost(py, &error)),
            }) as Outcome
        }))
    }

    /// Something that takes the connection's lock, with the interpreter's released.
    fn with<T: Send>(&self, py: Python<'_>, what: impl FnOnce(&Connection) -> T + Send) -> PyResult<T> {
        let connection = self.0.get()?;
        Ok(py.detach(|| what(connection)))
    }

    /// Something about one path.
    fn with_path<T: Send>(
        &self,
        py: Python<'_>,
        id: u32,
        what: impl FnOnce(&mendpath::Path) -> Result<T, mendpath::PathError> + Send,
    ) -> PyResult<T> {
        let done = self.with(py, |connection| {
            what(&connection.path(PathId(id)).ok_or(mendpath::PathError::Unknown(PathId(id)))?)
        })?;
        done.map_err(|error| errors::path(py, &error))
    }
}

fn both(py: Python<'_>, (send, recv): (mendpath::SendStream, mendpath::RecvStream)) -> PyResult<Py<PyAny>> {
    Ok((NativeReader::new(recv), NativeWriter::new(send)).into_pyobject(py)?.into_any().unbind())
}

/// How a datagram is sent: seconds for which it is of use, priority, bytes that may wait with it,
/// whether it goes apart from those before it, whether it keeps to steady paths, its flow, and of how many
/// frames one may be late.
type DatagramWish = (Option<f64>, i32, Option<usize>, bool, bool, Option<u32>, Option<u32>);

fn datagram_options(wish: &DatagramWish) -> PyResult<DatagramOptions> {
    let &(within, priority, room, apart, steady, flow, one_late_in) = wish;
    let mut options = DatagramOptions::new().priority(priority);
    if let Some(within) = within {
        options = options.within(seconds("within", within)?);
    }
    (options.room, options.apart, options.steady, options.flow) = (room, apart, steady, flow);
    options.one_late_in = one_late_in;
    Ok(options)
}

#[pymethods]
impl NativeConnection {
    fn open_bi(&self) -> PyResult<Operation> {
        self.operation(|connection| async move { connection.open_bi().await }, both)
    }

    fn accept_bi(&self) -> PyResult<Operation> {
        self.operation(|connection| async move { connection.accept_bi().await }, both)
    }

    fn open_uni(&self) -> PyResult<Operation> {
        self.operation(
            |connection| async move { connection.open_uni().await },
            |py, send| Ok(Py::new(py, NativeWriter::new(send))?.into_any()),
        )
    }

    fn accept_uni(&self) -> PyResult<Operation> {
        self.operation(
            |connection| async move { connection.accept_uni().await },
            |py, recv| Ok(Py::new(py, NativeReader::new(recv))?.into_any()),
        )
    }

    fn send_datagram(&self, py: Python<'_>, data: PyBackedBytes, wish: DatagramWish) -> PyResult<()> {
        let options = datagram_options(&wish)?;
        let data = Bytes::copy_from_slice(&data);
        let sent = self.with(py, |connection| connection.send_datagram_with(data, options))?;
        sent.map_err(|error| errors::datagram(py, &error))
    }

    fn send_datagram_wait(&self, data: PyBackedBytes, wish: DatagramWish) -> PyResult<Operation> {
        let options = datagram_options(&wish)?;
        let (connection, data) = (self.0.get()?.clone(), Bytes::copy_from_slice(&data));
        Ok(Operation::new(async move {
            let sent = connection.send_datagram_with_wait(data, options).await;
            Box::new(move |py: Python<'_>| {
                sent.map(|()| py.None()).map_err(|error| errors::datagram(py, &error))
            }) as Outcome
        }))
    }

    fn receive_datagram(&self) -> PyResult<Operation> {
        self.operation(
            |connection| async move { connection.read_datagram().await },
            |py, data: Bytes| Ok(PyBytes::new(py, &data).into_any().unbind()),
        )
    }

    #[getter]
    fn max_datagram_size(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        self.with(py, Connection::max_datagram_size)
    }

    fn add_path(&self, wish: PathWish) -> PyResult<Operation> {
        let (connection, options) = (self.0.get()?.clone(), path_options(&wish)?);
        Ok(Operation::new(async move {
            let opened = connection.add_path(options).await;
            Box::new(move |py: Python<'_>| match opened {
                Ok(path) => Ok(path.id().0.into_pyobject(py)?.into_any().unbind()),
                Err(error) => Err(errors::opening(py, &error)),
            }) as Outcome
        }))
    }

    /// The ids of the open paths.
    fn paths(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.with(py, |connection| connection.paths().iter().map(|path| path.id().0).collect())
    }

    fn path_stats<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let stats = self.with(py, Connection::path_stats)?;
        stats.iter().map(|path| path_dict(py, path)).collect()
    }

    fn close_path(&self, py: Python<'_>, id: u32) -> PyResult<()> {
        self.with_path(py, id, mendpath::Path::close)
    }

    fn set_backup(&self, py: Python<'_>, id: u32, backup: bool) -> PyResult<()> {
        self.with_path(py, id, |path| path.set_status(status(backup)))
    }

    fn is_backup(&self, py: Python<'_>, id: u32) -> PyResult<bool> {
        self.with_path(py, id, |path| Ok(path.status()?.is_backup()))
    }

    /// What the path carries, and its most bits per second.
    fn set_limits(&self, py: Python<'_>, id: u32, carries: &str, rate: Option<u64>) -> PyResult<()> {
        let carries = match carries {
            "regular" => PathUse::Regular,
            "metered" => PathUse::Metered,
            "paused" => PathUse::Paused,
            other => {
                return Err(errors::wrong(format!("carries is regular, metered or paused, not `{other}`")));
            }
        };
        let limits = PathLimits { carries, rate: rate.map(BitRate) };
        self.with_path(py, id, |path| path.set_limits(limits))
    }

    fn migrate(&self, py: Python<'_>, id: u32, wish: PathWish) -> PyResult<()> {
        let options = path_options(&wish)?;
        let tokio = runtime()?;
        let moved = self.with(py, |connection| {
            let _entered = tokio.enter();
            let path = connection.path(PathId(id)).ok_or(mendpath::PathError::Unknown(PathId(id)))?;
            path.migrate(&options)
        })?;
        moved.map_err(|error| errors::opening(py, &error))
    }

    fn path_updates(&self, py: Python<'_>) -> PyResult<NativeUpdates> {
        self.with(py, Connection::path_updates).map(NativeUpdates::new)
    }

    fn close(&self, py: Python<'_>, code: u64, reason: &[u8]) -> PyResult<()> {
        let code = VarInt::try_from(code).map_err(errors::wrong)?;
        self.with(py, |connection| connection.close(code, reason))
    }

    /// Waits for the end, which is an exception.
    fn closed(&self) -> PyResult<Operation> {
        self.operation(
            |connection| async move { Ok(connection.closed().await) },
            |py, error: ConnectionError| Ok(errors::lost(py, &error).into_value(py).into_any()),
        )
    }

    /// The exception that says why it has ended.
    fn close_reason(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let reason = self.with(py, Connection::close_reason)?;
        Ok(reason.map(|error| errors::lost(py, &error).into_value(py).into_any()))
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.with(py, Connection::stats)?;
        stats_dict(py, &stats)
    }

    #[getter]
    fn remote_address(&self, py: Python<'_>) -> PyResult<Address> {
        self.with(py, |connection| address_of(connection.remote_address()))
    }

    #[getter]
    fn alpn(&self, py: Python<'_>) -> PyResult<Option<Vec<u8>>> {
        self.with(py, Connection::alpn)
    }

    #[getter]
    fn multipath(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, Connection::multipath_negotiated)
    }

    #[getter]
    fn repair(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, Connection::repair_negotiated)
    }

    #[getter]
    fn original_id(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, Connection::original_id)
    }

    /// The peer's certificates in DER.
    fn peer_certificates(&self, py: Python<'_>) -> PyResult<Option<Vec<Vec<u8>>>> {
        let chain = self.with(py, Connection::peer_certificates)?;
        Ok(chain.map(|chain| chain.iter().map(|certificate| certificate.to_vec()).collect()))
    }
}

/// Puts fields into a dictionary under their names.
macro_rules! fields {
    ($dict:ident, $from:ident: $($field:ident),* $(,)?) => {
        $($dict.set_item(stringify!($field), $from.$field)?;)*
    };
}

fn path_dict<'py>(py: Python<'py>, path: &PathStats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("id", path.id.0)?;
    dict.set_item("local", address_of(path.network.local))?;
    dict.set_item("remote", address_of(path.network.remote))?;
    dict.set_item(
        "state",
        match path.state {
            PathState::Validating => "validating",
            PathState::Active => "active",
            PathState::Backup => "backup",
            PathState::Suspect => "suspect",
            PathState::Closing => "closing",
        },
    )?;
    let times: [(&str, Duration); 3] =
        [("rtt", path.rtt), ("rtt_min", path.rtt_min), ("rtt_variance", path.rtt_variance)];
    for (name, time) in times {
        dict.set_item(name, time.as_secs_f64())?;
    }
    dict.set_item("carries", path.limits.carries.to_string())?;
    dict.set_item("rate_limit", path.limits.rate.map(|rate| rate.0))?;
    fields!(dict, path: window, in_flight, mtu, packets_sent, packets_received, packets_missing,
        gaps_forgotten, bytes_sent, bytes_received, packets_lost, bytes_lost, spurious_losses, packets_acknowledged, packets_outstanding,
        pto_count, ecn_ce, loss_estimate, packets_mended, copies_sent, repair_symbols_sent,
        packets_rebuilt_by_peer, packets_unprotected);
    Ok(dict)
}

fn stats_dict<'py>(py: Python<'py>, stats: &ConnectionStats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("recovery", &stats.recovery)?;
    fields!(dict, stats: bytes_sent, bytes_received, packets_sent, packets_received, packets_lost,
        spurious_losses, stream_bytes_sent, stream_bytes_received, recovery_bytes_sent, copies_sent,
        late_copies_sent, repair_symbols_sent, repair_symbols_received, repair_symbols_used,
        repair_symbols_wasted, packets_rebuilt, packets_rebuilt_by_peer, packets_mended, decoder_memory,
        decoder_memory_peak, source_memory, datagrams_dropped, key_updates, malformed_packets);
    let (timed, told) = (&stats.timed, PyDict::new(py));
    fields!(told, timed: sent, in_time, mended, late, expired, unprotected, recovery_packets_sent,
        recovery_bytes_sent);
    dict.set_item("timed", told)?;
    Ok(dict)
}
