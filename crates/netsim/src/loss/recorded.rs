//! Losses that somebody has recorded: a text with `0` for each packet that arrived and `1` for each that was lost.

use std::{fmt, fs, io::Read as _, path::Path, sync::Arc};

use units::LossRate;

use super::{LossModel, PacketInfo};
use crate::Seed;

/// The most packets of a recording.
const MOST: usize = 1 << 24;

/// Which of the packets of a recording were lost.
///
/// A link with it loses as they were lost, from a place on that its seed draws, so that seeds differ, and from the
/// start again behind the last.
#[derive(Clone, PartialEq, Eq)]
pub struct Recording {
    file: String,
    lost: Arc<[bool]>,
}

/// A file that is no recording.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordingError {
    /// It cannot be read.
    #[error("{file} cannot be read: {reason}")]
    Read {
        /// The file.
        file: String,
        /// What the system says.
        reason: String,
    },
    /// It has something else than packets.
    #[error("{file}, line {line}: `{found}` is neither 0, a packet that arrived, nor 1, one that was lost")]
    Character {
        /// The file.
        file: String,
        /// From 1 on.
        line: usize,
        /// What stands there.
        found: char,
    },
    /// It has no packet, or more than fit, or all are lost.
    #[error("{file} has {what}")]
    Useless {
        /// The file.
        file: String,
        /// What it has.
        what: &'static str,
    },
}

impl Recording {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or as [`Recording::parse`].
    pub fn read(file: &Path) -> Result<Self, RecordingError> {
        let name = file.display().to_string();
        let mut text = String::new();
        // A line break behind every packet is the most that anybody writes.
        let read = fs::File::open(file).and_then(|file| file.take(4 * MOST as u64).read_to_string(&mut text));
        match read {
            Ok(_) => Self::parse(&name, &text),
            Err(error) => Err(RecordingError::Read { file: name, reason: error.to_string() }),
        }
    }

    /// Reads a text: `0` for a packet that arrived, `1` for one that was lost, with white space where one likes, and
    /// comments from `#` to the end of the line. It is said to come from `file`.
    ///
    /// # Errors
    /// If there is something else, no packet, none that arrived, or more than 16,777,216.
    pub fn parse(file: &str, text: &str) -> Result<Self, RecordingError> {
        let mut lost = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let packets = line.split('#').next().unwrap_or_default();
            for found in packets.chars().filter(|c| !c.is_whitespace()) {
                lost.push(match found {
                    '0' => false,
                    '1' => true,
                    _ => {
                        let (file, line) = (file.to_owned(), number + 1);
                        return Err(RecordingError::Character { file, line, found });
                    }
                });
            }
        }
        let useless = |what| Err(RecordingError::Useless { file: file.to_owned(), what });
        match lost.len() {
            0 => useless("no packet"),
            len if len > MOST => useless("more than 16,777,216 packets"),
            _ if lost.iter().all(|lost| *lost) => useless("no packet that arrived"),
            _ => Ok(Self { file: file.to_owned(), lost: lost.into() }),
        }
    }

    /// The file that it comes from.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The share of its packets that were lost.
    pub fn loss(&self) -> LossRate {
        let lost = self.lost.iter().filter(|lost| **lost).count();
        LossRate::new(lost as f64 / self.lost.len() as f64).unwrap_or_default()
    }

    /// The model, from a place on that `seed` draws.
    pub(super) fn model(&self, seed: Seed) -> RecordedLoss {
        let first = seed.stream("recorded").below(self.lost.len() as u64);
        RecordedLoss { lost: Arc::clone(&self.lost), first }
    }
}

/// Not packet by packet.
impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = self.lost.iter().filter(|lost| **lost).count();
        write!(f, "Recording({}, {lost} of {} packets lost)", self.file, self.lost.len())
    }
}

/// Loses as was recorded.
#[derive(Clone, Debug)]
pub struct RecordedLoss {
    lost: Arc<[bool]>,
    first: u64,
}

impl LossModel for RecordedLoss {
    fn lose(&mut self, packet: &PacketInfo) -> bool {
        let len = self.lost.len() as u64;
        self.lost[((self.first + packet.index % len) % len) as usize]
    }
}

#[cfg(test)]
mod tests {
    use units::Instant;

    use super::*;

    fn lost(recording: &Recording, seed: u64, packets: u64) -> String {
        let mut model = recording.model(Seed(seed));
        let info = |index| PacketInfo { index, size: 1_200, at: Instant::ORIGIN };
        (0..packets).map(|index| if model.lose(&info(index)) { '1' } else { '0' }).collect()
    }

    #[test]
    fn packets_are_lost_as_they_were_from_a_place_that_the_seed_draws() {
        let text = "# from 10:00 on\n0001 0000\n\n0110\t0 # a burst\n";
        let recording = Recording::parse("wifi.txt", text).unwrap();
        let whole = "0001000001100";
        assert_eq!(recording.loss(), LossRate::new(3.0 / 13.0).unwrap());
        assert_eq!(format!("{recording:?}"), "Recording(wifi.txt, 3 of 13 packets lost)");
        let mut begun = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let replayed = lost(&recording, seed, 3 * 13);
            assert_eq!(replayed, lost(&recording, seed, 3 * 13), "it hangs on the seed alone");
            let start = (0..13).find(|at| [whole; 4].concat()[*at..].starts_with(&replayed)).unwrap();
            begun.insert(start);
        }
        assert!(begun.len() > 8, "{begun:?}");
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let wrong = |text: &str| Recording::parse("x", text).unwrap_err().to_string();
        assert_eq!(
            wrong("01\n0 2"),
            "x, line 2: `2` is neither 0, a packet that arrived, nor 1, one that was lost"
        );
        assert_eq!(wrong("# nothing\n"), "x has no packet");
        assert_eq!(wrong("111"), "x has no packet that arrived");
        assert_eq!(wrong(&"0".repeat(MOST + 1)), "x has more than 16,777,216 packets");
        let missing = Recording::read(Path::new("no/such.file")).unwrap_err().to_string();
        assert!(missing.starts_with("no/such.file cannot be read: "), "{missing}");
    }
}
