//! How a connection's datagrams leave: in batches, past sockets that are full or refuse to send.

use std::{
    cell::RefCell,
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use proto::{PathState, Transmit};
use tracing::debug;
use units::{Duration, Instant};

use super::{BATCH, Driver, endpoint_news};
use crate::{PathUpdate, clock, socket::Socket};

/// Batches sent before other tasks get their turn.
const SEND_BUDGET: usize = 16;

/// Local addresses whose failure is remembered, so that it is reported once.
const MAX_FAILING: usize = 32;

/// For how long a full socket is waited for where other paths leave by others, which are held up so
/// long: no longer than an ACK may be delayed (RFC 9000 section 18.2).
const FULL_PATIENCE: Duration = Duration::from_millis(25);

/// For how long a socket that was waited for in vain has to take everything before it is waited for
/// again. That of a slow uplink takes one packet as soon as one has left, and then is full as before.
const FULL_MEMORY: Duration = Duration::from_secs(1);

thread_local! {
    /// Packets are built here, so that idle connections own no buffer.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The one batch that waits for a full socket.
pub(super) struct Pending {
    transmit: Transmit,
    bytes: Vec<u8>,
    sent: usize,
    since: Instant,
    writable: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// How sending went.
#[derive(PartialEq, Eq)]
pub(super) enum Sent {
    /// Everything there was.
    All,
    /// The budget is used up.
    Some,
    /// A socket is full.
    Blocked,
}

impl Driver {
    /// Sends until nothing is left, a socket is full, or the budget is used up.
    pub(super) fn send(&mut self, cx: &mut Context<'_>) -> Sent {
        if let Some(pending) = self.pending.take()
            && self.resume(cx, pending).is_pending()
            && !self.gives_up()
        {
            return Sent::Blocked;
        }
        let mut bytes = BUFFER.take();
        for _ in 0..SEND_BUDGET {
            bytes.clear();
            let Some(transmit) = self.next_transmit(&mut bytes) else {
                BUFFER.replace(bytes);
                return Sent::All;
            };
            self.moved += transmit.segment_size.map_or(1, |segment| transmit.size.div_ceil(segment) as u32);
            if let Some((sent, socket)) = self.send_batch(&transmit, &bytes, 0) {
                let writable = Box::pin(socket.writable());
                let pending = Pending { transmit, bytes, sent, since: self.now, writable };
                if self.resume(cx, Box::new(pending)).is_pending() {
                    return Sent::Blocked;
                }
                bytes = BUFFER.take();
            }
        }
        BUFFER.replace(bytes);
        Sent::Some
    }

    /// The next batch. A connection id that it names is known to the endpoint before it leaves: the
    /// peer may use it at once, and a packet to an unknown one is answered with a stateless reset.
    fn next_transmit(&mut self, bytes: &mut Vec<u8>) -> Option<Transmit> {
        let mut state = self.shared.lock();
        let transmit = state.proto.poll_transmit(clock::now(), BATCH, bytes);
        let news = endpoint_news(&mut state.proto);
        drop(state);
        self.tell_endpoint(news);
        transmit
    }

    /// Goes on with the batch that waits; keeps it if the socket is still full.
    fn resume(&mut self, cx: &mut Context<'_>, mut pending: Box<Pending>) -> Poll<()> {
        while pending.writable.as_mut().poll(cx).is_ready() {
            match self.send_batch(&pending.transmit, &pending.bytes, pending.sent) {
                Some((sent, socket)) => {
                    pending.sent = sent;
                    pending.writable = Box::pin(socket.writable());
                }
                None => {
                    BUFFER.replace(pending.bytes);
                    return Poll::Ready(());
                }
            }
        }
        self.pending = Some(pending);
        Poll::Pending
    }

    /// Until when the batch that waits holds up other paths, if one does.
    pub(super) fn gives_up_at(&self) -> Option<Instant> {
        self.pending.as_ref().map(|pending| pending.since + FULL_PATIENCE)
    }

    /// Whether the batch that waits has done so for too long: it counts as lost, and so does what finds
    /// the socket full until that has not happened for a while. A modem that hangs would take all paths along.
    fn gives_up(&mut self) -> bool {
        let Some(pending) = self.pending.take() else { return false };
        let waited = self.now.saturating_duration_since(pending.since);
        let local = pending.transmit.path.local;
        if waited < FULL_PATIENCE || !self.has_other_socket(local) {
            self.pending = Some(pending);
            return false;
        }
        // Of one that was replaced nobody wants to hear: it would fail for good, and no path leaves by it.
        if self.socket(local).is_some() {
            let full = io::Error::new(io::ErrorKind::WouldBlock, "the socket is full");
            self.note_failure(&pending.transmit, &full);
        }
        BUFFER.replace(pending.bytes);
        true
    }

    /// Whether an open path leaves by another socket than what has this local address, or nothing has it
    /// any more: what was replaced may still be full.
    fn has_other_socket(&self, local: SocketAddr) -> bool {
        let Some(this) = self.socket(local) else { return true };
        let paths = self.shared.lock().proto.paths();
        let open = paths.iter().filter(|path| path.state != PathState::Closing);
        let mut sockets = open.filter_map(|path| self.shared.engine.sockets.select(path.network.local));
        sockets.any(|socket| !Arc::ptr_eq(&socket, &this))
    }

    /// Whether an open path leaves from there.
    fn has_path_from(&self, local: SocketAddr) -> bool {
        let paths = self.shared.lock().proto.paths();
        paths.iter().any(|path| path.state != PathState::Closing && path.network.local == local)
    }

    /// Whether a path leaves from where no socket is, none having been found there. Nobody wants to hear of one
    /// that was replaced after packets had been built for it, or is being replaced: then neither the endpoint
    /// has it nor the connection, until that is told in whose place it was.
    fn has_no_socket(&self, local: SocketAddr) -> bool {
        // In this order: once all have been told, the connection knows what it leaves, or has left it.
        !self.shared.engine.is_rebinding() && self.has_path_from(local) && self.socket(local).is_none()
    }

    fn is_failing(&self, local: SocketAddr) -> bool {
        self.failing.as_ref().is_some_and(|failing| failing.contains_key(&local))
    }

    /// Whether who sends from there waits for room: not where that was in vain, as long as there are
    /// paths that it would hold up.
    fn waits_for_room(&self, local: SocketAddr) -> bool {
        !self.is_failing(local) || !self.has_other_socket(local)
    }

    /// Sends the datagrams from byte `sent` on. If the socket is full, and is waited for, returns it and
    /// how far it went.
    fn send_batch(
        &mut self,
        transmit: &Transmit,
        bytes: &[u8],
        mut sent: usize,
    ) -> Option<(usize, Arc<Socket>)> {
        let Some(socket) = self.socket(transmit.path.local) else {
            if self.has_no_socket(transmit.path.local) {
                self.note_failure(transmit, &io::Error::other("no socket is bound there"));
            }
            return None;
        };
        while sent < transmit.size {
            let (size, result) = socket.try_send(transmit, bytes, sent);
            let is_full = result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
            match result {
                Ok(()) => self.note_success(transmit),
                Err(_) if is_full && self.waits_for_room(transmit.path.local) => return Some((sent, socket)),
                Err(error) => self.note_failure(transmit, &error),
            }
            sent += size;
        }
        None
    }

    /// The socket for packets with this local address: one of the endpoint's, or one that it has
    /// replaced and that their path cannot leave yet.
    fn socket(&self, local: SocketAddr) -> Option<Arc<Socket>> {
        self.shared.engine.sockets.select(local).or_else(|| {
            let state = self.shared.lock();
            let mut sockets = state.awaited.iter().map(|awaited| awaited.from.socket());
            sockets.find(|socket| socket.fits(local).is_some()).cloned()
        })
    }

    /// What could not be sent counts as lost; the transport finds out as with any loss.
    fn note_failure(&mut self, transmit: &Transmit, error: &io::Error) {
        let path = &transmit.path;
        if quinn_udp::is_msg_size_err(error) {
            debug!(local = %path.local, remote = %path.remote, size = transmit.size, "packet above the link's MTU");
            return;
        }
        let full = (error.kind() == io::ErrorKind::WouldBlock).then_some(self.now);
        let failing = self.failing.get_or_insert_default();
        if let Some(known) = failing.get_mut(&path.local) {
            *known = full.or(*known);
            return;
        }
        if failing.len() >= MAX_FAILING {
            // From where no path starts any more, sending does not work again.
            let paths = self.shared.lock().proto.paths();
            failing.retain(|local, _| paths.iter().any(|path| path.network.local == *local));
        }
        if failing.len() < MAX_FAILING {
            failing.insert(path.local, full);
            debug!(local = %path.local, remote = %path.remote, %error, "cannot send");
            let event = PathUpdate::LocalFailure { local: path.local, reason: error.to_string() };
            self.shared.lock().announce(event);
        }
    }

    fn note_success(&mut self, transmit: &Transmit) {
        let now = self.now;
        let Some(failing) = &mut self.failing else { return };
        let Some(full) = failing.get(&transmit.path.local) else { return };
        if full.is_none_or(|at| now.saturating_duration_since(at) >= FULL_MEMORY) {
            failing.remove(&transmit.path.local);
            debug!(local = %transmit.path.local, "can send again");
            self.shared.lock().announce(PathUpdate::LocalRecovery { local: transmit.path.local });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::atomic::Ordering::SeqCst, task::Waker};

    use proto::NetworkPath;

    use super::{
        super::{FULL_LOOK, TIMER_GRANULARITY, tests::connected},
        *,
    };
    use crate::PathOptions;

    /// A byte that waits for room since then.
    fn waits(local: SocketAddr, since: Instant) -> Option<Box<Pending>> {
        let path = NetworkPath { local, remote: local };
        let transmit = Transmit { path, ecn: None, size: 1, segment_size: None };
        let writable = Box::pin(std::future::pending::<()>());
        Some(Box::new(Pending { transmit, bytes: vec![0], sent: 0, since, writable }))
    }

    #[tokio::test]
    async fn a_full_socket_holds_up_the_paths_over_others_for_a_moment_only() {
        let ([client, _server], [connection, _peer]) = connected().await;
        let local = client.local_addrs()[0];
        let mut updates = connection.path_updates();
        let mut driver = Driver::new(connection.shared().clone());
        let long_ago = clock::now();
        driver.now = long_ago + FULL_PATIENCE;
        let just_now = driver.now;
        let blocks = |driver: &mut Driver, since| {
            driver.pending = waits(local, since);
            driver.send(&mut Context::from_waker(Waker::noop())) == Sent::Blocked
        };
        assert!(blocks(&mut driver, long_ago), "no path has another socket");
        driver.failing = Some(Box::new(BTreeMap::from([(local, None)])));
        assert!(driver.waits_for_room(local), "nor whatever it was that failed before");
        driver.failing = None;
        let any = "127.0.0.1:0".parse().unwrap();
        let _second = connection.add_path(PathOptions::new().local(any)).await.unwrap();
        assert!(blocks(&mut driver, just_now));
        assert!(driver.waits_for_room(local));
        assert!(!blocks(&mut driver, long_ago));
        let failure = PathUpdate::LocalFailure { local, reason: "the socket is full".to_owned() };
        while updates.next().await.expect("the connection is open") != failure {}
        driver.failing = Some(Box::new(BTreeMap::from([(local, None)])));
        assert!(!driver.waits_for_room(local), "as long as others would be held up");
    }

    /// As after `Endpoint::rebind`, where a modem that hangs is what was left.
    #[tokio::test]
    async fn a_full_socket_that_no_path_leaves_by_any_more_holds_up_nothing() {
        let (_endpoints, [connection, _peer]) = connected().await;
        let mut driver = Driver::new(connection.shared().clone());
        let long_ago = clock::now();
        driver.now = long_ago + FULL_PATIENCE;
        driver.pending = waits("127.0.0.1:1".parse().unwrap(), long_ago);
        assert!(driver.send(&mut Context::from_waker(Waker::noop())) != Sent::Blocked);
        assert!(driver.failing.is_none(), "what would never be said to work again");
    }

    /// The same where it has room again before that is over, as that of a slow uplink.
    #[tokio::test]
    async fn what_waited_for_a_socket_that_was_replaced_is_not_told_as_failing() {
        let (_endpoints, [connection, _peer]) = connected().await;
        let mut driver = Driver::new(connection.shared().clone());
        driver.now = clock::now();
        let mut pending = waits("127.0.0.1:1".parse().unwrap(), driver.now).unwrap();
        pending.writable = Box::pin(std::future::ready(()));
        driver.pending = Some(pending);
        assert!(driver.send(&mut Context::from_waker(Waker::noop())) != Sent::Blocked);
        assert!(driver.failing.is_none(), "what would never be said to work again");
        let own = driver.shared.lock().proto.paths()[0].network.local;
        assert!(driver.has_path_from(own));
    }

    /// While `Endpoint::rebind` is between the endpoint's sockets and the connection's paths.
    #[tokio::test]
    async fn a_socket_that_is_being_replaced_is_not_told_as_failing() {
        let ([client, _server], [connection, _peer]) = connected().await;
        let local = client.local_addrs()[0];
        let mut driver = Driver::new(connection.shared().clone());
        driver.now = clock::now();
        let engine = driver.shared.engine.clone();
        engine.rebinding.fetch_add(1, SeqCst);
        engine.sockets.remove(&engine.sockets.select(local).unwrap());
        let transmit = waits(local, driver.now).unwrap().transmit;
        assert!(driver.send_batch(&transmit, &[0], 0).is_none());
        assert!(driver.failing.is_none(), "the connection does not know yet that it moves");
        engine.rebinding.fetch_sub(1, SeqCst);
        assert!(driver.send_batch(&transmit, &[0], 0).is_none());
        assert!(driver.is_failing(local), "there is none in its place");
    }

    /// An ACK is due for good while nothing can leave, and its deadline comes before all others.
    #[tokio::test]
    async fn what_is_due_behind_a_full_socket_hides_no_other_deadline() {
        let (_endpoints, [connection, _peer]) = connected().await;
        let mut driver = Driver::new(connection.shared().clone());
        driver.now = clock::now();
        let now = driver.now;
        assert_eq!(driver.patient(Some(now), &Sent::All), Some(now + TIMER_GRANULARITY));
        assert_eq!(driver.patient(Some(now), &Sent::Blocked), Some(now + FULL_LOOK));
        let later = now + FULL_MEMORY;
        assert_eq!(driver.patient(Some(later), &Sent::Blocked), Some(later));
        driver.pending = waits("127.0.0.1:1".parse().unwrap(), now);
        assert_eq!(driver.patient(Some(now), &Sent::Blocked), Some(now + FULL_PATIENCE));
    }

    /// It would hold up the other paths for 25 ms once more, and be told as failing and working by turns.
    #[tokio::test]
    async fn a_full_socket_has_not_recovered_when_one_packet_has_left() {
        let ([client, _server], [connection, _peer]) = connected().await;
        let local = client.local_addrs()[0];
        let mut driver = Driver::new(connection.shared().clone());
        driver.now = clock::now();
        let transmit = waits(local, driver.now).unwrap().transmit;
        let full = io::Error::from(io::ErrorKind::WouldBlock);
        for _ in 0..2 {
            driver.note_failure(&transmit, &full);
            driver.now += FULL_MEMORY - TIMER_GRANULARITY;
            driver.note_success(&transmit);
            assert!(driver.is_failing(local), "it may be full again with the next packet");
        }
        driver.now += TIMER_GRANULARITY;
        driver.note_success(&transmit);
        assert!(!driver.is_failing(local));
        driver.note_failure(&transmit, &io::Error::other("there is no route"));
        assert!(driver.is_failing(local));
        driver.note_success(&transmit);
        assert!(!driver.is_failing(local), "now there is");
    }
}
