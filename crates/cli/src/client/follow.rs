//! The user's wishes, carried out on a connection.

use std::collections::BTreeMap;

use mendpath::{Connection, PathId, PathLimits};
use tracing::debug;

use crate::{
    console::say,
    protocol::{MAX_MESSAGE, Reply, Request, Status, read_frame, write_frame},
    status::{EventKind, Live, Terms},
};

/// Has the transport, and the server, do as the user wishes, for as long as the connection lives.
pub(super) async fn follow(connection: &Connection, live: &Live) {
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
            follows = tell_server(connection, id, terms.limits).await;
            if !follows {
                let text = "the server is older: a cap holds for uploads alone, and a paused path is a backup for downloads";
                live.journal.note(EventKind::Refused, text);
                say(text);
            }
        }
    }
}

/// Asks the server to send as we do; false if it does not know how.
async fn tell_server(connection: &Connection, id: PathId, limits: PathLimits) -> bool {
    let Ok((mut send, mut receive)) = connection.open_bi().await else { return true };
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
