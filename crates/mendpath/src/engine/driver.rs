//! The task that drives one connection: datagrams in, datagrams out, timers, news.

mod sending;

use std::{
    collections::{BTreeMap, VecDeque},
    future::Future,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use proto::{EndpointEvent, Event};
use tokio::time::Sleep;
use tracing::trace;
use units::{Duration, Instant};

use self::sending::{Pending, Sent};
use super::{
    Shared,
    company::Company,
    inbox::Batch,
    migrate,
    patience::may_gather,
    receive::SLOT_SIZE,
    shared::{State, Woken},
};
use crate::{ConnectionError, clock, link};

/// Datagrams taken in before answers are sent and others may use the connection.
const RECEIVE_BUDGET: usize = 256;

/// Datagrams per batch: what fits one system call with segmentation offload at the usual MTU.
const BATCH: usize = 44;

/// The shortest time that the runtime's timer distinguishes.
const TIMER_GRANULARITY: Duration = Duration::from_millis(1);

/// A timer that goes off so late has not waited for its turn alone: the whole process has stood still, or has
/// too little time. Those of Windows may be 16 ms late.
const LATE: Duration = Duration::from_millis(20);

/// When what is due is looked after again while it waits for a full socket.
const FULL_LOOK: Duration = Duration::from_millis(100);

/// For how long answers wait at most for whoever was woken to read, if a timer goes off by then
/// anyhow: far less than any ACK may be delayed.
const READERS_PATIENCE: Duration = Duration::from_millis(5);

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
        let gives_up = self.gives_up_at().filter(|at| *at > self.now);
        [deadline, gives_up].into_iter().flatten().min()
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

    use super::{super::company::Writers, *};
    use crate::{ClientConfig, Connection, Endpoint, Identity, ServerConfig};

    /// A client and a server that are connected; both ends of both.
    pub(super) async fn connected() -> ([Endpoint; 2], [Connection; 2]) {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let server = Endpoint::server(ServerConfig::with_identity(&identity).unwrap(), any).unwrap();
        let client = Endpoint::client(any).unwrap();
        let config = ClientConfig::with_pinned_key(identity.pin());
        let connecting = client.connect_with(&config, server.local_addrs()[0], "localhost").unwrap();
        let (connection, peer) = tokio::join!(connecting, async { server.accept().await.unwrap().await });
        ([client, server], [connection.unwrap(), peer.unwrap()])
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
        let later = clock::now() + Duration::from_secs(1);
        for (armed, late) in [(None, false), (Some(later), false), (Some(Instant::ORIGIN), true)] {
            driver.armed = armed;
            assert_eq!(driver.is_late(clock::now()), late);
            assert!(Pin::new(&mut driver).poll(&mut cx).is_pending());
            assert_eq!(driver.gave_way, late);
        }
        assert!(Pin::new(&mut driver).poll(&mut cx).is_pending());
        assert!(!driver.gave_way, "once");
    }
}
