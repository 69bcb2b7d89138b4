//! The task that drives one connection: datagrams in, datagrams out, timers, news.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    future::Future,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use proto::{EndpointEvent, Event, PathState, Transmit};
use tokio::time::Sleep;
use tracing::{debug, trace};
use units::{Duration, Instant};

use super::{
    Shared,
    company::Company,
    inbox::Batch,
    migrate,
    patience::may_gather,
    receive::SLOT_SIZE,
    shared::{State, Woken},
};
use crate::{ConnectionError, PathUpdate, clock, link, socket::Socket};

/// Datagrams taken in before answers are sent and others may use the connection.
const RECEIVE_BUDGET: usize = 256;

/// Batches sent before other tasks get their turn.
const SEND_BUDGET: usize = 16;

/// Datagrams per batch: what fits one system call with segmentation offload at the usual MTU.
const BATCH: usize = 44;

/// Local addresses whose failure is remembered, so that it is reported once.
const MAX_FAILING: usize = 32;

/// The shortest time that the runtime's timer distinguishes.
const TIMER_GRANULARITY: Duration = Duration::from_millis(1);

/// A timer that goes off so late has not waited for its turn alone: the whole process has stood still, or has
/// too little time. Those of Windows may be 16 ms late.
const LATE: Duration = Duration::from_millis(20);

/// For how long a full socket is waited for where other paths leave by others, which are held up so
/// long: no longer than an ACK may be delayed (RFC 9000 section 18.2).
const FULL_PATIENCE: Duration = Duration::from_millis(25);

/// For how long a socket that was waited for in vain has to take everything before it is waited for
/// again. That of a slow uplink takes one packet as soon as one has left, and then is full as before.
const FULL_MEMORY: Duration = Duration::from_secs(1);

/// When what is due is looked after again while it waits for a full socket.
const FULL_LOOK: Duration = Duration::from_millis(100);

/// For how long answers wait at most for whoever was woken to read, if a timer goes off by then
/// anyhow: far less than any ACK may be delayed.
const READERS_PATIENCE: Duration = Duration::from_millis(5);

thread_local! {
    /// Packets are built here, so that idle connections own no buffer.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Drives a connection until nothing is left of it.
pub(super) struct Driver {
    shared: Arc<Shared>,
    /// Datagrams taken from the inbox, not yet handled.
    backlog: VecDeque<Batch>,
    pending: Option<Box<Pending>>,
    timer: Option<Pin<Box<Sleep>>>,
    /// When due timers were last handled.
    now: Instant,
    /// What the timer is set to.
    armed: Option<Instant>,
    /// Others have had their turn since the connection was last looked at.
    gave_way: bool,
    /// Whether that is worth it where others write.
    company: Company,
    /// Datagrams that came and left since.
    moved: u32,
    /// What comes next may gather before it is taken out of the socket.
    patient: bool,
    /// The transport has nothing more to do.
    drained: bool,
    /// Local addresses from which the operating system refuses to send, and when it last did so because
    /// their socket was full.
    #[expect(clippy::box_collection, reason = "hardly ever there, and a task's sizes are 128 bytes apart")]
    failing: Option<Box<BTreeMap<SocketAddr, Option<Instant>>>>,
}

/// The one batch that waits for a full socket.
struct Pending {
    transmit: Transmit,
    bytes: Vec<u8>,
    sent: usize,
    since: Instant,
    writable: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// How sending went.
#[derive(PartialEq, Eq)]
enum Sent {
    /// Everything there was.
    All,
    /// The budget is used up.
    Some,
    /// A socket is full.
    Blocked,
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            backlog: VecDeque::new(),
            pending: None,
            timer: None,
            now: Instant::ORIGIN,
            armed: None,
            gave_way: false,
            company: Company::default(),
            moved: 0,
            patient: false,
            drained: false,
            failing: None,
        }
    }

    /// Others have their turn, and then we: the runtime looks here again when it has run out of
    /// tasks that are ready, or after some dozens of them.
    fn give_way(&mut self, cx: &mut Context<'_>) {
        self.gave_way = true;
        self.shared.inbox.give_way();
        // Its first poll leaves our waker with the runtime.
        let _ = pin!(tokio::task::yield_now()).poll(cx);
    }

    /// Whether the timer is late: then what has come meanwhile may still be in the socket, and with it
    /// the ACK that a probe timeout, or the idle timeout, is to go off for the lack of.
    fn is_late(&self, now: Instant) -> bool {
        self.armed.is_some_and(|armed| now >= armed + LATE)
    }

    /// Somebody who was woken has their turn, and then we: they wake us as they read. That is less
    /// work for the runtime than to give way, after which it looks for work for all its threads. If
    /// they do something else first, we do not wait for it.
    fn wait_for_reader(&mut self, cx: &mut Context<'_>) {
        self.gave_way = true;
        let waits_briefly = self.armed.is_some_and(|armed| armed <= self.now + READERS_PATIENCE);
        let deadline = if waits_briefly { self.armed } else { Some(self.now + TIMER_GRANULARITY) };
        if self.arm(cx, deadline) {
            cx.waker().wake_by_ref();
        }
    }

    /// Datagrams and due timers. Returns how many were woken who had better read before we answer. Of a
    /// transfer there is always more, and its sender waits for the ACK.
    fn receive(&mut self) -> usize {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        let now = clock::now();
        self.now = now;
        let (mut batches, mut datagrams) = (0, 0);
        while datagrams < RECEIVE_BUDGET
            && let Some(batch) = self.backlog.get_mut(batches)
        {
            for datagram in batch.datagrams() {
                state.proto.handle_datagram(now, datagram);
            }
            datagrams += batch.count();
            batches += 1;
        }
        let expired = !state.proto.is_closed() && expire(&mut state.proto, now);
        if batches > 0 && !state.awaited.is_empty() {
            migrate::go_on(&mut state);
        }
        let readers = if batches > 0 { self.tell(&mut state) } else { 0 };
        if let Some((id, network)) = state.proto.poll_link_question()
            && let Some(size) = link::udp_payload(&network)
        {
            state.proto.on_link_size(id, size);
        }
        self.moved += datagrams as u32;
        let is_bulk = datagrams >= BATCH;
        drop(state);
        if batches > 0 {
            self.shared.engine.spares.give(self.backlog.drain(..batches), SLOT_SIZE);
            if self.backlog.is_empty() {
                // A connection that waits for the next datagrams holds no queue for them.
                self.backlog = VecDeque::new();
            }
        }
        if batches > 0 || expired {
            self.shared.progress.notify_waiters();
        }
        if is_bulk { 0 } else { readers }
    }

    /// Tells the application what happened. Returns how many were woken who wait for something to
    /// read. Who accepts streams is one of them, and where several write lately has several read.
    fn tell(&mut self, state: &mut State) -> usize {
        let (mut readers, mut accepts) = (0, false);
        while let Some(event) = state.proto.poll_event() {
            trace!(?event);
            self.drained |= matches!(event, Event::Drained);
            match self.shared.dispatch(state, event) {
                Woken::Reader => readers += 1,
                Woken::Acceptor => accepts = true,
                Woken::NoReader => {}
            }
        }
        match accepts {
            true => readers + 1 + usize::from(self.company.is_expected()),
            false => readers,
        }
    }

    /// The timers of a closed connection come after sending: a driver that has its turn late would
    /// forget the connection before it has said that it is closed, and the peer would wait for it.
    fn expire_closed(&self) {
        let mut state = self.shared.lock();
        if state.proto.is_closed() {
            expire(&mut state.proto, self.now);
        }
    }

    /// Sends until nothing is left, a socket is full, or the budget is used up.
    fn send(&mut self, cx: &mut Context<'_>) -> Sent {
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
            self.note_failure(transmit, &io::Error::other("no socket is bound there"));
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

    /// Tells the application and the endpoint what happened. Returns when the connection wants to be
    /// woken.
    fn report(&mut self) -> Option<Instant> {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        let news = endpoint_news(&mut state.proto);
        self.drained |= state.proto.is_drained();
        let is_bulk = std::mem::take(&mut self.moved) as usize >= BATCH;
        self.company.on_send(self.now, std::mem::take(&mut state.writers), is_bulk);
        self.tell(&mut state);
        let patient = may_gather(state.proto.bulk_interval());
        if std::mem::replace(&mut self.patient, patient) != patient {
            self.shared.inbox.set_patient(patient);
        }
        let deadline = state.proto.poll_timeout();
        drop(state);
        self.tell_endpoint(news);
        deadline
    }

    /// Forwards news to the endpoint, which is locked for it.
    fn tell_endpoint(&self, news: Vec<EndpointEvent>) {
        if !news.is_empty() {
            self.shared.engine.handle_events(self.shared.handle, news);
        }
    }

    /// Sees to it that the timer goes off at the deadline, or earlier. Returns whether it is time
    /// already.
    ///
    /// A timer that goes off too early stays as it is: to put it off at every packet, and to bring it
    /// forward at the next, costs the runtime more than to look here in vain once in a while.
    fn arm(&mut self, cx: &mut Context<'_>, deadline: Option<Instant>) -> bool {
        let Some((deadline, at)) = deadline.and_then(|at| Some((at, clock::timer(at)?))) else {
            self.armed = None;
            self.timer = None;
            return false;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        let earlier = self.armed.is_some_and(|armed| armed <= deadline);
        if earlier && timer.as_mut().poll(cx).is_pending() {
            return false;
        }
        timer.as_mut().reset(at);
        let due = timer.as_mut().poll(cx).is_ready();
        self.armed = (!due).then_some(deadline);
        due
    }

    /// A deadline that stays although it was handled waits for something to be sent: for the socket, if
    /// that is full. Never spin. Nor sleep without a timer: behind an ACK that cannot leave there are
    /// other deadlines, such as the idle timeout.
    fn patient(&self, deadline: Option<Instant>, sent: &Sent) -> Option<Instant> {
        let deadline = match deadline {
            Some(at) if at <= self.now && *sent == Sent::Blocked => Some(self.now + FULL_LOOK),
            Some(at) if at <= self.now => Some(self.now + TIMER_GRANULARITY),
            deadline => deadline,
        };
        let impatient = self.pending.as_ref().map(|pending| pending.since + FULL_PATIENCE);
        [deadline, impatient.filter(|at| *at > self.now)].into_iter().flatten().min()
    }
}

/// What the endpoint has to know.
fn endpoint_news(proto: &mut proto::Connection) -> Vec<EndpointEvent> {
    std::iter::from_fn(|| proto.poll_endpoint_event()).collect()
}

/// Handles timers that are due, and tells whether there were any.
fn expire(proto: &mut proto::Connection, now: Instant) -> bool {
    let due = proto.poll_timeout().is_some_and(|deadline| deadline <= now);
    if due {
        proto.handle_timeout(now);
    }
    due
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.shared.inbox.collect(cx.waker(), &mut this.backlog);
        let gave_way = std::mem::take(&mut this.gave_way);
        // Those who answer requests that came together are woken together. Where there are such, what
        // they all write leaves together, and not the first's alone, who has woken us. And who reads the
        // sockets may be woken together with our timer.
        if this.backlog.is_empty() && !gave_way && (this.company.is_expected() || this.is_late(clock::now()))
        {
            this.give_way(cx);
            return Poll::Pending;
        }
        // Those who read come before our answer: it takes along their credit and what they write.
        match this.receive() {
            1 if !gave_way => {
                this.wait_for_reader(cx);
                return Poll::Pending;
            }
            2.. if !gave_way => {
                this.give_way(cx);
                return Poll::Pending;
            }
            _ => {}
        }
        let sent = this.send(cx);
        this.expire_closed();
        let deadline = this.report();
        if this.drained {
            return Poll::Ready(());
        }
        let deadline = this.patient(deadline, &sent);
        let due = this.arm(cx, deadline);
        if due || sent == Sent::Some || !this.backlog.is_empty() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for Driver {
    /// Drained, or the runtime is shut down, or the transport panicked: in any case nobody drives
    /// the connection now.
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        self.shared.end(&mut state, ConnectionError::EndpointGone);
        state.retire_sockets();
        drop(state);
        self.shared.engine.forget(self.shared.handle);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use proto::NetworkPath;

    use super::{super::company::Writers, *};
    use crate::{ClientConfig, Connection, Endpoint, Identity, PathOptions, ServerConfig};

    /// A client and a server that are connected; both ends of both.
    async fn connected() -> ([Endpoint; 2], [Connection; 2]) {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let server = Endpoint::server(ServerConfig::with_identity(&identity).unwrap(), any).unwrap();
        let client = Endpoint::client(any).unwrap();
        let config = ClientConfig::with_pinned_key(identity.pin());
        let connecting = client.connect_with(&config, server.local_addrs()[0], "localhost").unwrap();
        let (connection, peer) = tokio::join!(connecting, async { server.accept().await.unwrap().await });
        ([client, server], [connection.unwrap(), peer.unwrap()])
    }

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

    /// The process stood still, and the ACKs that came are in the socket.
    #[tokio::test]
    async fn what_has_come_is_read_before_a_timer_that_is_late() {
        let (_endpoints, [connection, _peer]) = connected().await;
        let mut driver = Driver::new(connection.shared().clone());
        let id = proto::StreamId::new(proto::Side::Client, proto::Dir::Bi, 0);
        while driver.company.is_expected() {
            driver.company.on_send(Instant::ORIGIN, Writers::One(id), false);
        }
        while clock::now() < Instant::ORIGIN + LATE {
            tokio::task::yield_now().await;
        }
        let mut cx = Context::from_waker(Waker::noop());
        let later = clock::now() + FULL_MEMORY;
        for (armed, late) in [(None, false), (Some(later), false), (Some(Instant::ORIGIN), true)] {
            driver.armed = armed;
            assert_eq!(driver.is_late(clock::now()), late);
            assert!(Pin::new(&mut driver).poll(&mut cx).is_pending());
            assert_eq!(driver.gave_way, late);
        }
        assert!(Pin::new(&mut driver).poll(&mut cx).is_pending());
        assert!(!driver.gave_way, "once");
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
