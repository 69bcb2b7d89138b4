//! Asks the server for a UDP association.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Uplink, tunnel};
use crate::{
    association::Association,
    protocol::{Reply, Request, Status},
};

/// Names associations; wrapping around after four thousand million is harmless, since a used id is
/// refused.
static NEXT_ID: AtomicU32 = AtomicU32::new(1);

/// A new association.
///
/// # Errors
/// The server's answer, or one of ours when there is no server.
pub(crate) async fn associate(uplink: &Uplink) -> Result<Association, Reply> {
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let (session, send, receive) = tunnel::grant(uplink, &Request::Associate { id }).await?;
    let begun = Association::begin(&session.hub, id, (send, receive));
    begun.ok_or_else(|| Reply::new(Status::TooMany, "there are as many associations as there may be"))
}
