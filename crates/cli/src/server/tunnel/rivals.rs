//! Two machines that call themselves alike: whoever comes second hears of it, instead of taking the
//! tunnel from the first.

use std::time::Duration;

use mendpath::Connection;
use tokio::time::{interval, timeout};

/// For a client to answer before it is taken for gone. A machine that comes back after a crash waits
/// as long.
const ANSWER: Duration = Duration::from_secs(1);
/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(20);

/// Asks the client at the other end of `connection` whether it is there.
pub(super) async fn answers(connection: &Connection) -> bool {
    let heard = || connection.stats().packets_received;
    let before = heard();
    connection.probe();
    let answer = async {
        let mut look = interval(LOOK);
        while heard() == before && connection.close_reason().is_none() {
            look.tick().await;
        }
        connection.close_reason().is_none()
    };
    timeout(ANSWER, answer).await.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::association::tests::connected;

    #[tokio::test]
    async fn who_is_there_answers() {
        let (client, _streams, server) = connected().await;
        assert!(answers(&server).await);
        drop(client);
        server.close(0_u32.into(), b"");
        assert!(!answers(&server).await);
    }
}
