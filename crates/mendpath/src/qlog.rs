//! Traces of connections as qlog files (draft-ietf-quic-qlog-main-schema,
//! draft-ietf-quic-qlog-quic-events), one per connection.
//!
//! Beside QUIC's events there are Mendpath's, in the namespace `mendpath`: `recovery` says what the
//! recovery scheme did and why. Packets and metrics carry a `path_id`. Frames of extensions are
//! named `mendpath:repair`, `multipath:path_abandon` and so on.

mod frames;

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use proto::{ConnectionId, Observe, Observed, Observer, PacketPurpose, Side, wire::PacketKind};
use qlog::{
    CommonFields, TraceSeq, VantagePoint, VantagePointType,
    events::{EventImportance, JsonEvent, QUIC_URI, quic},
    streamer::{EventTimePrecision, QlogStreamer},
};
use serde_json::{Map, Value, json};
use tracing::{error, warn};
use units::{Duration, Instant};

/// The schema of events and frames that are ours.
const MENDPATH_URI: &str = "urn:mendpath:qlog:recovery-1";
/// Connections of one side with the same original connection id that have a file each: a client may
/// choose the same again and again.
const MAX_NAMESAKES: u32 = 16;

/// Writes a qlog file for every connection of a configuration into one directory.
///
/// Files are called `ORIGINAL-CONNECTION-ID_client.sqlog` or `_server.sqlog`; no file that is there is
/// written to, and a connection with the same id has `ORIGINAL-CONNECTION-ID-2_server.sqlog`. They
/// contain addresses of no peer and no bytes of applications, but all that frames say about them.
#[derive(Clone, Debug)]
pub struct QlogDirectory {
    directory: PathBuf,
    max_bytes: u64,
    /// Whether somebody has been told that a file could not be written.
    told: Arc<AtomicBool>,
}

impl QlogDirectory {
    /// Bytes of one file unless [`max_bytes`](Self::max_bytes) says otherwise.
    pub const DEFAULT_MAX_BYTES: u64 = 256 << 20;

    /// Files in this directory, which is created if it is not there.
    ///
    /// # Errors
    /// If it can be neither found nor created.
    pub fn new(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        fs::create_dir_all(&directory)?;
        Ok(Self { directory, max_bytes: Self::DEFAULT_MAX_BYTES, told: Arc::default() })
    }

    /// Ends a file once it has so many bytes; the connection goes on.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    fn open(&self, now: Instant, side: Side, original: &ConnectionId) -> Result<Writer, String> {
        let role = role(side);
        let mut path = self.directory.join(format!("{original}_{role}.sqlog"));
        let mut file = File::create_new(&path);
        for number in 2..=MAX_NAMESAKES {
            if !matches!(&file, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
                break;
            }
            path = self.directory.join(format!("{original}-{number}_{role}.sqlog"));
            file = File::create_new(&path);
        }
        let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
        self.begin(now, side, original, file, path)
    }

    fn begin(
        &self,
        now: Instant,
        side: Side,
        original: &ConnectionId,
        file: File,
        path: PathBuf,
    ) -> Result<Writer, String> {
        let role = role(side);
        let ty = match side {
            Side::Client => VantagePointType::Client,
            Side::Server => VantagePointType::Server,
        };
        let written = Arc::new(AtomicU64::new(0));
        let failed = Arc::new(OnceLock::new());
        let file = Counted { file: BufWriter::new(file), written: written.clone(), failed: failed.clone() };
        let vantage = VantagePoint { name: Some("mendpath".to_owned()), ty, flow: None };
        let schemas = vec![QUIC_URI.to_owned(), MENDPATH_URI.to_owned()];
        let common = CommonFields { group_id: Some(original.to_string()), ..CommonFields::default() };
        let trace = TraceSeq::new(None, None, Some(common), Some(vantage), schemas);
        let mut streamer = QlogStreamer::new(
            Some(format!("{original} {role}")),
            None,
            // Not used: every event brings its own time.
            tokio::time::Instant::now().into_std(),
            trace,
            EventImportance::Extra,
            EventTimePrecision::MicroSeconds,
            Box::new(file),
        );
        streamer.start_log().map_err(|error| format!("{}: {error}", path.display()))?;
        let (max_bytes, told) = (self.max_bytes, self.told.clone());
        Ok(Writer { began: now, streamer: Some(streamer), written, failed, max_bytes, path, told })
    }
}

const fn role(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Server => "server",
    }
}

impl Observe for QlogDirectory {
    fn connection(&self, now: Instant, side: Side, original: &ConnectionId) -> Option<Box<dyn Observer>> {
        match self.open(now, side, original) {
            Ok(writer) => Some(Box::new(writer)),
            Err(error) => {
                tell(&self.told, format_args!("no qlog of connection {original}: {error}"));
                None
            }
        }
    }
}

/// Says what went wrong: loudly the first time, since a disk that is full is so for all connections.
fn tell(told: &AtomicBool, what: std::fmt::Arguments<'_>) {
    if told.swap(true, Ordering::Relaxed) {
        warn!("{what}");
    } else {
        error!("{what}");
    }
}

/// A file that counts its bytes, and keeps why it took no more: `qlog` forgets that.
struct Counted {
    file: BufWriter<File>,
    written: Arc<AtomicU64>,
    failed: Arc<OnceLock<io::Error>>,
}

impl Counted {
    fn noted<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let kind = error.kind();
            let _ = self.failed.set(error);
            kind.into()
        })
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        let written = self.noted(written)?;
        self.written.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.flush();
        self.noted(flushed)
    }
}

/// The file of one connection.
struct Writer {
    began: Instant,
    /// `None` once the file is full or broken.
    streamer: Option<QlogStreamer>,
    written: Arc<AtomicU64>,
    failed: Arc<OnceLock<io::Error>>,
    max_bytes: u64,
    path: PathBuf,
    told: Arc<AtomicBool>,
}

impl Writer {
    fn ends(&mut self, error: &dyn std::fmt::Display) {
        let why: &dyn std::fmt::Display = self.failed.get().map_or(error, |error| error);
        tell(&self.told, format_args!("{} ends here: {why}", self.path.display()));
        self.streamer = None;
    }
}

impl Drop for Writer {
    /// What is short reaches the file only now.
    fn drop(&mut self) {
        if let Some(Err(error)) = self.streamer.as_mut().map(QlogStreamer::finish_log) {
            self.ends(&error);
        }
    }
}

impl Observer for Writer {
    fn on_event(&mut self, now: Instant, event: &Observed<'_>) {
        let Some(streamer) = &mut self.streamer else { return };
        let Some((name, data)) = describe(event) else { return };
        let time = (now - self.began).as_millis_f64();
        let event = JsonEvent { time, importance: EventImportance::Core, name, data };
        let full = self.written.load(Ordering::Relaxed) >= self.max_bytes;
        if let Err(error) = streamer.add_event(event) {
            self.ends(&error);
        } else if full {
            warn!("{} ends here: it has {} bytes", self.path.display(), self.max_bytes);
            self.streamer = None;
        }
    }
}

/// The name and data of an event; `None` for those that qlog has no use for.
fn describe(event: &Observed<'_>) -> Option<(String, Value)> {
    let named = |name: &str, data| Some((name.to_owned(), data));
    match *event {
        Observed::PacketSent { path, kind, number, size, purpose, copy_of, payload } => {
            let mut data = packet(kind, number, path.0);
            data.insert("raw".to_owned(), json!({"length": size}));
            data.insert("is_mtu_probe_packet".to_owned(), json!(purpose == PacketPurpose::MtuProbe));
            data.insert("purpose".to_owned(), json!(purpose_name(purpose)));
            if let Some((of, number)) = copy_of {
                data.insert("copy_of".to_owned(), json!({"path_id": of.0, "packet_number": number}));
            }
            data.insert("frames".to_owned(), frames::list(payload));
            named("quic:packet_sent", data.into())
        }
        Observed::PacketReceived { path, kind, number, rebuilt, payload } => {
            let mut data = packet(kind, number, path.0);
            data.insert("rebuilt".to_owned(), json!(rebuilt));
            data.insert("frames".to_owned(), frames::list(payload));
            named("quic:packet_received", data.into())
        }
        Observed::PacketLost { path, kind, number } => {
            named("quic:packet_lost", packet(kind, number, path.0).into())
        }
        Observed::ProbeTimeout { path, count } => {
            named("quic:recovery_metrics_updated", json!({"path_id": path.0, "pto_count": count}))
        }
        Observed::Metrics { path, window, in_flight, rtt, expected_loss } => {
            let [latest, min, smoothed, variance] = rtt.map(Duration::as_millis_f64);
            let data = json!({
                "path_id": path.0, "congestion_window": window, "bytes_in_flight": in_flight, "latest_rtt": latest,
                "min_rtt": min, "smoothed_rtt": smoothed, "rtt_variance": variance, "expected_loss": expected_loss,
            });
            named("quic:recovery_metrics_updated", data)
        }
        Observed::Recovery { reason, count } => {
            named("mendpath:recovery", json!({"reason": reason, "count": count}))
        }
        _ => None,
    }
}

fn packet(kind: PacketKind, number: u64, path: u32) -> Map<String, Value> {
    let packet_type = match kind {
        PacketKind::Initial => quic::PacketType::Initial,
        PacketKind::Handshake => quic::PacketType::Handshake,
        PacketKind::ZeroRtt => quic::PacketType::ZeroRtt,
        PacketKind::OneRtt => quic::PacketType::OneRtt,
    };
    let header =
        quic::PacketHeader { packet_type, packet_number: Some(number), ..quic::PacketHeader::default() };
    let mut data = Map::new();
    data.insert("header".to_owned(), json!(header));
    data.insert("path_id".to_owned(), json!(path));
    data
}

const fn purpose_name(purpose: PacketPurpose) -> &'static str {
    match purpose {
        PacketPurpose::Data => "data",
        PacketPurpose::Copy => "copy",
        PacketPurpose::Repair => "repair",
        PacketPurpose::Probe => "probe",
        PacketPurpose::MtuProbe => "mtu_probe",
        PacketPurpose::OffPath => "off_path",
    }
}

/// Where a file of this directory lies.
impl AsRef<Path> for QlogDirectory {
    fn as_ref(&self) -> &Path {
        &self.directory
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// A client chooses the id, and may choose one that another has, or had.
    #[test]
    fn no_trace_is_overwritten() {
        let path = std::env::temp_dir().join(format!("mendpath-qlog-same-{}", std::process::id()));
        let directory = QlogDirectory::new(&path).unwrap();
        let id = ConnectionId::new(&[7; 8]).unwrap();
        let first = path.join(format!("{id}_server.sqlog"));
        fs::write(&first, "another's").unwrap();
        for _ in 0..40 {
            let opened = directory.open(Instant::from_nanos(0), Side::Server, &id);
            assert!(opened.is_ok() || fs::read_dir(&path).unwrap().count() == MAX_NAMESAKES as usize);
        }
        assert_eq!(fs::read_to_string(first).unwrap(), "another's");
        let second = fs::read_to_string(path.join(format!("{id}-2_server.sqlog"))).unwrap();
        assert!(second.contains(&id.to_string()), "{second}");
        fs::remove_dir_all(path).unwrap();
    }

    /// Also of a trace that is too short to reach the file before its end.
    #[test]
    fn a_full_disk_is_told_of_by_its_name() {
        for events in [1, 1_000] {
            let path =
                std::env::temp_dir().join(format!("mendpath-qlog-full-{}-{events}", std::process::id()));
            let directory = QlogDirectory::new(&path).unwrap();
            let id = ConnectionId::new(&[7; 8]).unwrap();
            let full = File::options().write(true).open("/dev/full").unwrap();
            let name = path.join(format!("{id}_client.sqlog"));
            let mut writer = directory.begin(Instant::from_nanos(0), Side::Client, &id, full, name).unwrap();
            for count in 0..events {
                writer.on_event(
                    Instant::from_nanos(1),
                    &Observed::ProbeTimeout { path: proto::PathId(0), count },
                );
            }
            assert_eq!(writer.streamer.is_none(), events == 1_000);
            let failed = writer.failed.clone();
            drop(writer);
            assert_eq!(failed.get().unwrap().kind(), io::ErrorKind::StorageFull);
            assert!(directory.told.load(Ordering::Relaxed));
            fs::remove_dir_all(path).unwrap();
        }
    }
}
