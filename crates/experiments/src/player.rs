//! A video player: it waits until it has so much of the video, plays, and waits again when it has
//! run dry.
//!
//! CTCP section 6.5 (Fig. 8). The paper plays a video of 60 s with vlc and counts how long that
//! takes and how often the buffer runs empty. Its buffer and bit rate are not stated; here they are
//! parameters.
//!
//! # Departures
//! - The player skips nothing: what is late delays all that comes after it.
//! - Pieces of the video are equally long and equally large.
//!
//! # Invariants
//! Playing takes at least the video's length, and exactly that plus start-up plus the time stalled.

use units::{Duration, Instant};

/// How a video is played.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Player {
    /// What a piece of the video shows.
    pub piece: Duration,
    /// Pieces that must be there before it plays, at first and after it has run dry; at least 1,
    /// fewer at the video's end.
    pub buffer: usize,
}

/// How it went.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Playback {
    /// From the request until the first picture; `None` if it never came.
    pub startup: Option<Duration>,
    /// From the request until the last picture has been shown; `None` if the video did not arrive
    /// in time.
    pub playout: Option<Duration>,
    /// How often it ran dry.
    pub underruns: u32,
    /// How long it waited after that, in all.
    pub stalled: Duration,
}

impl Player {
    /// Plays a video that was asked for at `asked` and whose pieces arrived in order at these times
    /// ([`Instant::MAX`]: not yet).
    pub fn play(&self, asked: Instant, arrivals: &[Instant]) -> Playback {
        let mut playback = Playback::default();
        let Some(mut now) = self.filled(arrivals, 0) else { return playback };
        playback.startup = Some(now.saturating_duration_since(asked));
        for (piece, arrival) in arrivals.iter().enumerate() {
            if *arrival > now {
                playback.underruns += 1;
                let Some(full) = self.filled(arrivals, piece) else { return playback };
                playback.stalled += full.saturating_duration_since(now);
                now = full;
            }
            now += self.piece;
        }
        playback.playout = Some(now.saturating_duration_since(asked));
        playback
    }

    /// When the buffer is full, if the next piece to be played is `next`.
    fn filled(&self, arrivals: &[Instant], next: usize) -> Option<Instant> {
        let end = arrivals.len().min(next.saturating_add(self.buffer.max(1)));
        arrivals.get(next..end)?.iter().max().copied().filter(|full| *full != Instant::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAYER: Player = Player { piece: Duration::from_millis(100), buffer: 3 };

    fn played(arrivals_ms: &[u64]) -> Playback {
        let at = |ms: &u64| match ms {
            &u64::MAX => Instant::MAX,
            ms => Instant::ORIGIN + Duration::from_millis(*ms),
        };
        PLAYER.play(Instant::ORIGIN, &arrivals_ms.iter().map(at).collect::<Vec<_>>())
    }

    fn ms(ms: u64) -> Option<Duration> {
        Some(Duration::from_millis(ms))
    }

    #[test]
    fn a_video_in_time_takes_its_length_and_the_start() {
        let playback = played(&[10, 20, 30, 200, 330, 430]);
        assert_eq!((playback.startup, playback.playout), (ms(30), ms(630)));
        assert_eq!((playback.underruns, playback.stalled), (0, Duration::ZERO));
    }

    #[test]
    fn who_runs_dry_waits_for_a_full_buffer() {
        // The fourth piece is due at 330 ms and there at 400; playing goes on when the sixth is
        // there.
        let playback = played(&[10, 20, 30, 400, 450, 500, 510]);
        assert_eq!((playback.underruns, playback.stalled), (1, Duration::from_millis(170)));
        assert_eq!(playback.playout, ms(30 + 700 + 170));
    }

    #[test]
    fn at_the_end_the_buffer_is_what_is_left() {
        let playback = played(&[10, 20, 30, 40, 600]);
        assert_eq!((playback.underruns, playback.playout), (1, ms(700)));
    }

    #[test]
    fn a_video_that_does_not_come_has_no_end() {
        let playback = played(&[10, 20, 30, u64::MAX]);
        assert_eq!((playback.startup, playback.playout, playback.underruns), (ms(30), None, 1));
        assert_eq!(played(&[10, u64::MAX, 30]), Playback::default());
        assert_eq!(PLAYER.play(Instant::ORIGIN, &[]), Playback::default());
    }
}
