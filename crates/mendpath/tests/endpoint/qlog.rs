//! Traces of connections, read back as they were written.

use std::path::{Path, PathBuf};

use mendpath::QlogDirectory;
use serde_json::Value;

use crate::common::{Pair, check_pattern, configs, watchdog, write_pattern};

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mendpath-qlog-{name}-{}", std::process::id()));
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The records of the one file in `directory` whose name ends so, the header first.
fn records(directory: &Path, ending: &str) -> Vec<Value> {
    let mut files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.to_string_lossy().ends_with(ending)).expect("a trace");
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line.trim_start_matches('\u{1e}')).unwrap()).collect()
}

async fn transfer(directory: QlogDirectory) {
    let (server, client) = configs();
    let pair = Pair::with(server.qlog(directory.clone()), client.qlog(directory));
    let (client, server) = pair.connect().await;
    let mut send = client.open_uni().await.unwrap();
    let write = async {
        write_pattern(&mut send, 0, 100_000).await;
        send.finish().unwrap();
    };
    let read = async { check_pattern(&mut server.accept_uni().await.unwrap(), 0).await };
    tokio::join!(write, read);
    client.close(0u8.into(), b"enough");
    server.closed().await;
    drop((client, server));
    pair.client.wait_idle().await;
    pair.server.wait_idle().await;
}

#[tokio::test]
async fn both_sides_tell_what_they_sent_and_received() {
    watchdog(async {
        let directory = Directory::new("both");
        transfer(QlogDirectory::new(&directory.0).unwrap()).await;
        for (ending, role) in [("_client.sqlog", "client"), ("_server.sqlog", "server")] {
            let records = records(&directory.0, ending);
            assert_eq!(records[0]["serialization_format"], "JSON-SEQ");
            assert_eq!(records[0]["trace"]["vantage_point"]["type"], role);
            let named = |name: &str| records.iter().filter(|r| r["name"] == name).collect::<Vec<_>>();
            let (sent, received) = (named("quic:packet_sent"), named("quic:packet_received"));
            assert_eq!(sent[0]["data"]["header"]["packet_type"], "initial");
            assert!(named("quic:recovery_metrics_updated").len() > 1);
            let data = if role == "client" { sent } else { received };
            let frames = data.iter().flat_map(|event| event["data"]["frames"].as_array().unwrap());
            let lengths = frames
                .filter(|frame| frame["frame_type"] == "stream")
                .map(|frame| frame["raw"]["payload_length"].as_u64().unwrap());
            assert!(lengths.sum::<u64>() >= 100_000);
            assert!(records[1..].is_sorted_by_key(|record| record["time"].as_f64().unwrap()));
        }
    })
    .await;
}

#[tokio::test]
async fn a_file_ends_at_its_limit_and_the_connection_goes_on() {
    watchdog(async {
        let directory = Directory::new("limit");
        transfer(QlogDirectory::new(&directory.0).unwrap().max_bytes(3_000)).await;
        for entry in std::fs::read_dir(&directory.0).unwrap() {
            let length = entry.unwrap().metadata().unwrap().len();
            assert!((3_000..20_000).contains(&length), "{length}");
        }
    })
    .await;
}
