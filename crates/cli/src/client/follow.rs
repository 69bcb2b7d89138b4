//! The user's wishes, carried out on a connection.

use std::collections::BTreeMap;

use mendpath::{Connection, PathId, PathLimits};
use tracing::debug;

use super::demand::Demand;
use crate::{
    console::say,
    protocol::{MAX_MESSAGE, Reply, Request, Status, read_frame, write_frame},
    status::{EventKind, Live, Terms},
};

/// Has the transport, and the server, do as the user wishes, for as long as the connection lives. A stream
/// that tells the server is `demand`ed as for a program: else it would wait until one happens to be over. What
/// is wished meanwhile holds here at once.
pub(super) async fn follow(connection: &Connection, demand: &Demand, live: &Live) {
    let mut in_force: BTreeMap<PathId, Terms> = BTreeMap::new();
    let mut untold: BTreeMap<PathId, PathLimits> = BTreeMap::new();
    let (mut telling, mut follows) = (None, true);
    loop {
        carry_out(connection, live, &mut in_force, &mut untold);
        if telling.is_none() && follows {
            // One after the other, so that the newest wish is the last that the server hears.
            let next = untold.pop_first();
            telling = next.map(|(id, limits)| Box::pin(tell_server(connection, demand, id, limits)));
        }
        tokio::select! {
            () = live.wishes.changed() => {}
            told = async { telling.as_mut().expect("there is one").await }, if telling.is_some() => {
                telling = None;
                follows = told;
                if !told {
                    let text = "the server is older: a cap holds for uploads alone, and a paused path is a backup for downloads";
                    live.journal.note(EventKind::Refused, text);
                    say(text);
                }
            }
        }
    }
}

/// Has the transport do as the user wishes. What the server is to hear of that is `untold`: of each path the
/// newest.
fn carry_out(
    connection: &Connection,
    live: &Live,
    in_force: &mut BTreeMap<PathId, Terms>,
    untold: &mut BTreeMap<PathId, PathLimits>,
) {
    let wanted = live.wishes.terms(&live.path_names());
    in_force.retain(|id, _| wanted.contains_key(id));
    untold.retain(|id, _| wanted.contains_key(id));
    for (id, terms) in wanted {
        let before = in_force.get(&id).copied().unwrap_or_default();
        if before == terms {
            continue;
        }
        in_force.insert(id, terms);
        let Some(path) = connection.path(id) else { continue };
        let result = path.set_status(terms.status).and_then(|()| path.set_limits(terms.limits));
        debug!(%id, ?terms, ?result, "as wished");
        if before.limits != terms.limits {
            untold.insert(id, terms.limits);
        }
    }
}

/// Asks the server to send as we do; false if it does not know how.
async fn tell_server(connection: &Connection, demand: &Demand, id: PathId, limits: PathLimits) -> bool {
    let Ok((mut send, mut receive)) = demand.open(connection).await else { return true };
    let request = Request::LimitPath { path: id.0, limits };
    if write_frame(&mut send, &request.encode()).await.is_err() {
        return true;
    }
    let _ = send.finish();
    let answer = read_frame(&mut receive, MAX_MESSAGE).await.ok().flatten();
    !answer
        .and_then(|body| Reply::decode(&body).ok())
        .is_some_and(|reply| reply.status == Status::Unsupported)
}

#[cfg(test)]
mod tests {
    use std::{slice, time::Duration};

    use tokio::{task::yield_now, time::timeout};
    use units::BitRate;

    use super::*;
    use crate::{
        association::tests::connected,
        status::{Change, Order},
    };

    /// A connection all of whose streams are taken, what takes them, and the name of its path.
    async fn without_a_stream() -> (Connection, impl Sized, Live, String) {
        let (connection, stream, other) = connected().await;
        // The peer allows four.
        let others = [connection.open_bi().await, connection.open_bi().await, connection.open_bi().await];
        let (live, name) = (Live::new(true), "wlan0 (127.0.0.1)".to_owned());
        live.path_names().insert(PathId(0), name.clone());
        (connection, (stream, other, others), live, name)
    }

    /// As at a client whose programs keep connections to origin servers on all streams that there are.
    #[tokio::test]
    async fn a_wish_that_finds_no_stream_has_a_kept_connection_give_way() {
        let (connection, _streams, live, name) = without_a_stream().await;
        let demand = Demand::new();
        let order = Order { names: vec![name.clone()], change: Change::Metered };
        live.wishes.order(&order, &[name]).unwrap();
        tokio::select! {
            () = follow(&connection, &demand, &live) => unreachable!("the connection lives"),
            asked = timeout(Duration::from_secs(60), demand.gives_way()) => {
                asked.expect("one is asked to");
            }
        }
    }

    /// As a path that costs money, and is to be paused while the server takes its time with the wish before.
    #[tokio::test]
    async fn a_wish_holds_here_while_the_server_has_not_heard_of_the_one_before() {
        let (connection, _streams, live, name) = without_a_stream().await;
        let demand = Demand::new();
        let wish = |rate| {
            let order = Order { names: vec![name.clone()], change: Change::Cap(Some(rate)) };
            live.wishes.order(&order, slice::from_ref(&name)).unwrap();
        };
        let wishing = async {
            wish(1_000_000);
            // The server is to hear of it, and there is no stream.
            demand.gives_way().await;
            wish(2_000_000);
            let path = connection.path(PathId(0)).unwrap();
            while path.limits().unwrap().rate != Some(BitRate(2_000_000)) {
                yield_now().await;
            }
        };
        tokio::select! {
            () = follow(&connection, &demand, &live) => unreachable!("the connection lives"),
            holds = timeout(Duration::from_secs(60), wishing) => holds.expect("it holds at once"),
        }
    }
}
