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
/// that tells the server is `demand`ed as for a program: else it would wait until one happens to be over.
pub(super) async fn follow(connection: &Connection, demand: &Demand, live: &Live) {
    let mut in_force: BTreeMap<PathId, Terms> = BTreeMap::new();
    let mut follows = true;
    loop {
        let wanted = live.wishes.terms(&live.path_names());
        in_force.retain(|id, _| wanted.contains_key(id));
        let differs = |id: &PathId, terms: &Terms| in_force.get(id).copied().unwrap_or_default() != *terms;
        let change = wanted.into_iter().find(|(id, terms)| differs(id, terms));
        let Some((id, terms)) = change else {
            live.wishes.changed().await;
            continue;
        };
        let before = in_force.insert(id, terms).unwrap_or_default();
        let Some(path) = connection.path(id) else { continue };
        let result = path.set_status(terms.status).and_then(|()| path.set_limits(terms.limits));
        debug!(%id, ?terms, ?result, "as wished");
        if follows && before.limits != terms.limits {
            // One after the other, so that the newest wish is the last that the server hears.
            follows = tell_server(connection, demand, id, terms.limits).await;
            if !follows {
                let text = "the server is older: a cap holds for uploads alone, and a paused path is a backup for downloads";
                live.journal.note(EventKind::Refused, text);
                say(text);
            }
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
    use std::time::Duration;

    use super::*;
    use crate::{
        association::tests::connected,
        status::{Change, Order},
    };

    /// As at a client whose programs keep connections to origin servers on all streams that there are.
    #[tokio::test]
    async fn a_wish_that_finds_no_stream_has_a_kept_connection_give_way() {
        let (connection, _stream, _other) = connected().await;
        // The peer allows four.
        let _others = [connection.open_bi().await, connection.open_bi().await, connection.open_bi().await];
        let (live, demand, name) = (Live::new(true), Demand::new(), "wlan0 (127.0.0.1)".to_owned());
        live.path_names().insert(PathId(0), name.clone());
        let order = Order { names: vec![name.clone()], change: Change::Metered };
        live.wishes.order(&order, &[name]).unwrap();
        tokio::select! {
            () = follow(&connection, &demand, &live) => unreachable!("the connection lives"),
            asked = tokio::time::timeout(Duration::from_secs(60), demand.gives_way()) => {
                asked.expect("one is asked to");
            }
        }
    }
}
