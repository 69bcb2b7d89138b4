//! One client of the server.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use mendpath::{
    Connection, ConnectionError, Incoming, PathEvent, PathId, PathUpdate, RecvStream, SendStream,
};
use tokio::{sync::Semaphore, time::Instant};
use tracing::{Instrument as _, debug, info, info_span};

#[cfg(all(feature = "tunnel", target_os = "linux"))]
use super::tunnel;
use super::{Admitted, HELLO_TIMEOUT, Shared, associate, connect, gate::reason, means::Allowance};
use crate::{
    association::Hub,
    protocol::{CloseCode, MAX_MESSAGE, Notice, Reply, Request, Status, StreamCode, read_frame, write_frame},
    splice::Abort as _,
    status::{EventKind, Journal, Silences},
};

/// Serves one client until it is gone. Who is not let in is no news: strangers would fill the log.
pub(super) async fn serve(incoming: Incoming, shared: &Arc<Shared>) {
    let (from, deadline) = (incoming.remote_address(), Instant::now() + HELLO_TIMEOUT);
    let connection = match incoming.await {
        Ok(connection) => connection,
        Err(error) => return debug!(%from, "handshake failed: {error}"),
    };
    let span = info_span!("connection", id = connection.original_id());
    serve_connection(connection, from, deadline, shared).instrument(span).await;
}

async fn serve_connection(connection: Connection, from: SocketAddr, deadline: Instant, shared: &Arc<Shared>) {
    let admitted = match shared.gate.admit_before(&connection, deadline).await {
        Ok(admitted) => admitted,
        Err(CloseCode::Unavailable) if shared.drain.is_on() => {
            return info!(%from, "client not let in: the server drains");
        }
        Err(CloseCode::Unavailable) => return shared.tally.turned_away(from),
        Err(code) => return debug!(%from, "not let in: {code:?}"),
    };
    let Admitted { control: (mut tell, mut control), seat: _seat, account } = admitted;
    let account = account.expect("the proxy's gate asks for accounts");
    let _present = account.enter();
    let hub = Arc::new(Hub::new(connection.clone()));
    let entry = shared.tally.enter(&connection, Some(hub.clone()), &Arc::from(account.name().as_str()));
    let (number, journal) = (entry.number(), &shared.tally.live().journal);
    info!(%from, client = number, account = %account.name(), "client let in");
    journal.note(
        EventKind::Up,
        format_args!("client {number} of {} is here, from {}", account.name(), from.ip()),
    );
    let streams = Arc::new(Semaphore::new(shared.streams.load(Relaxed)));
    let allowance = Arc::new(shared.means.allowance(account.clone()));
    let goodbye = async {
        // The client says nothing more on its control stream; its end is the end.
        let _ = read_frame(&mut control, MAX_MESSAGE).await;
        ConnectionError::LocallyClosed
    };
    let move_on = async {
        if shared.balanced {
            let _ = write_frame(&mut tell, &Notice::Balanced.encode()).await;
        }
        let until = shared.drain.begun().await;
        let within = until.saturating_duration_since(Instant::now());
        let notice = Notice::Draining { within, text: String::new() };
        // Kept open: its end would mean nothing.
        let _ = write_frame(&mut tell, &notice.encode()).await;
        std::future::pending().await
    };
    let error = tokio::select! {
        error = accept(&connection, shared, &hub, &streams, &allowance) => error,
        error = goodbye => error,
        error = move_on => error,
        () = hub.run() => ConnectionError::LocallyClosed,
        () = tell_of_paths(&connection, number, journal) => connection.closed().await,
        over = account.over() => {
            let code = CloseCode::from(over);
            connection.close(code.into(), reason(code).as_bytes());
            let name = account.name();
            journal.note(EventKind::Refused, format_args!("client {number} of {name} sent away: {}", reason(code)));
            return info!(%from, account = %name, client = number, "client sent away: {}", reason(code));
        }
    };
    connection.close(CloseCode::Done.into(), b"");
    info!(%from, client = number, "client gone: {error}");
    journal.note(EventKind::Down, format_args!("client {number} is gone: {error}"));
}

/// Answers what a client asks for, until its connection ends.
async fn accept(
    connection: &Connection,
    shared: &Arc<Shared>,
    hub: &Arc<Hub>,
    streams: &Arc<Semaphore>,
    allowance: &Arc<Allowance>,
) -> ConnectionError {
    loop {
        let stream = match connection.accept_bi().await {
            Ok(stream) => stream,
            Err(error) => return error,
        };
        let (shared, hub) = (shared.clone(), hub.clone());
        let answer = answer(stream, connection.clone(), shared, hub, streams.clone(), allowance.clone());
        tokio::spawn(answer.in_current_span());
    }
}

/// Writes down what becomes of a client's paths, until its connection ends.
async fn tell_of_paths(connection: &Connection, number: u64, journal: &Journal) {
    let note = |kind, id: PathId, what| {
        journal.note(kind, format_args!("client {number}: path {id} {what}"));
    };
    let mut updates = connection.path_updates();
    let mut silences = Silences::default();
    loop {
        let update = tokio::select! {
            update = updates.next() => update,
            id = silences.overdue() => {
                note(EventKind::Down, id, "does not answer");
                continue;
            }
        };
        match update {
            None => return,
            Some(PathUpdate::Event(event)) => match event {
                PathEvent::Validated(id) => note(EventKind::Up, id, "is open"),
                PathEvent::Suspect(id) => silences.begin(id),
                PathEvent::Resumed(id) if silences.end(id) => note(EventKind::Up, id, "answers again"),
                PathEvent::Moved(id) => note(EventKind::Changed, id, "has moved"),
                PathEvent::Closed { path, .. } => {
                    silences.end(path);
                    note(EventKind::Down, path, "is closed");
                }
                _ => {}
            },
            Some(_) => {}
        }
    }
}

/// Answers one stream's request.
async fn answer(
    (mut send, mut receive): (SendStream, RecvStream),
    connection: Connection,
    shared: Arc<Shared>,
    hub: Arc<Hub>,
    streams: Arc<Semaphore>,
    allowance: Arc<Allowance>,
) {
    let body = tokio::time::timeout(HELLO_TIMEOUT, read_frame(&mut receive, MAX_MESSAGE)).await;
    let request = match body {
        Ok(Ok(Some(body))) => Request::decode(&body),
        // Nothing that could be answered.
        _ => {
            send.abort(StreamCode::Malformed);
            return receive.abort(StreamCode::Malformed);
        }
    };
    let Ok(_seat) = streams.try_acquire() else {
        return refuse(send, receive, Reply::new(Status::TooMany, "too many connections of this client"))
            .await;
    };
    debug!(?request, "request");
    match request {
        Ok(Request::Connect(target)) => connect::serve(&target, (send, receive), &shared, &allowance).await,
        Ok(Request::Associate { id }) => {
            associate::serve(id, (send, receive), &hub, &shared, &allowance).await
        }
        Ok(Request::LimitPath { path, limits }) => {
            let limited = connection.path(PathId(path)).map(|path| path.set_limits(limits));
            let reply = match limited {
                Some(Ok(())) => Reply::ok(),
                _ => Reply::new(Status::Failed, "there is no such path"),
            };
            refuse(send, receive, reply).await;
        }
        #[cfg(all(feature = "tunnel", target_os = "linux"))]
        Ok(Request::Tunnel { id, name, wanted: index, coding }) => {
            let wanted = tunnel::Wanted { id, name, index, coding };
            tunnel::serve(wanted, &connection, (send, receive), &hub, &shared, &allowance).await;
        }
        #[cfg(not(all(feature = "tunnel", target_os = "linux")))]
        Ok(Request::Tunnel { .. }) => {
            refuse(send, receive, Reply::new(Status::Unsupported, "this server offers no tunnel of packets"))
                .await;
        }
        Ok(Request::File { .. }) => {
            refuse(send, receive, Reply::new(Status::Unsupported, "this server takes no files")).await;
        }
        Err(error) => refuse(send, receive, Reply::new(Status::Unsupported, error)).await,
    }
}

/// Answers, with a failure as a rule, and ends the stream.
pub(super) async fn refuse(mut send: SendStream, mut receive: RecvStream, reply: Reply) {
    debug!(status = ?reply.status, reply.text, "refused");
    let _ = write_frame(&mut send, &reply.encode()).await;
    let _ = send.finish();
    receive.abort(StreamCode::Cancelled);
}
