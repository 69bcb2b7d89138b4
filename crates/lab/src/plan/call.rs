//! A call: audio and video as datagrams with a deadline.

use serde::{Deserialize, Serialize};
use units::Duration;

use super::{
    Scale,
    measure::{check_count, one},
    text::{maybe, text},
};

/// A call whose frames are of use for a while: how many of them arrive in time.
///
/// The calls of all contenders go on at the same time, each over links of its own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// What it is called; made from the rest if empty.
    #[serde(default)]
    pub name: String,
    /// How long it takes.
    #[serde(deserialize_with = "text")]
    pub time: Duration,
    /// The same at the quick scale; a third unless given.
    #[serde(default, deserialize_with = "maybe")]
    pub quick_time: Option<Duration>,
    /// For how long a frame is of use.
    #[serde(default = "a_conversation", deserialize_with = "text")]
    pub deadline: Duration,
    /// Calls per contender.
    #[serde(default = "one")]
    pub count: u32,
    /// Calls per contender at the quick scale; one unless given.
    pub quick: Option<u32>,
    /// A path is cut now and then, in both directions.
    pub cuts: Option<Cuts>,
}

/// A path that is cut, again and again.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cuts {
    /// Which.
    pub path: usize,
    /// From the start of one cut to that of the next; the first comes after that.
    #[serde(deserialize_with = "text")]
    pub every: Duration,
    /// For how long.
    #[serde(deserialize_with = "text")]
    pub time: Duration,
}

/// What became of a call, as its receiving end says; the sums of all if there were several.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CallOutcome {
    /// Frames.
    pub frames: u64,
    /// Those that were complete within the deadline.
    pub frames_in_time: u64,
    /// Frames of audio.
    pub audio: u64,
    /// Those of them that were complete within the deadline.
    pub audio_in_time: u64,
    /// Frames taken while a path was cut.
    pub while_cut: u64,
    /// Those of them that were complete within the deadline.
    pub while_cut_in_time: u64,
    /// Bytes of frames, without what was added to protect them.
    pub media_bytes: u64,
    /// Datagrams that were sent, as the sender's transport counts like the rest.
    pub datagrams: u64,
    /// Those that arrived in time by themselves.
    pub datagrams_in_time: u64,
    /// Those that repair brought in time.
    pub datagrams_mended: u64,
    /// Those that arrived late, or not at all.
    pub datagrams_late: u64,
    /// Those that were not sent, because they could not have arrived in time.
    pub datagrams_expired: u64,
}

impl core::ops::AddAssign for CallOutcome {
    fn add_assign(&mut self, other: Self) {
        self.frames += other.frames;
        self.frames_in_time += other.frames_in_time;
        self.audio += other.audio;
        self.audio_in_time += other.audio_in_time;
        self.while_cut += other.while_cut;
        self.while_cut_in_time += other.while_cut_in_time;
        self.media_bytes += other.media_bytes;
        self.datagrams += other.datagrams;
        self.datagrams_in_time += other.datagrams_in_time;
        self.datagrams_mended += other.datagrams_mended;
        self.datagrams_late += other.datagrams_late;
        self.datagrams_expired += other.datagrams_expired;
    }
}

fn a_conversation() -> Duration {
    Duration::from_millis(150)
}

impl Call {
    /// How long it takes.
    pub fn time(&self, scale: Scale) -> Duration {
        if scale == Scale::Quick { self.quick_time.unwrap_or(self.time / 3) } else { self.time }
    }

    /// Calls per contender.
    pub fn count(&self, scale: Scale) -> u32 {
        if scale == Scale::Quick { self.quick.unwrap_or(1) } else { self.count }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.time(Scale::Quick).max(self.time) > Duration::from_secs(3_600) {
            return Err("a call takes an hour at most".to_owned());
        }
        if self.cuts.as_ref().is_some_and(|cuts| cuts.time.is_zero() || cuts.time >= cuts.every) {
            return Err("a cut is over before the next one begins: `time` is less than `every`".to_owned());
        }
        check_count(self.count.min(self.count(Scale::Quick)), self.time(Scale::Quick).min(self.deadline))
    }
}
