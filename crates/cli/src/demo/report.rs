//! The results as data; `docs/json.md` describes the fields.

use figures::Summary;
use serde::Serialize;
use units::Bytes;

use super::{Clock, DemoOptions, PathSpec, Row, response::Measured, verdict};

/// Names the form of the JSON; a new number means that a field changed its meaning or is gone.
pub const SCHEMA: &str = "mendpath-demo/1";

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The version of this program.
    pub version: &'static str,
    /// Whose time passed.
    pub clock: Clock,
    /// From which all losses derive.
    pub seed: u64,
    /// What was compared.
    pub scenario: Scenario,
    /// The rows, in the order of the table.
    pub rows: Vec<ReportRow>,
    /// What the slowest responses without loss take on the links alone, as virtual time shows it;
    /// more is this machine's noise.
    pub links_alone_ms: Option<f64>,
    /// What it means, in words.
    pub summary: String,
}

/// What was compared.
#[derive(Clone, Debug, Serialize)]
pub struct Scenario {
    /// The emulated paths.
    pub paths: Vec<ScenarioPath>,
    /// Bytes per response.
    pub size_bytes: u64,
    /// Responses per row.
    pub count: u32,
    /// The congestion controller of every path.
    pub congestion: String,
    /// UDP payload of a full packet.
    pub datagram_bytes: u16,
    /// Responses under way at a time.
    pub lanes: usize,
}

/// One emulated path.
#[derive(Clone, Debug, Serialize)]
pub struct ScenarioPath {
    /// Rate of each direction in Mbit/s.
    pub rate_mbps: f64,
    /// Round-trip time without queues.
    pub rtt_ms: f64,
    /// Deviation of the one-way delay.
    pub jitter_ms: f64,
    /// Probability of loss from server to client.
    pub loss: f64,
    /// Probability of loss from client to server.
    pub loss_up: f64,
    /// Mean length of a burst of losses in packets; `null` when losses are independent.
    pub burst: Option<f64>,
    /// Bytes that may wait before the link; `null` for one round trip's worth.
    pub queue_bytes: Option<u64>,
    /// The same in words.
    pub text: String,
}

impl From<&PathSpec> for ScenarioPath {
    fn from(path: &PathSpec) -> Self {
        Self {
            rate_mbps: path.rate.bits_per_second() as f64 / 1e6,
            rtt_ms: path.rtt.as_millis_f64(),
            jitter_ms: path.jitter.as_millis_f64(),
            loss: path.loss.get(),
            loss_up: path.loss_up.get(),
            burst: path.burst,
            queue_bytes: path.queue.map(Bytes::get),
            text: path.to_string(),
        }
    }
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct ReportRow {
    /// For people.
    pub name: String,
    /// The scheme.
    pub recovery: String,
    /// How many paths.
    pub paths: usize,
    /// `false` for the row that shows what would be possible without loss.
    pub lossy: bool,
    /// Mean flow completion time.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 99th percentile, by nearest rank.
    pub p99_ms: f64,
    /// The slowest.
    pub max_ms: f64,
    /// All of them, in the order of the responses: the n-th of every row met the same losses.
    pub fct_ms: Vec<f64>,
    /// Response bytes per time that responses took, in Mbit/s.
    pub goodput_mbps: f64,
    /// Bytes of copies and repair symbols per other byte that the server sent.
    pub extra_bytes_ratio: f64,
    /// Packets that the emulated links lost while responses were under way.
    pub lost: u64,
    /// Lost packets of the server whose data had reached the client otherwise before they would
    /// have been retransmitted.
    pub mended: u64,
    /// The longest time that an emulated link handed a packet on too late.
    pub late_ms: f64,
}

impl ReportRow {
    pub(super) fn new(row: &Row, measured: &[Measured], size: Bytes) -> Self {
        let fct_ms: Vec<f64> = measured.iter().map(|one| round(one.fct.as_secs_f64() * 1e3)).collect();
        let summary =
            Summary::of(&fct_ms).unwrap_or(Summary { mean: 0.0, p50: 0.0, p90: 0.0, p99: 0.0, max: 0.0 });
        let late = |one: &Measured| one.late.as_secs_f64() * 1e3;
        let sum = |field: fn(&Measured) -> u64| measured.iter().map(field).sum::<u64>();
        let (bytes, recovery_bytes) = (sum(|one| one.bytes), sum(|one| one.recovery_bytes));
        let seconds = fct_ms.iter().sum::<f64>() / 1e3;
        let bits = size.get() as f64 * 8.0 * measured.len() as f64;
        Self {
            name: row.name.clone(),
            recovery: row.recovery.to_string(),
            paths: row.paths.len(),
            lossy: row.lossy,
            mean_ms: round(summary.mean),
            p50_ms: summary.p50,
            p99_ms: summary.p99,
            max_ms: summary.max,
            fct_ms,
            goodput_mbps: if seconds > 0.0 { round(bits / seconds / 1e6) } else { 0.0 },
            extra_bytes_ratio: ratio(recovery_bytes, bytes.saturating_sub(recovery_bytes)),
            lost: sum(|one| one.lost),
            mended: sum(|one| one.mended),
            late_ms: round(measured.iter().map(late).fold(0.0, f64::max)),
        }
    }

    /// As the table and the legend call it.
    pub fn label(&self) -> String {
        format!("{}, {}", self.name, self.recovery)
    }
}

impl Report {
    pub(super) fn new(options: &DemoOptions, rows: Vec<ReportRow>, links_alone_ms: Option<f64>) -> Self {
        let links_alone_ms = links_alone_ms.map(round);
        let summary = verdict(&rows, links_alone_ms);
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            clock: options.clock,
            seed: options.seed,
            scenario: Scenario {
                paths: options.paths.iter().map(ScenarioPath::from).collect(),
                size_bytes: options.size.get(),
                count: options.count,
                congestion: options.congestion.to_string(),
                datagram_bytes: options.datagram,
                lanes: options.lanes,
            },
            rows,
            links_alone_ms,
            summary,
        }
    }
}

/// To microseconds, for times in milliseconds.
fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn ratio(part: u64, rest: u64) -> f64 {
    if rest == 0 { 0.0 } else { (part as f64 / rest as f64 * 1e4).round() / 1e4 }
}
