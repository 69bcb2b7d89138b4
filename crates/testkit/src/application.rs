//! An application as event-driven as a real one: it acts on events only, so that an event that does
//! not come stalls it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proto::{
    Connection, DatagramError, Dir, FinishError, Read, ReadError, Side, StreamEvent, StreamId,
    TransportConfig, VarInt, WriteError,
};

use crate::{
    checks::{
        bytes::{Datagrams, Expected, SeenEnd, Wrong},
        credit::Credit,
    },
    content::{Content, mix},
    scenario::{Flow, FlowEnd, StreamPlan},
};

/// Error code of resets.
const RESET: VarInt = VarInt::from_u32(0x7e57);
/// Error code of stops.
const STOP: VarInt = VarInt::from_u32(0x570b);
/// Most bytes handed to one write or read.
const CHUNK: usize = 16_384;

/// What both applications have agreed on: the plan of each stream.
#[derive(Default, Debug)]
pub struct Agreement {
    plans: BTreeMap<StreamId, StreamPlan>,
    /// Flows that ended at the receiver, by sender.
    received: BTreeSet<(StreamId, bool)>,
    /// Flows that ended at the sender, by sender.
    sent: BTreeSet<(StreamId, bool)>,
    /// How much of a flow is read even if it is reset, by sender.
    promised: BTreeMap<(StreamId, bool), u64>,
    /// Whether the client, and the server, take resets that promise something.
    take_promises: [bool; 2],
    datagrams: Datagrams,
    credit: Credit,
}

impl Agreement {
    /// Nothing planned yet, between sides with these settings.
    pub fn new(client: &TransportConfig, server: &TransportConfig) -> Self {
        let take_promises = [client.reset_stream_at, server.reset_stream_at];
        Self { credit: Credit::new(client, server), take_promises, ..Self::default() }
    }

    /// One direction has ended in the eyes of its receiver, or its sender, which `side` is: is
    /// `side` done with the whole stream?
    fn close_if_done(&mut self, id: StreamId, side: Side) {
        let Some(plan) = self.plans.get(&id).filter(|plan| plan.opener != side) else { return };
        let from = |sender: Side| (id, sender == Side::Server);
        let sent = plan.dir == Dir::Uni || self.sent.contains(&from(side));
        if sent && self.received.contains(&from(plan.opener)) {
            self.credit.on_closed(id, plan.opener);
        }
    }

    /// Whether nothing is left but flows that are to be read last.
    pub fn is_fulfilled_but_for_unread(&self) -> bool {
        let ended = |id: StreamId, flow: &Flow, sender: Side| {
            let key = (id, sender == Side::Server);
            flow.end == FlowEnd::Unread || self.sent.contains(&key) && self.received.contains(&key)
        };
        self.plans.iter().all(|(id, plan)| {
            let other = if plan.opener == Side::Client { Side::Server } else { Side::Client };
            ended(*id, &plan.forward, plan.opener) && (plan.dir == Dir::Uni || ended(*id, &plan.back, other))
        })
    }

    /// Whether every flow of every opened stream has ended on both sides.
    pub fn is_fulfilled(&self) -> bool {
        let flows: usize = self.plans.values().map(|p| if p.dir == Dir::Bi { 2 } else { 1 }).sum();
        self.received.len() == flows && self.sent.len() == flows
    }

    /// The flows that have not ended, for a failure's report.
    pub fn unfulfilled(&self) -> Vec<String> {
        let open = |(id, plan): (&StreamId, &StreamPlan)| {
            let senders =
                [Side::Client, Side::Server].into_iter().filter(|s| plan.dir == Dir::Bi || *s == plan.opener);
            let states = senders.filter_map(|sender| {
                let key = (*id, sender == Side::Server);
                let (sent, received) = (self.sent.contains(&key), self.received.contains(&key));
                let flow = if sender == plan.opener { plan.forward } else { plan.back };
                (!sent || !received).then(|| {
                    format!("{id:?} from {sender:?}: {flow:?} sender done: {sent}, receiver done: {received}")
                })
            });
            states.collect::<Vec<_>>()
        };
        self.plans.iter().flat_map(open).collect()
    }

    /// Whether so much of a flow is promised before its reset: about half is, if its receiver takes promises.
    fn promises(&self, flow: &Flow, sender: Side, written: u64) -> bool {
        let receiver_takes = self.take_promises[usize::from(sender.is_client())];
        receiver_takes && matches!(flow.end, FlowEnd::Reset { after } if written <= after / 2)
    }

    fn flow(&self, id: StreamId, sender: Side) -> Option<Flow> {
        let plan = self.plans.get(&id)?;
        Some(if sender == plan.opener { plan.forward } else { plan.back })
    }
}

/// What the application of one side has under way.
#[derive(Debug)]
pub struct Application {
    side: Side,
    /// Streams that wait for the peer's leave, per kind.
    waiting: [VecDeque<StreamPlan>; 2],
    /// Bytes written, per stream on which something is left to write.
    sending: BTreeMap<StreamId, u64>,
    /// Bytes read, per stream on which something is left to read.
    receiving: BTreeMap<StreamId, u64>,
    /// Streams that may have data, read when the application gets round to it.
    pub readable: BTreeSet<StreamId>,
    /// Reads also what is to be read last.
    reads_last: bool,
    datagrams: VecDeque<usize>,
    /// Grows with everything that reaches the application.
    pub progress: u64,
    /// Hash over what reached it.
    pub trace: u64,
    buffer: Vec<u8>,
    outgoing: Outgoing,
}

/// What was computed for the last write: of a piece that was taken in part, the rest comes next.
#[derive(Debug)]
struct Outgoing {
    id: Option<StreamId>,
    offset: u64,
    bytes: Vec<u8>,
}

impl Outgoing {
    /// `n` bytes of what `sender` sends on a stream, from `offset` on.
    fn bytes(&mut self, id: StreamId, sender: Side, offset: u64, n: usize) -> &[u8] {
        let skip = self.place_of(id, offset, n).unwrap_or_else(|| {
            (self.id, self.offset) = (Some(id), offset);
            self.bytes.resize(n, 0);
            Content::of(id, sender).fill(offset, &mut self.bytes);
            0
        });
        &self.bytes[skip..skip + n]
    }

    /// Where these `n` bytes are, if they have been computed.
    fn place_of(&self, id: StreamId, offset: u64, n: usize) -> Option<usize> {
        if self.id != Some(id) {
            return None;
        }
        let skip = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        (skip + n <= self.bytes.len()).then_some(skip)
    }
}

impl Application {
    /// An application with nothing to do.
    pub fn new(side: Side) -> Self {
        Self {
            side,
            waiting: [VecDeque::new(), VecDeque::new()],
            sending: BTreeMap::new(),
            receiving: BTreeMap::new(),
            readable: BTreeSet::new(),
            reads_last: false,
            datagrams: VecDeque::new(),
            progress: 0,
            trace: 0,
            buffer: vec![0; CHUNK],
            outgoing: Outgoing { id: None, offset: 0, bytes: Vec::new() },
        }
    }

    /// Whether no stream waits to be opened and no datagram to be sent.
    pub fn has_begun_everything(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty) && self.datagrams.is_empty()
    }

    fn note(&mut self, what: u64, id: u64, n: u64) {
        self.progress += 1;
        self.trace = mix(mix(mix(self.trace ^ what) ^ id) ^ n);
    }

    // ---- what the scenario asks for

    /// Opens a stream now or later.
    pub fn begin(
        &mut self,
        c: &mut Connection,
        plan: StreamPlan,
        agreed: &mut Agreement,
    ) -> Result<(), Wrong> {
        let dir = plan.dir;
        self.waiting[dir as usize].push_back(plan);
        self.open_waiting(c, dir, agreed)
    }

    /// Sends datagrams now or later.
    pub fn begin_datagrams(&mut self, c: &mut Connection, count: u32, size: usize, agreed: &mut Agreement) {
        self.datagrams.extend((0..count).map(|_| size.max(8)));
        self.send_datagrams(c, agreed);
    }

    fn open_waiting(&mut self, c: &mut Connection, dir: Dir, agreed: &mut Agreement) -> Result<(), Wrong> {
        while !self.waiting[dir as usize].is_empty() {
            let Some(id) = c.open(dir) else { break };
            let Some(plan) = self.waiting[dir as usize].pop_front() else { break };
            c.set_priority(id, plan.priority);
            agreed.plans.insert(id, plan);
            agreed.credit.on_opened(id, self.side)?;
            self.note(1, id.0, 0);
            self.sending.insert(id, 0);
            self.write(c, id, agreed)?;
            if dir == Dir::Bi {
                self.receiving.insert(id, 0);
                self.read(c, id, agreed)?;
            }
        }
        Ok(())
    }

    // ---- events

    /// Acts on an event.
    pub fn on_event(
        &mut self,
        c: &mut Connection,
        event: StreamEvent,
        agreed: &mut Agreement,
    ) -> Result<(), Wrong> {
        match event {
            StreamEvent::Opened { dir } => {
                while let Some(id) = c.accept(dir) {
                    if !agreed.plans.contains_key(&id) {
                        return Err(Wrong::Call(id, "accepted, but the peer never opened it".into()));
                    }
                    self.note(2, id.0, 0);
                    self.receiving.insert(id, 0);
                    self.readable.insert(id);
                    if dir == Dir::Bi {
                        self.sending.insert(id, 0);
                        self.write(c, id, agreed)?;
                    }
                }
            }
            StreamEvent::Readable(id) => _ = self.readable.insert(id),
            StreamEvent::Writable(id) => self.write(c, id, agreed)?,
            StreamEvent::Stopped { id, .. } => self.write(c, id, agreed)?,
            StreamEvent::Finished(id) => {
                self.note(3, id.0, 0);
                if self.sending.contains_key(&id) {
                    return Err(Wrong::Call(id, "Finished before it was".into()));
                }
            }
            StreamEvent::Available { dir } => self.open_waiting(c, dir, agreed)?,
        }
        Ok(())
    }

    /// Datagrams can be queued again.
    pub fn send_datagrams(&mut self, c: &mut Connection, agreed: &mut Agreement) {
        while let Some(&wanted) = self.datagrams.front() {
            let size = c.max_datagram_size().map_or(wanted, |max| wanted.min(max)).max(8);
            let data = agreed.datagrams.next(self.side, size);
            match c.send_datagram(data.into()) {
                Ok(()) => agreed.datagrams.on_sent(self.side, size),
                Err(DatagramError::Blocked) => return,
                // Refused for good.
                Err(DatagramError::Unsupported | DatagramError::TooLarge { .. }) => self.datagrams.clear(),
            }
            self.datagrams.pop_front();
        }
    }

    /// Takes every datagram that arrived.
    pub fn receive_datagrams(&mut self, c: &mut Connection, agreed: &mut Agreement) -> Result<(), Wrong> {
        while let Some(data) = c.receive_datagram() {
            let number = agreed.datagrams.on_received(self.peer(), &data)?;
            self.note(4, number, data.len() as u64);
        }
        Ok(())
    }

    fn peer(&self) -> Side {
        if self.side == Side::Client { Side::Server } else { Side::Client }
    }

    /// Reads what may be there.
    pub fn read_all(&mut self, c: &mut Connection, agreed: &mut Agreement) -> Result<(), Wrong> {
        for id in core::mem::take(&mut self.readable) {
            self.read(c, id, agreed)?;
        }
        Ok(())
    }

    /// Everything else has ended: what was to be read last is read now.
    pub fn read_last(&mut self) {
        if !core::mem::replace(&mut self.reads_last, true) {
            self.readable.extend(self.receiving.keys());
        }
    }

    // ---- one stream

    fn write(&mut self, c: &mut Connection, id: StreamId, agreed: &mut Agreement) -> Result<(), Wrong> {
        let Some(mut written) = self.sending.get(&id).copied() else { return Ok(()) };
        let Some(flow) = agreed.flow(id, self.side) else { return Ok(()) };
        let stopped = |code: VarInt| matches!(flow.end, FlowEnd::Stop { .. }) && code == STOP;
        let wrong = |what: String| Err(Wrong::Call(id, what));
        loop {
            if let FlowEnd::Reset { after } = flow.end
                && written >= after.min(flow.bytes)
            {
                if let Err(error) = c.reset(id, RESET) {
                    return wrong(format!("reset: {error:?}"));
                }
                agreed.credit.on_ended(id, self.side);
                return self.sent(id, agreed);
            }
            if written == flow.bytes {
                match c.finish(id) {
                    Ok(()) => {}
                    Err(FinishError::Stopped(code)) if stopped(code) => {}
                    Err(error) => return wrong(format!("finish: {error:?}")),
                }
                return self.sent(id, agreed);
            }
            // Pieces of every size, also tiny ones.
            let most = 1 + mix(id.0 ^ (written << 8)) as usize % CHUNK;
            let n = most.min(usize::try_from(flow.bytes - written).unwrap_or(most));
            match c.write(id, self.outgoing.bytes(id, self.side, written, n)) {
                Ok(0) => return wrong("wrote nothing".into()),
                Ok(n) => {
                    written += n as u64;
                    agreed.credit.on_written(id, self.side, written)?;
                    if agreed.promises(&flow, self.side, written) {
                        if let Err(error) = c.set_reliable_boundary(id) {
                            return wrong(format!("reliable boundary: {error:?}"));
                        }
                        agreed.promised.insert((id, self.side == Side::Server), written);
                    }
                }
                Err(WriteError::Blocked) => break,
                Err(WriteError::Stopped(code)) if stopped(code) => return self.sent(id, agreed),
                Err(error) => return wrong(format!("write: {error:?}")),
            }
        }
        self.sending.insert(id, written);
        Ok(())
    }

    fn sent(&mut self, id: StreamId, agreed: &mut Agreement) -> Result<(), Wrong> {
        self.sending.remove(&id);
        self.note(5, id.0, 0);
        if agreed.sent.insert((id, self.side == Side::Server)) {
            agreed.close_if_done(id, self.side);
        }
        Ok(())
    }

    fn read(&mut self, c: &mut Connection, id: StreamId, agreed: &mut Agreement) -> Result<(), Wrong> {
        let Some(mut offset) = self.receiving.get(&id).copied() else { return Ok(()) };
        let sender = self.peer();
        let Some(flow) = agreed.flow(id, sender) else { return Ok(()) };
        if flow.end == FlowEnd::Unread && !self.reads_last {
            return Ok(());
        }
        let expected = Expected { id, sender, flow };
        loop {
            if let FlowEnd::Stop { after } = flow.end
                && offset >= after
            {
                if let Err(error) = c.stop(id, STOP) {
                    return Err(Wrong::Call(id, format!("stop: {error:?}")));
                }
                break;
            }
            let most = 1 + mix(id.0 ^ (offset << 8)) as usize % CHUNK;
            match c.read(id, &mut self.buffer[..most]) {
                Ok(Read::Data(n)) => {
                    offset = expected.data(offset, &self.buffer[..n])?;
                    agreed.credit.on_read(id, sender, offset);
                    self.note(6, id.0, offset);
                }
                Ok(Read::Finished) => {
                    expected.end(offset, SeenEnd::Finished)?;
                    break;
                }
                Err(ReadError::Reset(RESET)) => {
                    expected.end(offset, SeenEnd::Reset)?;
                    let promised = agreed.promised.get(&(id, sender == Side::Server));
                    if promised.is_some_and(|&promised| offset < promised) {
                        return Err(Wrong::End(id, format!("{promised:?} were promised"), offset, flow));
                    }
                    break;
                }
                Err(ReadError::Blocked) => {
                    self.receiving.insert(id, offset);
                    return Ok(());
                }
                Err(error) => return Err(Wrong::End(id, format!("{error:?}"), offset, flow)),
            }
        }
        self.receiving.remove(&id);
        self.note(7, id.0, offset);
        agreed.credit.on_ended(id, sender);
        if agreed.received.insert((id, sender == Side::Server)) {
            agreed.close_if_done(id, self.side);
        }
        Ok(())
    }
}
