//! A video over one connection, from the first host of `from` to the first of `to`: `length_s` of
//! `rate_mbps`, in pieces of `piece_ms` (100). A server that is `paced` (true) writes every piece
//! when it is due, as one that encodes or streams in real time; else all at once, as one that
//! serves a file. The player starts, and goes on after it has run dry, with `buffer_ms` of video
//! (see [`Player`]).

use plans::{Keys, PlanError};
use units::{Duration, Instant};

use super::{Network, Traffic, TrafficError, Workload};
use crate::player::Player;

/// Most pieces of a video.
const MOST_PIECES: u64 = 1_000_000;

#[derive(Clone, Debug)]
struct Video {
    pieces: u64,
    bytes: u64,
    paced: bool,
    player: Player,
    from: u32,
    to: u32,
}

pub(super) fn read(keys: &mut Keys<'_>, network: &Network) -> Result<Box<dyn Workload>, PlanError> {
    let from = network.group(keys, "from")?;
    let to = network.group(keys, "to")?;
    let length = keys.float("length_s", 0.001..=1e6)?;
    let length = keys.need("length_s", length, "how long the video is")?;
    let rate = keys.float("rate_mbps", 0.001..=1e5)?;
    let rate = keys.need("rate_mbps", rate, "the video's bit rate")?;
    let buffer = keys.float("buffer_ms", 1.0..=1e7)?;
    let buffer = keys.need("buffer_ms", buffer, "how much of the video the player wants before it plays")?;
    let piece = keys.float("piece_ms", 1.0..=1e6)?.unwrap_or(100.0);
    let pieces = (length * 1e3 / piece).ceil() as u64;
    if pieces > MOST_PIECES {
        let allowed = format!("long enough for at most {MOST_PIECES} pieces");
        return Err(PlanError::value(keys.path("piece_ms"), piece, allowed));
    }
    Ok(Box::new(Video {
        pieces,
        bytes: (rate * piece * 1e3 / 8.0).ceil() as u64,
        paced: keys.flag("paced")?.unwrap_or(true),
        player: Player {
            piece: Duration::from_secs_f64(piece / 1e3),
            buffer: (buffer / piece).ceil() as usize,
        },
        from: keys.need("from", from, "the hosts that send")?.start,
        to: keys.need("to", to, "the hosts that receive")?.start,
    }))
}

impl Workload for Video {
    fn generate(&self, traffic: &mut Traffic<'_>) -> Result<(), TrafficError> {
        let connection = traffic.sim.connect(traffic.scheme, self.from, self.to)?;
        traffic.watch(connection);
        for piece in 0..self.pieces {
            let due = if self.paced { self.player.piece * piece } else { Duration::ZERO };
            traffic.message(connection, self.bytes, Instant::ORIGIN + due)?;
        }
        Ok(())
    }

    fn player(&self) -> Option<&Player> {
        Some(&self.player)
    }
}
