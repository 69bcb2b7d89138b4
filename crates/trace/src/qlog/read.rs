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
    /// A record in the midst of it is no JSON; the line, from 1, and what is wrong.
    #[error("line {0} is damaged: {1}")]
    Line(u64, String),
    /// A record, or the whole, is longer than any trace of ours.
    #[error("{0}")]
    TooLong(&'static str),
}

/// Reads a trace to its end. The last record may be cut off or damaged, which the page says.
///
/// # Errors
/// If it is no trace, or damaged before its end.
pub fn read_qlog(mut input: impl BufRead) -> Result<QlogView, QlogError> {
    let mut view = QlogView::default();
    let (mut record, mut number, mut total, mut line) = (Vec::new(), 0, 0_u64, 1);
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
        let whole = record.strip_suffix(&[SEPARATOR]).unwrap_or(&record);
        let text = whole.trim_ascii();
        let before = lines(&whole[..whole.len() - whole.trim_ascii_start().len()]);
        let begins = line + before;
        line += lines(&record);
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
            Err(error) if is_last => {
                let is_cut = error.is_eof() && whole.last() != Some(&b'\n');
                let (line, wrong) = place(begins, &error);
                view.last_record = Some(match is_cut {
                    true => "The last record was cut off and is left out".to_owned(),
                    false => format!("The last record, line {line}, is damaged and left out: {wrong}"),
                });
            }
            Err(error) => {
                let (line, wrong) = place(begins, &error);
                return Err(QlogError::Line(line, wrong));
            }
        }
    }
    if number == 0 {
        return Err(QlogError::Form("it is empty".to_owned()));
    }
    Ok(view)
}

fn lines(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// The line of the file where a record that begins in line `begins` is wrong, and what is.
fn place(begins: u64, error: &serde_json::Error) -> (u64, String) {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    (begins + (error.line() as u64).saturating_sub(1), format!("{what}, column {}", error.column()))
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
        assert_eq!(
            (view.last_record.unwrap().as_str(), view.records),
            ("The last record was cut off and is left out", 1)
        );
        let damaged = read(&[HEAD, "{\"time\":1,", event]).unwrap_err().to_string();
        assert!(damaged.starts_with("line 2 is damaged: EOF while parsing"), "{damaged}");
        let two_lines = format!("{event}\n\n");
        let damaged = read(&[HEAD, &two_lines, "{\n\"time\": nonsense}", event]).unwrap_err().to_string();
        assert_eq!(damaged, "line 6 is damaged: expected ident, column 10");
        let view = read(&[HEAD, event, "{\"time\": nonsense}"]).unwrap();
        let told = view.last_record.unwrap();
        assert!(told.starts_with("The last record, line 3, is damaged and left out: expected"), "{told}");
        let told = read(&[HEAD, event, "{\"time\":"]).unwrap().last_record.unwrap();
        assert!(told.contains("line 3, is damaged"), "its line is complete: {told}");
    }

    #[test]
    fn what_becomes_of_paths_is_listed() {
        let packet = |time: u32, name: &str, frame: &str| {
            format!(r#"{{"time":{time},"name":"quic:{name}","data":{{"path_id":1,"frames":[{frame}]}}}}"#)
        };
        let events = [
            packet(10, "packet_sent", r#"{"frame_type":"path_challenge"}"#),
            packet(12, "packet_sent", r#"{"frame_type":"path_challenge"}"#),
            packet(35, "packet_received", r#"{"frame_type":"path_response"}"#),
            packet(36, "packet_received", r#"{"frame_type":"path_response"}"#),
            packet(40, "packet_sent", r#"{"frame_type":"multipath:path_abandon","path_id":7,"details":"x"}"#),
            packet(
                41,
                "packet_sent",
                r#"{"frame_type":"multipath:path_status","details":"PathStatus { path: PathId(3) }"}"#,
            ),
        ];
        let all: Vec<&str> = std::iter::once(HEAD).chain(events.iter().map(String::as_str)).collect();
        let listed: Vec<(Option<u64>, String)> =
            read(&all).unwrap().events.list().into_iter().map(|event| (event.path, event.text)).collect();
        let expected = [
            (Some(1), "first seen"),
            (Some(1), "we said PATH_CHALLENGE"),
            (Some(1), "we said PATH_CHALLENGE"),
            (Some(1), "path validated: PATH_RESPONSE, 25.0 ms after the first challenge"),
            (Some(1), "the peer said PATH_RESPONSE once more"),
            (Some(7), "we said PATH_ABANDON: x"),
            (Some(3), "we said PATH_STATUS: PathStatus { path: PathId(3) }"),
        ];
        assert_eq!(listed, expected.map(|(path, text)| (path, text.to_owned())));
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
        assert!(view.events.list().len() <= 304 && view.reasons.len() == 64);
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
