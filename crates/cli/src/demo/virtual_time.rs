//! One response in virtual time: the transport that ships, on the simulated links that the emulator
//! runs on the wall clock. Nothing waits, and this machine's noise is no part of it.

use netsim::{LinkConfig, Loss, Seed, network::Direction};
use testkit::response::{Exchange, PathPlan};

use super::{DemoOptions, Row, response::Measured};

const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Backward];

/// Measures the `index`-th response of `row`; its links draw what those of the emulator draw.
///
/// # Errors
/// What went wrong, in words.
pub(super) fn measure(row: &Row, index: u32, options: &DemoOptions) -> Result<Measured, String> {
    let links = row.paths.iter().map(|(_, path)| path.links_and_losses());
    let links: Vec<_> = links.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let plans: Vec<PathPlan> = links.iter().map(plan).collect();
    let set_up = Seed(options.seed).child("set-up", index.into());
    let exchange = Exchange::try_establish(set_up, &plans, &options.transport(row.recovery));
    let mut exchange = exchange.map_err(|error| error.to_string())?;

    for (path, links) in links.iter().enumerate() {
        let seed = options.seed_of(index, row.paths[path].0);
        for ((direction, name), (_, loss)) in DIRECTIONS.into_iter().zip(["up", "down"]).zip(links) {
            exchange.lose(path, direction, seed.child(name, 0), loss);
        }
    }
    let (lost, sent) = (lost(&exchange), exchange.world.connection(exchange.server).stats());
    let size = usize::try_from(options.size.get()).map_err(|error| error.to_string())?;
    let response = exchange.respond(size, |_, _| {}).map_err(|error| error.summary())?;
    let now = response.stats;
    Ok(Measured {
        fct: response.completion.into(),
        lost: self::lost(&exchange) - lost,
        mended: now.packets_mended - sent.packets_mended,
        bytes: now.bytes_sent - sent.bytes_sent,
        recovery_bytes: now.recovery_bytes_sent - sent.recovery_bytes_sent,
        late: std::time::Duration::ZERO,
    })
}

/// Links that lose nothing until the request is sent.
fn plan([(up, _), (down, loss)]: &[(LinkConfig, Loss); 2]) -> PathPlan {
    PathPlan { up: up.clone(), down: down.clone(), loss: loss.clone() }
}

/// Packets that the links have lost so far.
fn lost(exchange: &Exchange) -> u64 {
    let links = exchange.links.iter();
    let both = links.flat_map(|link| DIRECTIONS.map(|direction| exchange.world.link_stats(*link, direction)));
    both.map(|stats| stats.gone()).sum()
}
