//! Frames that look like a camera's: 30 a second, each second a group that begins with a key frame
//! five times as large as the others; 3 Mbit/s.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use moq_net::{Hop, Timestamp, origin, track};
use tokio::time::Instant;

use crate::{BROADCAST, TRACK};

const FRAMES_PER_SECOND: u32 = 30;
const KEY_FRAME: usize = 55_000;
const OTHER_FRAME: usize = 11_000;

/// A camera that is on.
pub(crate) struct Camera {
    origin: origin::Producer,
    taken: Arc<Mutex<Vec<Duration>>>,
}

impl Camera {
    /// On from `began` on, for so long. Frames are called by their number.
    pub(crate) fn start(began: Instant, duration: Duration) -> anyhow::Result<Self> {
        let (origin, driver) = origin::Producer::new(origin::Config::new(Hop::random()));
        tokio::spawn(moq_net::time::run(driver));
        let broadcast = origin.create_broadcast(BROADCAST)?;
        let track =
            broadcast.create_track(TRACK, track::Info::default().with_max_age(Duration::from_secs(3)))?;
        broadcast.announce(Default::default())?;
        let taken = Arc::<Mutex<Vec<Duration>>>::default();
        let film = taken.clone();
        tokio::spawn(async move {
            // The broadcast is over with its last handle.
            let _broadcast = broadcast;
            let frames = FRAMES_PER_SECOND * u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
            let mut group = None;
            for number in 0..frames {
                tokio::time::sleep_until(began + Duration::from_secs(1) * number / FRAMES_PER_SECOND).await;
                if number % FRAMES_PER_SECOND == 0 {
                    if let Some(before) = group.replace(track.append_group()?) {
                        moq_net::group::Producer::finish(&before)?;
                    }
                }
                let length = if number % FRAMES_PER_SECOND == 0 { KEY_FRAME } else { OTHER_FRAME };
                let mut frame = vec![0; length];
                frame[..4].copy_from_slice(&number.to_be_bytes());
                film.lock().unwrap_or_else(PoisonError::into_inner).push(began.elapsed());
                group.as_mut().expect("it begins with one").write_frame(Timestamp::now(), frame)?;
            }
            // Open until the measurement is over.
            std::future::pending::<Result<(), moq_net::Error>>().await
        });
        Ok(Self { origin, taken })
    }

    pub(crate) fn origin(&self) -> &origin::Producer {
        &self.origin
    }

    /// When each frame was taken, since it began.
    pub(crate) fn taken(&self) -> Vec<Duration> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
