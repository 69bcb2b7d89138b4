//! Until when somebody is waited for.

use std::{future::poll_fn, pin::Pin, task::Poll, time::Duration};

use tokio::time::{Instant, error::Elapsed, timeout};

/// As good as never. The clock does not go as far as [`Duration::MAX`], which says that there is no limit.
const NEVER: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The moment after so long from now on.
pub(crate) fn after(patience: Duration) -> Instant {
    Instant::now() + patience.min(NEVER)
}

/// What a future comes to, if it does in time: `patience` begins when it has to wait. It is pinned by who
/// calls, since a future that is passed on takes its size twice, and some are large.
pub(crate) async fn within<F: Future>(
    patience: Duration,
    mut future: Pin<&mut F>,
) -> Result<F::Output, Elapsed> {
    if let Poll::Ready(output) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
        return Ok(output);
    }
    timeout(patience, future).await
}

/// Waits for as long as there is progress, since the client takes some of a response: behind a slow network
/// many share what there is. `None` once there is none for so long.
pub(crate) async fn while_taken<F: Future, P: PartialEq>(
    mut future: Pin<&mut F>,
    progress: impl Fn() -> P,
    patience: Duration,
) -> Option<F::Output> {
    // Most need not wait, and ask for none.
    if let Poll::Ready(output) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
        return Some(output);
    }
    loop {
        let before = progress();
        match timeout(patience, future.as_mut()).await {
            Ok(output) => return Some(output),
            Err(_) if progress() == before => return None,
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep_until;

    use super::*;

    /// However long all of it takes.
    #[tokio::test(start_paused = true)]
    async fn who_takes_some_of_the_rest_again_and_again_is_waited_for() {
        let patience = Duration::from_secs(60);
        // Acknowledged every so many seconds, to the end or to the middle.
        for (pause, until, taken) in [(50, 10, true), (61, 10, false), (50, 5, false)] {
            let begin = Instant::now();
            let steps = || begin.elapsed().as_secs() / pause;
            let left = || 10 - steps().min(until);
            let mut end = Box::pin(sleep_until(begin + Duration::from_secs(pause * 10)));
            let end = while_taken(Pin::new(&mut end), left, patience).await;
            assert_eq!(end.is_some(), taken, "{pause} s, {until} times");
        }
    }
}
