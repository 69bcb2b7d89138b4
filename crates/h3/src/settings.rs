//! What the streams of a connection have in common, and what the peer's SETTINGS say, as far as `h3` keeps
//! it to itself.

use std::sync::atomic::{AtomicU64, Ordering};

use h3::proto::frame::{Frame, FrameError, SettingId};

/// What the streams of a connection have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    /// What is closed for a frame that is malformed.
    pub(crate) connection: mendpath::Connection,
    /// What the peer's control stream says.
    pub(crate) limit: FieldSectionLimit,
}

/// The largest field section that the peer takes, in bytes (RFC 9114 section 4.2.2): any until it says
/// otherwise.
#[derive(Debug)]
pub(crate) struct FieldSectionLimit(AtomicU64);

impl Default for FieldSectionLimit {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl FieldSectionLimit {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The first frame of a control stream (RFC 9114 section 6.2.1) of a type that `h3` knows, gathered from the
/// pieces that it is shown.
#[derive(Debug, Default)]
pub(crate) enum FirstFrame {
    #[default]
    Nothing,
    Begun(Vec<u8>),
    Whole,
}

impl FirstFrame {
    /// The next piece of the stream. What is wrong with it is for `h3` to find.
    pub(crate) fn push(&mut self, piece: &[u8], limit: &FieldSectionLimit) {
        let mut frame = match std::mem::take(self) {
            Self::Nothing => Vec::new(),
            Self::Begun(frame) => frame,
            Self::Whole => return *self = Self::Whole,
        };
        frame.extend(piece);
        *self = match Frame::decode(&mut &frame[..]) {
            Err(FrameError::Incomplete(_)) => Self::Begun(frame),
            // `h3` passes over it, and takes SETTINGS that come next. No piece goes beyond a frame.
            Err(FrameError::UnknownFrame(_)) => Self::Nothing,
            Ok(Frame::Settings(settings)) => {
                let said = settings.get(SettingId::MAX_HEADER_LIST_SIZE);
                limit.0.store(said.unwrap_or(u64::MAX), Ordering::Relaxed);
                Self::Whole
            }
            _ => Self::Whole,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SETTINGS with SETTINGS_MAX_FIELD_SECTION_SIZE of 1,000 behind a reserved setting.
    const SETTINGS: [u8; 7] = [0x04, 5, 0x21, 0, 0x06, 0x43, 0xe8];

    #[test]
    fn it_is_found_in_whatever_pieces_it_comes() {
        for size in 1..=SETTINGS.len() {
            let (mut first, limit) = (FirstFrame::default(), FieldSectionLimit::default());
            assert_eq!(limit.get(), u64::MAX);
            SETTINGS.chunks(size).for_each(|piece| first.push(piece, &limit));
            assert_eq!(limit.get(), 1_000, "pieces of {size}");
            // A second time is for h3 to refuse.
            first.push(&[0x04, 2, 0x06, 5], &limit);
            assert_eq!(limit.get(), 1_000);
        }
    }

    #[test]
    fn frames_that_nobody_knows_are_passed_over() {
        for size in 1..=3 {
            let (mut first, limit) = (FirstFrame::default(), FieldSectionLimit::default());
            let unknown = [0x21_u8, 1, 0];
            [&unknown[..], &unknown, &SETTINGS]
                .into_iter()
                .flat_map(|frame| frame.chunks(size))
                .for_each(|piece| first.push(piece, &limit));
            assert!(matches!(first, FirstFrame::Whole) && limit.get() == 1_000, "pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_settings_says_nothing() {
        // The last one says the same thing twice.
        for frame in [&[0x07, 1, 0][..], &[0x04, 0], &[0x04, 5, 0x06, 0x43, 0xe8, 0x06, 5]] {
            let (mut first, limit) = (FirstFrame::default(), FieldSectionLimit::default());
            first.push(frame, &limit);
            first.push(&SETTINGS, &limit);
            assert!(matches!(first, FirstFrame::Whole) && limit.get() == u64::MAX, "{frame:x?}");
        }
    }
}
