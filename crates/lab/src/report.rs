//! The results: plain data, as JSON, as a table, and as a page.

mod html;
mod machine;
mod published;
mod table;

use std::{borrow::Cow, collections::BTreeMap};

use figures::Summary;
use serde::{Deserialize, Serialize};

pub use html::html;
pub use machine::Machine;
pub use published::{data, published, read};
pub use table::table;

use crate::CallOutcome;

/// Everything that a run found. Its JSON form is described in `docs/lab.md`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Changes when a field changes its meaning or goes.
    pub schema: Cow<'static, str>,
    /// The version of the lab.
    pub version: Cow<'static, str>,
    /// The plan's title.
    pub title: String,
    /// What the plan says about itself.
    pub about: String,
    /// `quick` or `paper`.
    pub scale: Cow<'static, str>,
    /// From which all losses derive.
    pub seed: u64,
    /// Fetches, calls or loads per contender, if the user wanted another number than the plan's.
    #[serde(default)]
    pub count: Option<u32>,
    /// What programs say of their versions: `mendpath`, adapters by their names, and the browser.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// Where it was measured.
    pub machine: Machine,
    /// One for each network, measurement and contender, in this order.
    pub rows: Vec<Row>,
}

/// What kind of measurement a row is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Single responses.
    #[default]
    Fetch,
    /// Long transfers.
    Bulk,
    /// Two contenders at once.
    Share,
    /// Calls: datagrams with a deadline.
    Call,
    /// Loads of a page.
    Page,
}

/// What one contender did in one measurement on one network.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The network's name.
    pub network: String,
    /// Its varied values.
    pub vary: BTreeMap<String, String>,
    /// Its paths, as text.
    pub path_texts: Vec<String>,
    /// The measurement's name.
    pub measure: String,
    /// Its kind.
    pub kind: Kind,
    /// The contender, as it is written in plans.
    pub contender: String,
    /// Why there is nothing, or no more, of it.
    pub error: Option<String>,
    /// Fetches or transfers made.
    pub count: u32,
    /// Those of them that were not complete within the limit.
    pub failed: u32,
    /// The size of each, if all are alike.
    pub size_bytes: Option<u64>,
    /// Whether all used one TCP connection.
    pub kept_connection: bool,
    /// Whether `times_ms` contain the time to connect.
    pub setup_counted: bool,
    /// Completion times, in order; incomplete ones count as the limit.
    pub times_ms: Vec<f64>,
    /// Times to connect, in order; 0 on a connection that was there.
    pub setup_ms: Vec<f64>,
    /// Sizes, in order, if they differ.
    pub sizes_bytes: Vec<u64>,
    /// Mean of `times_ms`.
    pub mean_ms: Option<f64>,
    /// Median.
    pub p50_ms: Option<f64>,
    /// 90th percentile, by nearest rank like the others.
    pub p90_ms: Option<f64>,
    /// 99th percentile; `None` with less than 100 times.
    pub p99_ms: Option<f64>,
    /// Largest.
    pub max_ms: Option<f64>,
    /// Goodput of each transfer: bytes that came by the time they took, or by the limit if it broke before.
    pub goodputs_mbps: Vec<f64>,
    /// Mean of `goodputs_mbps`.
    pub goodput_mbps: Option<f64>,
    /// Longest time without a byte in each transfer.
    pub gaps_ms: Vec<f64>,
    /// Cuts of a path during transfers.
    pub cuts: Vec<CutOutcome>,
    /// Bytes of responses that came.
    pub payload_bytes: u64,
    /// Bytes that the server's side sent into the links, headers and losses included, by
    /// `payload_bytes` and those of transfers beside; `None` where nothing was sent, or over direct paths alone, whose
    /// bytes nobody counts.
    pub sent_ratio: Option<f64>,
    /// What each path carried.
    pub paths: Vec<PathUse>,
    /// Processor time of the contender's programs; `null` for the kernel, which has none.
    pub cpu_ms: Option<f64>,
    /// The most memory that each of the contender's programs had since their start, the server's
    /// first.
    pub peak_memory_bytes: Vec<u64>,
    /// Processor time of the lab's client and origin, which for kernel contenders includes much of
    /// the kernel's work.
    pub endpoint_cpu_ms: f64,
    /// What the server's kernel counted, for MPTCP.
    pub mptcp: Option<Mptcp>,
    /// What recovery cost, for mendpath.
    pub repair: Option<Repair>,
    /// How much `mendpath client`'s statistics grew meanwhile.
    pub statistics: BTreeMap<String, f64>,
    /// The same of the server's end.
    pub server_statistics: BTreeMap<String, f64>,
    /// For two contenders at once.
    pub sharing: Option<Sharing>,
    /// What the transfers beside fetches brought.
    pub beside: Option<Beside>,
    /// What became of calls.
    pub call: Option<CallOutcome>,
    /// How a page was loaded.
    pub loads: Option<Loads>,
}

/// How a browser loaded a page; how long that took is in `times_ms`.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Loads {
    /// By which protocol everything came, as the browser says (`nextHopProtocol`).
    pub protocol: Cow<'static, str>,
    /// Times from the start of each load to the first byte of its page.
    pub first_byte_ms: Vec<f64>,
    /// Median of these.
    pub first_byte_p50_ms: Option<f64>,
    /// Bytes that reached the browser's side in each load, headers included.
    pub received_bytes: Vec<u64>,
}

/// What came of the transfers that went on beside fetches.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Beside {
    /// Bytes of all of them, since they were under way.
    pub bytes: u64,
    /// In which time.
    pub time_ms: f64,
}

impl Beside {
    /// Goodput of all of them together.
    pub fn goodput_mbps(&self) -> f64 {
        self.bytes as f64 * 8.0 / 1e3 / self.time_ms.max(1e-6)
    }
}

/// What the server's end sent to mend losses before they would cost time, and what came of it.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Repair {
    /// Bytes of copies and repair symbols.
    pub sent_bytes: u64,
    /// Copies and repair symbols.
    pub sent_packets: u64,
    /// Those of them that brought data of a packet that was lost.
    pub used_packets: u64,
    /// Those that were not needed or did not arrive.
    pub wasted_packets: u64,
}

impl Repair {
    /// From what the server's end counted; `None` if it tells nothing.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    fn of(counted: &BTreeMap<String, f64>) -> Option<Self> {
        let count = |name: &str| counted.get(name).map(|value| *value as u64);
        let sent_packets = count("copies_sent")? + count("repair_symbols_sent")?;
        // A lost packet needs one of them, whatever else came for it.
        let used_packets = count("packets_mended")?.min(sent_packets);
        Some(Self {
            sent_bytes: count("recovery_bytes_sent")?,
            sent_packets,
            used_packets,
            wasted_packets: sent_packets - used_packets,
        })
    }

    /// The bytes of the packets that were used, taking all to be of the same size.
    pub fn used_bytes(&self) -> f64 {
        self.sent_bytes as f64 * self.used_packets as f64 / self.sent_packets.max(1) as f64
    }
}

/// What a path carried during a row, as the links count it: IP packets.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct PathUse {
    /// Packets from server to client, lost ones included.
    pub down_packets: u64,
    /// Their bytes.
    pub down_bytes: u64,
    /// Those that the loss model or an outage took.
    pub down_lost: u64,
    /// Those that found the queue full.
    pub down_overflow: u64,
    /// Packets from client to server.
    pub up_packets: u64,
    /// Their bytes.
    pub up_bytes: u64,
    /// Those that the loss model or an outage took.
    pub up_lost: u64,
    /// Those that found the queue full.
    pub up_overflow: u64,
    /// How late the emulator delivered, on average: a busy machine's share in the delay.
    pub late_mean_us: f64,
}

/// A cut of a path and what came after.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct CutOutcome {
    /// Which path.
    pub path: usize,
    /// When, after the transfer's start.
    pub after_ms: f64,
    /// For how long.
    pub time_ms: f64,
    /// How long after its return the path had delivered 20 kB to the client again; `null` if it did
    /// not before the transfer's end.
    pub used_again_ms: Option<f64>,
    /// Whether the transfer was still under way when the path returned.
    pub outlived: bool,
}

/// Counters of the server's kernel (`nstat`, MPTcpExt).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mptcp {
    /// Connections that began as MPTCP.
    pub connections: u64,
    /// Further sub-flows that completed their handshake.
    pub joins: u64,
    /// Connections that fell back to TCP.
    pub fallbacks: u64,
}

/// How two contenders shared.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sharing {
    /// The other.
    pub with: String,
    /// Whether this is the one that began first.
    pub first: bool,
    /// Goodput while both sent.
    pub goodput_mbps: f64,
    /// This one's part of both goodputs.
    pub share: f64,
    /// Goodput second by second from the first one's start.
    pub series_mbps: Vec<f64>,
    /// How long after the second one's start both were within a tenth of their mean for two
    /// seconds; `null` if never.
    pub converged_s: Option<u32>,
}

/// Times behind a 99th percentile: of fewer it would be the largest.
pub(crate) const FEWEST_FOR_P99: usize = 100;

impl Row {
    /// Computes what follows from the single values.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn summarise(&mut self) {
        if let Some(Summary { mean, p50, p90, p99, max }) = Summary::of(&self.times_ms) {
            self.mean_ms = Some(mean);
            self.p50_ms = Some(p50);
            self.p90_ms = Some(p90);
            self.p99_ms = (self.times_ms.len() >= FEWEST_FOR_P99).then_some(p99);
            self.max_ms = Some(max);
        }
        if let Some(loads) = &mut self.loads {
            loads.first_byte_p50_ms = Summary::of(&loads.first_byte_ms).map(|summary| summary.p50);
        }
        self.goodput_mbps = Summary::of(&self.goodputs_mbps).map(|summary| summary.mean);
        let sent: u64 = self.paths.iter().map(|path| path.down_bytes).sum();
        self.repair = Repair::of(&self.server_statistics);
        let arrived = self.arrived_bytes();
        // Of direct paths it is not known.
        self.sent_ratio = (arrived > 0 && sent > 0).then(|| sent as f64 / arrived as f64);
    }

    /// Bytes that arrived as responses, those of transfers beside among them.
    pub(crate) fn arrived_bytes(&self) -> u64 {
        self.payload_bytes + self.beside.map_or(0, |beside| beside.bytes)
    }

    /// The part of each path in the bytes that the server's side sent.
    pub fn path_shares(&self) -> Vec<f64> {
        let all: u64 = self.paths.iter().map(|path| path.down_bytes).sum();
        self.paths.iter().map(|path| path.down_bytes as f64 / all.max(1) as f64).collect()
    }
}

/// What [`Report::schema`] is.
pub(crate) const SCHEMA: &str = "mendpath-lab/1";

/// The report as JSON.
pub fn json(report: &Report) -> String {
    serde_json::to_string_pretty(report).unwrap_or_default() + "\n"
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report with a row of every kind.
    pub(crate) fn example() -> Report {
        let fetch = |contender: &str, base: f64| {
            let mut row = Row {
                network: "loss 2%".to_owned(),
                path_texts: vec!["rate=100mbit,delay=50ms,loss=2%".to_owned()],
                measure: "60.0 kB".to_owned(),
                contender: contender.to_owned(),
                count: 100,
                times_ms: (0..100).map(|n| base + f64::from(n)).collect(),
                payload_bytes: 6_000_000,
                paths: vec![PathUse { down_bytes: 6_600_000, down_lost: 90, ..PathUse::default() }],
                ..Row::default()
            };
            row.summarise();
            row
        };
        let mut bulk = Row {
            kind: Kind::Bulk,
            measure: "20 MiB".to_owned(),
            goodputs_mbps: vec![90.0, 92.0],
            ..fetch("mendpath:auto", 1.0)
        };
        bulk.cuts.push(CutOutcome {
            path: 0,
            after_ms: 500.0,
            time_ms: 3_000.0,
            used_again_ms: Some(300.0),
            outlived: true,
        });
        bulk.summarise();
        let sharing =
            Sharing { with: "tcp:cubic".to_owned(), goodput_mbps: 12.0, share: 0.5, ..Sharing::default() };
        let share = Row {
            kind: Kind::Share,
            measure: "20 s".to_owned(),
            sharing: Some(sharing),
            ..fetch("mendpath:ctcp", 1.0)
        };
        let call = CallOutcome {
            frames: 4_000,
            frames_in_time: 3_998,
            audio: 2_500,
            audio_in_time: 2_500,
            media_bytes: 6_000_000,
            ..CallOutcome::default()
        };
        let call = Row {
            kind: Kind::Call,
            measure: "calls".to_owned(),
            call: Some(call),
            times_ms: Vec::new(),
            ..fetch("mendpath:streaming", 1.0)
        };
        let loads = Loads { protocol: "h3".into(), first_byte_ms: vec![101.0, 103.0], ..Loads::default() };
        let mut page = Row {
            kind: Kind::Page,
            measure: "loads".to_owned(),
            loads: Some(loads),
            ..fetch("mendpath-serve:auto", 600.0)
        };
        page.summarise();
        let failed = Row { error: Some("there is no such program".to_owned()), ..fetch("quinn", 0.0) };
        Report {
            schema: SCHEMA.into(),
            version: "0.1.0".into(),
            title: "An <example>".to_owned(),
            about: "Nothing real.".to_owned(),
            scale: "quick".into(),
            seed: 1,
            count: Some(100),
            versions: BTreeMap::from([("mendpath".to_owned(), "mendpath 0.1.0".to_owned())]),
            machine: Machine::default(),
            rows: vec![
                fetch("tcp:cubic", 150.0),
                fetch("mendpath:auto", 100.0),
                failed,
                bulk,
                share,
                call,
                page,
            ],
        }
    }

    #[test]
    fn rows_are_summarised() {
        let row = &example().rows[0];
        assert_eq!((row.p50_ms, row.p99_ms, row.max_ms), (Some(199.0), Some(248.0), Some(249.0)));
        assert_eq!(row.sent_ratio, Some(1.1));
        let mut direct = row.clone();
        direct.paths = vec![PathUse::default()];
        direct.summarise();
        assert_eq!(direct.sent_ratio, None);
        assert_eq!(row.path_shares(), [1.0]);
    }

    /// The names that docs/lab.md promises.
    #[test]
    fn the_json_has_its_promised_shape() {
        let value: serde_json::Value = serde_json::from_str(&json(&example())).unwrap();
        assert_eq!(value["schema"], "mendpath-lab/1");
        for key in ["version", "title", "about", "scale", "seed", "count", "versions", "machine", "rows"] {
            assert!(!value[key].is_null(), "{key}");
        }
        let keys = ["processor", "cpus", "kernel", "memory_bytes", "load_before", "load_after"];
        assert!(keys.iter().all(|key| !value["machine"][key].is_null()));
        assert!(value["machine"]["others_share"].is_null(), "nothing was measured");
        let row = &value["rows"][3];
        assert_eq!((&row["kind"], &row["goodput_mbps"]), (&"bulk".into(), &91.0.into()));
        assert_eq!(row["cuts"][0]["used_again_ms"], 300.0);
        for key in [
            "network",
            "vary",
            "path_texts",
            "measure",
            "contender",
            "count",
            "failed",
            "times_ms",
            "setup_ms",
            "paths",
            "endpoint_cpu_ms",
        ] {
            assert!(!row[key].is_null(), "{key}");
        }
        assert!(row["error"].is_null() && row["cpu_ms"].is_null());
        assert_eq!(value["rows"][4]["sharing"]["with"], "tcp:cubic");
        let (call, page) = (&value["rows"][5], &value["rows"][6]);
        assert_eq!((&call["kind"], &call["call"]["frames_in_time"]), (&"call".into(), &3_998.into()));
        assert_eq!((&page["kind"], &page["loads"]["protocol"]), (&"page".into(), &"h3".into()));
        assert_eq!(page["loads"]["first_byte_p50_ms"], 101.0);
    }
}
