//! Reading JSON text sequences (RFC 7464), one record at a time.

use std::io::{self, BufRead, Read as _};

use serde_json::Value;

use super::QlogView;

/// Bytes of one record: a packet with its frames has a few kilobytes.
const MAX_RECORD: u64 = 1 << 20;
/// Bytes of a file; our own end far below.
const MAX_BYTES: u64 = 4 << 30;
const SEPARATOR: u8 = 0x1e;

/// Why there is nothing to be shown.
#[derive(Debug, thiserror::Error)]
pub enum QlogError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is no qlog trace in JSON text sequences; why.
    #[error("it is no trace of ours: {0}")]
    Form(String),
    /// A record in the midst of it is no JSON; its number, from 1, and what is wrong.
    #[error("record {0} is damaged: {1}")]
    Record(u64, String),
    /// A record, or the whole, is longer than any trace of ours.
    #[error("{0}")]
    TooLong(&'static str),
}

/// Reads a trace to its end. The last record may be cut off.
///
/// # Errors
/// If it is no trace, or damaged before its end.
pub fn read_qlog(mut input: impl BufRead) -> Result<QlogView, QlogError> {
    let mut view = QlogView::default();
    let (mut record, mut number, mut total) = (Vec::new(), 0, 0_u64);
    loop {
        record.clear();
        let length = (&mut input).take(MAX_RECORD + 1).read_until(SEPARATOR, &mut record)? as u64;
        total += length;
        if length == 0 {
            break;
        }
        let is_last = record.last() != Some(&SEPARATOR);
        if is_last && length > MAX_RECORD {
            return Err(QlogError::TooLong("a record has more than a mebibyte, or there is no end to it"));
        }
        if total > MAX_BYTES {
            return Err(QlogError::TooLong("it has more than four gibibytes"));
        }
        let text = record.strip_suffix(&[SEPARATOR]).unwrap_or(&record).trim_ascii();
        if text.is_empty() {
            continue;
        }
        number += 1;
        match serde_json::from_slice::<Value>(text) {
            Ok(head) if number == 1 => begin(&mut view, &head)?,
            Ok(event) => view.event(&event),
            Err(error) if number == 1 => {
                return Err(QlogError::Form(format!("its beginning is no JSON ({error})")));
            }
            Err(_) if is_last => view.truncated = true,
            Err(error) => return Err(QlogError::Record(number, error.to_string())),
        }
    }
    if number == 0 {
        return Err(QlogError::Form("it is empty".to_owned()));
    }
    Ok(view)
}

fn begin(view: &mut QlogView, head: &Value) -> Result<(), QlogError> {
    if !head["trace"].is_object() {
        let found = if head["traces"].is_array() {
            "it is qlog's other form, one JSON object"
        } else {
            "there is no `trace`"
        };
        return Err(QlogError::Form(format!("{found}; files of --qlog end in .sqlog")));
    }
    view.head(head);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEAD: &str = r#"{"title":"0a0b client","trace":{"common_fields":{"group_id":"0a0b"},"vantage_point":{"type":"client"}}}"#;

    fn sequence(records: &[&str]) -> Vec<u8> {
        records.iter().flat_map(|record| format!("\u{1e}{record}\n").into_bytes()).collect()
    }

    fn read(records: &[&str]) -> Result<QlogView, QlogError> {
        read_qlog(sequence(records).as_slice())
    }

    #[test]
    fn paths_are_told_apart_and_bytes_count_once() {
        let sent = |time: u32, path: u32, offset: u32, purpose: &str| {
            format!(
                r#"{{"time":{time},"name":"quic:packet_sent","data":{{"path_id":{path},"purpose":"{purpose}","raw":{{"length":1200}},
                "frames":[{{"frame_type":"stream","stream_id":0,"offset":{offset},"raw":{{"payload_length":1000}}}}]}}}}"#
            )
        };
        let events = [sent(5, 0, 0, "data"), sent(6, 1, 1000, "data"), sent(7, 1, 0, "copy")];
        let lost = r#"{"time":9,"name":"quic:packet_lost","data":{"path_id":0}}"#;
        let why = r#"{"time":9,"name":"mendpath:recovery","data":{"reason":"end_of_write","count":3}}"#;
        let view = read(&[HEAD, &events[0], &events[1], &events[2], lost, why]).unwrap();
        assert_eq!((view.title.as_str(), view.span_ms, view.records), ("0a0b client", 4.0, 5));
        let totals = |id| &view.paths[&id].totals;
        assert_eq!((totals(0).stream_bytes_sent, totals(1).stream_bytes_sent), (1_000, 1_000));
        assert_eq!((totals(0).packets_lost, totals(1).copies, totals(1).bytes_sent), (1, 1, 2_400));
        assert_eq!(view.reasons["end_of_write"], 3);
    }

    #[test]
    fn a_last_record_may_be_cut_off_and_no_other() {
        let event = r#"{"time":1,"name":"quic:packet_lost","data":{"path_id":0}}"#;
        let whole = sequence(&[HEAD, event, event]);
        let view = read_qlog(&whole[..whole.len() - 20]).unwrap();
        assert!(view.truncated && view.records == 1);
        let damaged = read(&[HEAD, "{\"time\":1,", event]).unwrap_err().to_string();
        assert!(damaged.starts_with("record 2 is damaged: "), "{damaged}");
    }

    #[test]
    fn what_is_no_trace_is_said_so() {
        let told = |bytes: &[u8]| read_qlog(bytes).unwrap_err().to_string();
        assert_eq!(told(b""), "it is no trace of ours: it is empty");
        assert!(told(b"\xd4\xc3\xb2\xa1\x02").contains("its beginning is no JSON"));
        assert!(told(b"{\"traces\":[]}").contains("qlog's other form"));
        assert!(told(b"[]").contains("there is no `trace`"));
        assert!(told(&vec![b' '; MAX_RECORD as usize + 2]).contains("more than a mebibyte"));
    }

    #[test]
    fn many_paths_events_and_reasons_are_limited() {
        let events: Vec<String> = (0..5_000)
            .flat_map(|n| {
                [
                    format!(r#"{{"time":{n},"name":"quic:recovery_metrics_updated","data":{{"path_id":{n},"pto_count":1,"smoothed_rtt":1e300}}}}"#),
                    format!(r#"{{"time":{n},"name":"mendpath:recovery","data":{{"reason":"r{n}","count":18446744073709551615}}}}"#),
                ]
            })
            .collect();
        let all: Vec<&str> = std::iter::once(HEAD).chain(events.iter().map(String::as_str)).collect();
        let view = read(&all).unwrap();
        assert_eq!((view.paths.len(), view.left_out), (32, 4_968));
        assert!(view.events.len() <= 200 && view.reasons.len() == 64);
        assert!(super::super::qlog_page(&view).len() < 1 << 20);
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused(records in proptest::collection::vec(".{0,60}", 0..6)) {
            let records: Vec<&str> = std::iter::once(HEAD).chain(records.iter().map(String::as_str)).collect();
            if let Ok(view) = read(&records) {
                super::super::qlog_page(&view);
            }
        }

        #[test]
        fn any_numbers_make_a_page(time in any::<f64>(), path in any::<u64>(), rtt in any::<f64>(), offset in any::<u64>(), length in any::<u64>()) {
            let metrics = format!(r#"{{"time":{time:e},"name":"quic:recovery_metrics_updated","data":{{"path_id":{path},"smoothed_rtt":{rtt:e}}}}}"#);
            let packet = format!(r#"{{"time":1,"name":"quic:packet_received","data":{{"path_id":{path},"frames":[{{"frame_type":"stream","stream_id":1,"offset":{offset},"raw":{{"payload_length":{length}}}}}]}}}}"#);
            if let Ok(view) = read(&[HEAD, &metrics, &packet, &metrics]) {
                super::super::qlog_page(&view);
            }
        }
    }
}
