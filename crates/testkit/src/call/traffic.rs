//! What a call sends, and how it is judged: audio and video as datagrams, without a network or a
//! clock. Simulation and lab make the same call of it.
//!
//! | stream | frames | bytes of a frame |
//! | --- | --- | --- |
//! | audio | 50 per second | 120 |
//! | video | 30 per second | about 6,500; a key frame, every 3 s, about five times that |
//!
//! A frame is cut into datagrams of at most [`PIECE`] bytes, and is in time if enough of them have
//! been read at the other end within the deadline. Audio has the higher priority.

use std::collections::{BTreeMap, BTreeSet};

use netsim::{Rng, Seed};
use proto::RecoveryKind;
use units::{Duration, Instant};

/// Payload bytes of a datagram, at most.
pub const PIECE: usize = 1_050;
/// Bytes in front of them: stream, frame, piece, sources.
const HEADER: usize = 10;
/// Bytes of an audio frame.
const AUDIO: usize = 120;
/// Audio frames, of which fixed FEC protects so many together.
const AUDIO_GROUP: u32 = 5;
/// Time between audio frames, between video frames, and how many of these from key frame to key
/// frame.
const AUDIO_EVERY: Duration = Duration::from_millis(20);
const VIDEO_EVERY: Duration = Duration::from_micros(33_333);
const KEY_EVERY: u64 = 90;

/// What is done about loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// The transport's recovery scheme.
    Scheme(RecoveryKind),
    /// Every datagram twice, by the application.
    Copies,
    /// One parity for five datagrams, by the application: of a video frame's pieces (rounded up), of
    /// five audio frames.
    Fec,
}

impl Protection {
    /// All that are compared.
    pub const ALL: [Self; 6] = [
        Self::Scheme(RecoveryKind::Auto),
        Self::Scheme(RecoveryKind::Streaming),
        Self::Scheme(RecoveryKind::Cofuso),
        Self::Copies,
        Self::Fec,
        Self::Scheme(RecoveryKind::None),
    ];

    /// What it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scheme(kind) => kind.name(),
            Self::Copies => "copies",
            Self::Fec => "fec 20 %",
        }
    }

    pub(super) fn recovery(self) -> RecoveryKind {
        match self {
            Self::Scheme(kind) => kind,
            Self::Copies | Self::Fec => RecoveryKind::None,
        }
    }
}

/// The streams of a call; the parities of audio frames have one of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stream {
    Audio,
    Video,
    AudioParity,
}

/// A frame's name: its stream and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(Stream, u32);

impl Name {
    /// Whether it is of audio.
    pub fn is_audio(self) -> bool {
        self.0 == Stream::Audio
    }

    /// Five bytes that mean it, as at the head of its datagrams.
    pub fn to_bytes(self) -> [u8; 5] {
        let [a, b, c, d] = self.1.to_be_bytes();
        [self.0 as u8, a, b, c, d]
    }

    /// The name that these bytes mean.
    pub fn from_bytes([stream, number @ ..]: [u8; 5]) -> Option<Self> {
        let streams = [Stream::Audio, Stream::Video, Stream::AudioParity];
        Some(Self(*streams.get(usize::from(stream))?, u32::from_be_bytes(number)))
    }
}

/// A frame to be sent.
#[derive(Clone, Debug)]
pub struct Frame {
    /// What it is called.
    pub name: Name,
    /// When it is taken, from the start of the call.
    pub at: Duration,
    /// Its own bytes.
    pub bytes: usize,
    /// Datagrams that are enough.
    pub needed: usize,
    /// Its datagrams in their order, with what the application adds to protect them.
    pub datagrams: Vec<Vec<u8>>,
    /// The priority of all of them.
    pub priority: i32,
}

/// The frames of a call, one after the other.
#[derive(Debug)]
pub struct Traffic {
    sizes: Rng,
    protection: Protection,
    audio: u32,
    video: u32,
}

impl Traffic {
    /// A call from its start; the seed decides over the sizes of video frames.
    pub fn new(seed: Seed, protection: Protection) -> Self {
        Self { sizes: Rng::new(seed.child("frame sizes", 0)), protection, audio: 0, video: 0 }
    }

    /// When the next frame is taken, from the start.
    pub fn next_at(&self) -> Duration {
        self.audio_at().min(self.video_at())
    }

    fn audio_at(&self) -> Duration {
        AUDIO_EVERY * u64::from(self.audio)
    }

    fn video_at(&self) -> Duration {
        VIDEO_EVERY * u64::from(self.video)
    }

    /// The next frame.
    pub fn take(&mut self) -> Frame {
        if self.audio_at() <= self.video_at() { self.take_audio() } else { self.take_video() }
    }

    fn take_audio(&mut self) -> Frame {
        let (at, number) = (self.audio_at(), self.audio);
        self.audio += 1;
        let mut frame = self.frame(Name(Stream::Audio, number), at, &[AUDIO]);
        if self.protection == Protection::Fec && number % AUDIO_GROUP == AUDIO_GROUP - 1 {
            // Parity over the last five: a datagram of another stream stands for it.
            let group = Name(Stream::AudioParity, number / AUDIO_GROUP);
            frame.datagrams.push(datagram(group, 0, AUDIO, 1));
        }
        frame
    }

    fn take_video(&mut self) -> Frame {
        let (at, number) = (self.video_at(), self.video);
        self.video += 1;
        let key = u64::from(number) % KEY_EVERY == 0;
        // 0.7 to 1.3 of the mean.
        let spread = 0.7 + 0.6 * (self.sizes.next_u64() % 1_000) as f64 / 1_000.0;
        let bytes = (6_500.0 * spread * if key { 5.0 } else { 1.0 }) as usize;
        let mut pieces = vec![PIECE; bytes / PIECE];
        pieces.push(bytes % PIECE + 1);
        let name = Name(Stream::Video, number);
        let mut frame = self.frame(name, at, &pieces);
        if self.protection == Protection::Fec {
            for parity in 0..pieces.len().div_ceil(5) {
                frame.datagrams.push(datagram(name, pieces.len() + parity, PIECE, pieces.len()));
            }
        }
        frame
    }

    fn frame(&self, name: Name, at: Duration, pieces: &[usize]) -> Frame {
        let times = if self.protection == Protection::Copies { 2 } else { 1 };
        let piece = |(piece, len): (usize, &usize)| {
            std::iter::repeat_n(datagram(name, piece, *len, pieces.len()), times)
        };
        Frame {
            name,
            at,
            bytes: pieces.iter().sum(),
            needed: pieces.len(),
            datagrams: pieces.iter().enumerate().flat_map(piece).collect(),
            priority: i32::from(name.is_audio()),
        }
    }
}

fn datagram(name: Name, piece: usize, len: usize, sources: usize) -> Vec<u8> {
    let mut data = vec![0; HEADER + len];
    data[..5].copy_from_slice(&name.to_bytes());
    (data[5], data[6]) = (piece as u8, sources as u8);
    data
}

/// What has been read of a call's datagrams. It grows with the call's time, and no further: frames
/// that do not fit into it are not looked at.
#[derive(Debug)]
pub struct Arrivals {
    frames: BTreeMap<Name, Arrival>,
    /// Groups of audio frames whose parity has come.
    parities: BTreeSet<u32>,
    time: Duration,
}

#[derive(Debug, Default)]
struct Arrival {
    pieces: BTreeSet<u8>,
    done_at: Option<Instant>,
}

impl Arrivals {
    /// Nothing yet of a call that takes so long.
    pub fn new(time: Duration) -> Self {
        Self { frames: BTreeMap::new(), parities: BTreeSet::new(), time }
    }

    /// A datagram has been read. What is none of a call is ignored.
    pub fn read(&mut self, data: &[u8], now: Instant) {
        let Some((&[a, b, c, d, e, piece, sources], _)) = data.split_first_chunk() else { return };
        let Some(name) = Name::from_bytes([a, b, c, d, e]).filter(|name| self.is_of_call(*name)) else {
            return;
        };
        if name.0 == Stream::AudioParity {
            self.parities.insert(name.1);
            return self.mend_audio(name.1, now);
        }
        let frame = self.frames.entry(name).or_default();
        frame.pieces.insert(piece);
        if frame.pieces.len() >= usize::from(sources) && frame.done_at.is_none() {
            frame.done_at = Some(now);
            // Over several paths a parity may come before a frame that it was made of.
            let group = name.1 / AUDIO_GROUP;
            if name.is_audio() && self.parities.contains(&group) {
                self.mend_audio(group, now);
            }
        }
    }

    fn is_of_call(&self, Name(stream, number): Name) -> bool {
        let every = match stream {
            Stream::Audio => AUDIO_EVERY,
            Stream::Video => VIDEO_EVERY,
            Stream::AudioParity => AUDIO_EVERY * u64::from(AUDIO_GROUP),
        };
        every * u64::from(number) < self.time
    }

    /// The parity of a group has come: it stands for one frame of its five, if the others are there by
    /// now.
    fn mend_audio(&mut self, group: u32, now: Instant) {
        let names =
            (group * AUDIO_GROUP..(group + 1) * AUDIO_GROUP).map(|number| Name(Stream::Audio, number));
        let missing: Vec<Name> = names.filter(|name| self.done_at(*name).is_none()).collect();
        if let [name] = missing[..] {
            self.frames.entry(name).or_default().done_at = Some(now);
        }
    }

    /// When enough of a frame had been read.
    pub fn done_at(&self, name: Name) -> Option<Instant> {
        self.frames.get(&name)?.done_at
    }

    /// Datagrams of a frame that have been read, repeated ones not counted.
    fn pieces(&self, name: Name) -> usize {
        self.frames.get(&name).map_or(0, |frame| frame.pieces.len())
    }
}

/// A frame that was sent, as the sender remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// What it is called.
    pub name: Name,
    /// When it was handed over.
    pub at: Instant,
    /// Datagrams that are enough.
    pub needed: usize,
    /// Whether a path was cut at that moment.
    pub while_cut: bool,
}

/// How many frames of a kind there were, and how many in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// All.
    pub all: u64,
    /// Those that were complete in time.
    pub in_time: u64,
}

impl Frames {
    /// The share of frames in time, 0 to 1.
    pub fn share(&self) -> f64 {
        self.in_time as f64 / self.all.max(1) as f64
    }

    fn count(&mut self, in_time: bool) {
        self.all += 1;
        self.in_time += u64::from(in_time);
    }
}

/// What became of the frames of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// All frames.
    pub frames: Frames,
    /// Those of audio.
    pub audio: Frames,
    /// Those taken while a path was cut.
    pub while_cut: Frames,
    /// Times of the frames that were late, and how many of their datagrams were missing.
    pub missed: Vec<(Instant, usize)>,
}

impl Verdict {
    /// Judges what was sent by what has been read, for a deadline after a frame was handed over.
    pub fn of(sent: &[Sent], arrivals: &Arrivals, deadline: Duration) -> Self {
        let mut verdict = Self::default();
        for frame in sent {
            let done_at = arrivals.done_at(frame.name);
            let in_time = done_at.is_some_and(|at| at.saturating_duration_since(frame.at) <= deadline);
            verdict.frames.count(in_time);
            if frame.name.is_audio() {
                verdict.audio.count(in_time);
            }
            if frame.while_cut {
                verdict.while_cut.count(in_time);
            }
            if !in_time {
                verdict.missed.push((frame.at, frame.needed.saturating_sub(arrivals.pieces(frame.name))));
            }
        }
        verdict.missed.sort();
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn frames(protection: Protection) -> Vec<Frame> {
        let mut traffic = Traffic::new(Seed(1), protection);
        std::iter::from_fn(|| (traffic.next_at() < SECOND).then(|| traffic.take())).collect()
    }

    /// Everything is read 10 ms after it was taken, but for what `lost` picks.
    fn verdict(frames: &[Frame], lost: impl Fn(&Frame, usize) -> bool) -> Verdict {
        let mut arrivals = Arrivals::new(SECOND);
        let at = |frame: &Frame| Instant::from_nanos(0) + frame.at;
        for frame in frames {
            for (place, data) in frame.datagrams.iter().enumerate() {
                if !lost(frame, place) {
                    arrivals.read(data, at(frame) + Duration::from_millis(10));
                }
            }
        }
        let sent =
            |frame: &Frame| Sent { name: frame.name, at: at(frame), needed: frame.needed, while_cut: false };
        Verdict::of(&frames.iter().map(sent).collect::<Vec<_>>(), &arrivals, Duration::from_millis(150))
    }

    #[test]
    fn a_second_has_fifty_frames_of_audio_and_thirty_and_one_of_video() {
        let frames = frames(Protection::Scheme(RecoveryKind::None));
        assert_eq!(frames.iter().filter(|frame| frame.name.is_audio()).count(), 50);
        // 30 x 33.333 ms is a little less than a second.
        assert_eq!(frames.len(), 50 + 31);
        let all = verdict(&frames, |_, _| false);
        assert_eq!((all.frames.share(), all.missed.len()), (1.0, 0));
        let first_lost = verdict(&frames, |_, place| place == 0);
        assert_eq!((first_lost.frames.in_time, first_lost.audio.all), (0, 50));
    }

    #[test]
    fn copies_and_parities_of_the_application_stand_for_what_is_lost() {
        let copied = frames(Protection::Copies);
        let lost = verdict(&copied, |_, place| place % 2 == 0);
        assert_eq!(lost.frames.share(), 1.0);
        let coded = frames(Protection::Fec);
        assert_eq!(verdict(&coded, |frame, place| !frame.name.is_audio() && place == 0).frames.share(), 1.0);
        // Every fifth frame of audio has the parity behind it.
        let third = |frame: &Frame, place| frame.name.1 % 5 == 3 && frame.name.is_audio() && place == 0;
        assert_eq!(verdict(&coded, third).audio.share(), 1.0);
        let two = |frame: &Frame, place| frame.name.1 % 5 < 2 && frame.name.is_audio() && place == 0;
        assert_eq!(verdict(&coded, two).audio.in_time, 30);
    }

    #[test]
    fn a_parity_that_overtakes_a_frame_stands_for_another_that_is_lost() {
        let coded = frames(Protection::Fec);
        let audio: Vec<&Frame> = coded.iter().filter(|frame| frame.name.is_audio()).take(5).collect();
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut arrivals = Arrivals::new(SECOND);
        for (place, ms) in [(0, 10), (2, 50), (3, 70)] {
            arrivals.read(&audio[place].datagrams[0], at(ms));
        }
        arrivals.read(&audio[4].datagrams[1], at(90));
        assert_eq!(arrivals.done_at(audio[1].name), None, "two are missing");
        arrivals.read(&audio[4].datagrams[0], at(95));
        assert_eq!([1, 4].map(|place| arrivals.done_at(audio[place].name)), [Some(at(95)); 2]);
    }

    #[test]
    fn what_is_no_datagram_of_the_call_takes_no_memory() {
        let mut arrivals = Arrivals::new(SECOND);
        let now = Instant::from_nanos(0);
        arrivals.read(&[0; 6], now);
        arrivals.read(&[3, 0, 0, 0, 0, 0, 1, 0], now);
        for number in 0..1_000_u32 {
            arrivals.read(&datagram(Name(Stream::Audio, number), 0, 10, 1), now);
            arrivals.read(&datagram(Name(Stream::AudioParity, number), 0, 10, 1), now);
        }
        assert_eq!(arrivals.frames.len(), 50);
    }
}
