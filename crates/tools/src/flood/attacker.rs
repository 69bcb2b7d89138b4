//! The process that floods.

mod army;
mod tactics;
mod wire;

use std::{
    io::{self, Read as _, Write as _},
    net::SocketAddr,
};

use mendpath_cli::invitation::Invitation;
use units::{BitRate, Duration, Instant};

use crate::flood::{Outcome, kind::Kind, print};
use army::Army;
use tactics::Tactics;

/// What to do.
#[derive(Clone, clap::Args)]
pub struct Orders {
    /// How.
    #[arg(long)]
    pub kind: Kind,
    /// Whom. Where the token matters, it is shown.
    #[arg(long)]
    pub invitation: String,
    /// How much at most.
    #[arg(long)]
    pub rate: BitRate,
    /// How long.
    #[arg(long)]
    pub seconds: u64,
    /// A host that never answers.
    #[arg(long)]
    pub dead: SocketAddr,
    /// Of sources and connections.
    #[arg(long)]
    pub seed: u64,
}

/// What an attacker says when it has done its work, in this order.
#[derive(Default)]
pub struct Deeds {
    pub seconds: f64,
    pub sent_bytes: u64,
    pub sent: u64,
    pub heard: u64,
    pub begun: u64,
    pub completed: u64,
    pub closed: u64,
    pub asked: u64,
    pub retried: u64,
}

impl Deeds {
    /// Reads the line that [`run`] ends with.
    pub fn parse(line: &str) -> Outcome<Self> {
        let mut words = line.split(' ');
        let mut next = || words.next().ok_or("the attacker said too little");
        Ok(Self {
            seconds: next()?.parse()?,
            sent_bytes: next()?.parse()?,
            sent: next()?.parse()?,
            heard: next()?.parse()?,
            begun: next()?.parse()?,
            completed: next()?.parse()?,
            closed: next()?.parse()?,
            asked: next()?.parse()?,
            retried: next()?.parse()?,
        })
    }

    /// Whether it came to what this kind of flood is about.
    pub fn took_place(&self, kind: Kind) -> bool {
        let what = match kind {
            Kind::Initials => self.sent,
            Kind::Retry => self.retried,
            // What the server answers is what is left without an end.
            Kind::Handshakes => self.heard,
            Kind::Connects | Kind::Dns => self.asked,
            // The others complete connections, whatever they do then.
            _ => self.completed,
        };
        what > 0
    }
}

/// Prepares, says so, waits for the end of standard input, floods, and says what it has done.
pub fn run(orders: &Orders) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(flood(orders))
}

async fn flood(orders: &Orders) -> Outcome<()> {
    let invitation: Invitation = orders.invitation.parse()?;
    let mut army = Army::new(&invitation, orders.seed)?;
    let clock = tokio::time::Instant::now();
    let now = || Instant::ORIGIN + Duration::from(clock.elapsed());
    let mut tactics = Tactics::prepare(orders, &invitation, &mut army, now())?;
    print(format_args!("ready"));
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;

    let began = now();
    let end = began + Duration::from_secs(orders.seconds);
    let mut swept = began;
    while now() < end {
        let heard = army.hear(now(), |datagram| tactics.lets_hear(datagram));
        for handle in heard {
            tactics.on_word(&mut army, now(), handle);
        }
        // Timers are for those who keep connections; a few milliseconds late is soon enough for
        // them.
        if now() >= swept + Duration::from_millis(5) {
            swept = now();
            for handle in army.wake(swept) {
                let left = orders.rate.bytes_in(swept - began).saturating_sub(army.wire.sent_bytes);
                army.attend(swept, handle, left);
            }
            tactics.dismiss(&mut army, swept);
        }
        let allowed = orders.rate.bytes_in(now() - began);
        while army.wire.sent_bytes < allowed {
            let before = army.wire.sent_bytes;
            let struck = tactics.strike(&mut army, now(), began, allowed - before)?;
            // What the kernel does not take it may take in a while.
            if !struck || army.wire.sent_bytes == before {
                break;
            }
        }
        army.wire.wait().await;
    }
    let wire = &army.wire;
    print(format_args!(
        "{} {} {} {} {} {} {} {} {}",
        (now() - began).as_secs_f64(),
        wire.sent_bytes,
        wire.sent,
        wire.heard,
        army.begun,
        army.completed,
        army.closed,
        tactics.asked,
        tactics.retried
    ));
    Ok(())
}
