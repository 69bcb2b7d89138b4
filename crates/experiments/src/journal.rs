//! Finished rows, one line of JSON each, appended and flushed as they come: what an interrupted
//! experiment goes on from.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use crate::row::Row;

/// The file of a plan's rows.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Opens the journal at `path` and reads what is there. A line that is not whole (the last one
    /// after an interruption) or from an older form is skipped; its run will be done again.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn open(path: &Path) -> io::Result<(Self, Vec<Row>)> {
        Self::read_on(OpenOptions::new().append(true).create(true).open(path)?, path)
    }

    /// The same for who does the runs that are left: nobody else gets it so until it is dropped, and the
    /// system ends that also for who is killed. File systems that know no locks do without.
    ///
    /// # Errors
    /// As [`open`](Self::open); of the kind [`WouldBlock`](io::ErrorKind::WouldBlock) if somebody has it.
    pub fn open_alone(path: &Path) -> io::Result<(Self, Vec<Row>)> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, "another run is at work on it"));
            }
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        Self::read_on(file, path)
    }

    fn read_on(mut file: File, path: &Path) -> io::Result<(Self, Vec<Row>)> {
        let text = std::fs::read(path)?;
        let rows = rows(&text);
        if !text.is_empty() && !text.ends_with(b"\n") {
            file.write_all(b"\n")?;
        }
        Ok((Self { file, path: path.to_owned() }, rows))
    }

    /// The rows of the journal at `path`, which must be there, as [`open`](Self::open) reads them.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(path: &Path) -> io::Result<Vec<Row>> {
        Ok(rows(&std::fs::read(path)?))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps a row.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, row: &Row) -> io::Result<()> {
        let mut line = serde_json::to_vec(row)?;
        line.push(b'\n');
        self.file.write_all(&line)
    }
}

fn rows(text: &[u8]) -> Vec<Row> {
    text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{follow::Followed, point::Setting};

    fn row(seed: u64) -> Row {
        Row {
            plan: "p".into(),
            plan_hash: "0".into(),
            version: "1".into(),
            scheme: "tcp".into(),
            point: vec![
                ("loss".into(), Setting::Number(0.1 + 0.2)),
                ("kind".into(), Setting::Text("a".into())),
            ],
            seed,
            flows: 3,
            unfinished: 1.0 / 3.0,
            trace: "ff".into(),
            hops: 1,
            simulated_s: 1.0 / 3.0,
            metrics: vec![("x".into(), Some(2.0_f64.sqrt())), ("y".into(), None)],
            distribution: vec![(1.5, 0.5)],
            counts: vec![("before_hit".into(), vec![(3, 4)])],
            times: vec![(
                String::new(),
                [7, 9_000_000].map(units::Duration::from_nanos).into_iter().collect(),
            )],
            timeline: vec![(0.1, 0, 9)],
            followed: vec![Followed { flow: 2, acks: vec![(0.1 + 0.2, 4)], lost: 1 }],
        }
    }

    #[test]
    fn rows_come_back_as_they_were_and_a_torn_line_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let (mut journal, rows) = Journal::open(&path).unwrap();
        assert!(rows.is_empty());
        journal.add(&row(1)).unwrap();
        journal.add(&row(2)).unwrap();
        let text = std::fs::read(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 9]).unwrap();
        let (mut journal, rows) = Journal::open(&path).unwrap();
        assert_eq!(rows, [row(1)]);
        journal.add(&row(3)).unwrap();
        assert_eq!(Journal::open(&path).unwrap().1, [row(1), row(3)]);
    }

    #[test]
    fn one_at_a_time_does_what_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let (mut journal, _) = Journal::open_alone(&path).unwrap();
        let refused = Journal::open_alone(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock, "{refused}");
        journal.add(&row(1)).unwrap();
        drop(journal);
        assert_eq!(Journal::open_alone(&path).unwrap().1, [row(1)]);
    }
}
