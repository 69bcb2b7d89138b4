//! Streams that stay open as long as the connection, and hardly ever say anything.
//!
//! `h3` looks at the peer's control stream, and we at those of QPACK, at every turn of a connection's task, of which
//! each request takes some. To read in vain takes the connection's lock and leaves a waker in its books.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// Rings when there may be something to read, and lets nobody read before. It has rung at first.
#[derive(Debug)]
pub(crate) struct Bell(Arc<Wire>);

#[derive(Debug)]
struct Wire {
    has_rung: AtomicBool,
    /// Whom it wakes.
    listener: Mutex<Option<Waker>>,
}

impl Bell {
    /// Has rung.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Wire { has_rung: AtomicBool::new(true), listener: Mutex::new(None) }))
    }

    /// There may be something to read.
    pub(crate) fn ring(&self) {
        self.0.wake_by_ref();
    }

    /// Reads if it has rung since nothing was there; who polls is woken when it rings.
    pub(crate) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        // Before the look: who rings behind it finds the new listener.
        match &mut *self.0.listener() {
            Some(known) => known.clone_from(cx.waker()),
            unknown => *unknown = Some(cx.waker().clone()),
        }
        if !self.0.has_rung.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let polled = read(&mut Context::from_waker(&Waker::from(self.0.clone())));
        if polled.is_ready() {
            // There may be more.
            self.0.has_rung.store(true, Ordering::Release);
        }
        polled
    }
}

impl Wire {
    fn listener(&self) -> MutexGuard<'_, Option<Waker>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Wire {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::Release);
        let listener = self.listener().clone();
        listener.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// How often somebody was woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn nothing_is_read_before_there_may_be_something() {
        let woken = [Arc::new(Woken::default()), Arc::new(Woken::default())];
        let [one, other] = woken.clone().map(Waker::from);
        let times = || woken.each_ref().map(|woken| woken.0.load(Ordering::Relaxed));
        let (bell, mut stream) = (Bell::new(), None);
        // What the stream says, and how often it was asked.
        let mut asked = 0;
        let mut poll = |waker: &Waker, says: Poll<u8>| {
            let polled = bell.poll(&mut Context::from_waker(waker), |cx| {
                asked += 1;
                stream = Some(cx.waker().clone());
                says
            });
            (polled, asked, stream.clone())
        };
        assert_eq!(poll(&one, Poll::Ready(7)).0, Poll::Ready(7), "it has rung at first");
        assert_eq!(poll(&one, Poll::Ready(8)).0, Poll::Ready(8), "there was something, and may be more");
        let (polled, asked, reader) = poll(&one, Poll::Pending);
        assert_eq!((polled, asked), (Poll::Pending, 3));
        for waker in [&one, &other] {
            let (polled, asked, _) = poll(waker, Poll::Ready(9));
            assert_eq!((polled, asked), (Poll::Pending, 3), "there was nothing, and nobody has rung");
        }
        reader.expect("it was asked").wake();
        assert_eq!(times(), [0, 1], "who polled last is woken");
        assert_eq!(poll(&other, Poll::Pending).1, 4);
        bell.ring();
        assert_eq!((poll(&one, Poll::Ready(9)).0, times()), (Poll::Ready(9), [0, 2]));
    }
}
