//! Many requests at once, like a browser's.

use std::{error::Error, sync::Arc};

use tokio::{task::JoinSet, time::Instant};

use crate::soak::{Outcome, fetch::Fetch, host::source, pair::Pair, print_times};

/// Pages of 50 parallel requests.
pub async fn load(pair: &Arc<Pair>) -> Outcome<()> {
    const PAGES: u64 = 10;
    const REQUESTS: u64 = 50;
    const SIZE: u64 = 300_000;
    let source = source().await?;
    let (mut requests, mut pages) = (Vec::new(), Vec::new());
    for page in 0..PAGES {
        let mut tasks = JoinSet::new();
        let began = Instant::now();
        for request in 0..REQUESTS {
            let pair = pair.clone();
            tasks.spawn(async move {
                let mut fetch =
                    Fetch::start(pair.connect(source).await?, page * REQUESTS + request, SIZE).await?;
                while fetch.step().await? {}
                Ok::<_, Box<dyn Error + Send + Sync>>(began.elapsed())
            });
        }
        while let Some(done) = tasks.join_next().await {
            requests.push(done??);
        }
        pages.push(began.elapsed());
    }
    print_times("requests of 300 kB, 50 at a time", requests);
    print_times("pages of 50 requests", pages);
    Ok(())
}
