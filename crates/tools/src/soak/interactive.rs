//! Single bytes, like typing into ssh.

use std::{sync::Arc, time::Duration as StdDuration};

use mendpath_cli::backoff::pause;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::{Instant, timeout},
};

use crate::soak::{ANY, Outcome, STALL, pair::Pair, print_times};

/// Single bytes, each after the echo of the last.
pub async fn interactive(pair: &Arc<Pair>) -> Outcome<()> {
    let listener = TcpListener::bind(ANY).await?;
    let mut tcp = pair.connect(listener.local_addr()?).await?;
    let (mut far, _) = listener.accept().await?;
    far.set_nodelay(true)?;
    tokio::spawn(async move {
        let (mut read, mut write) = far.split();
        tokio::io::copy(&mut read, &mut write).await
    });
    let mut times = Vec::new();
    for typed in 0..200u8 {
        let began = Instant::now();
        tcp.write_all(&[typed]).await?;
        let echoed = timeout(STALL, tcp.read_u8()).await.map_err(|_| "an echo never came")??;
        times.push(began.elapsed());
        if echoed != typed {
            return Err(format!("typed {typed}, echoed {echoed}").into());
        }
        // People pause between keys; without that, every byte would be cover for the last.
        pause(StdDuration::from_millis(20)).await;
    }
    print_times("echoes of one byte", times);
    Ok(())
}
