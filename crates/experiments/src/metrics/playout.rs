//! What a viewer sees of a video.

use super::View;

/// From the request to the end of the video, in s.
pub(super) fn playout(view: View<'_>) -> Option<f64> {
    Some(view.outcome.playback?.playout?.as_secs_f64())
}

/// How often the player ran dry.
pub(super) fn underruns(view: View<'_>) -> Option<f64> {
    Some(f64::from(view.outcome.playback?.underruns))
}

/// How long the player waited for more, after it had begun, in s.
pub(super) fn stalled(view: View<'_>) -> Option<f64> {
    Some(view.outcome.playback?.stalled.as_secs_f64())
}

/// From the request to the first picture, in ms.
pub(super) fn startup(view: View<'_>) -> Option<f64> {
    Some(view.outcome.playback?.startup?.as_secs_f64() * 1e3)
}
