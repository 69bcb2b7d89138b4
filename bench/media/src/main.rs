//! A camera that publishes live video by Media over QUIC (`moq-net`, moq-lite 06) to a receiver:
//! over two emulated paths with Mendpath, of which the first fails in the midst and comes back,
//! and over one with Mendpath or quinn. Prints a table of what a viewer would see.
//!
//! On loopback, without root. The frames are made up: what they are called and when they were taken
//! stands in their first bytes, and both ends have the same clock.

mod camera;
mod network;
mod stacks;
mod viewer;

use std::time::Duration;

use clap::Parser;
use tokio::time::Instant;

use self::{
    camera::Camera,
    network::Network,
    stacks::{Paths, Stack},
    viewer::{Report, Seen, Viewer},
};

/// The broadcast, and its only track.
const BROADCAST: &str = "camera";
const TRACK: &str = "video";

/// Live video over two paths of which one fails, beside quinn on one of them.
#[derive(Parser)]
struct Args {
    /// Runs of each row, over other losses each time.
    #[arg(long, default_value_t = 5)]
    runs: u64,
    /// Seconds of video; the first path is cut in the middle third.
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// How long after it was taken a frame is shown; one that is not there is a stall.
    #[arg(long, default_value_t = 250, value_name = "MS")]
    buffer: u64,
    /// The first path, each way.
    #[arg(long, default_value = "rate=12mbit,delay=20ms,loss=1%")]
    first: String,
    /// The second path, each way.
    #[arg(long, default_value = "rate=8mbit,delay=35ms,loss=1%")]
    second: String,
}

const ROWS: [(&str, Stack, Paths); 5] = [
    ("mendpath, both", Stack::Mendpath, Paths::Both),
    ("mendpath, first", Stack::Mendpath, Paths::First),
    ("quinn, first", Stack::Quinn, Paths::First),
    ("mendpath, second", Stack::Mendpath, Paths::Second),
    ("quinn, second", Stack::Quinn, Paths::Second),
];

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    println!("| | first frame | median | 99 % | frames in time | stalls a run | stalled | MB sent |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for (name, stack, paths) in ROWS {
        let mut report = Report::default();
        for run in 0..args.runs {
            report.add(once(&args, stack, paths, run).await?);
        }
        println!("| {name} | {report} |");
    }
    Ok(())
}

/// One broadcast from before it is announced until its last frame is due.
async fn once(args: &Args, stack: Stack, paths: Paths, run: u64) -> anyhow::Result<Seen> {
    let buffer = Duration::from_millis(args.buffer);
    let duration = Duration::from_secs(args.seconds);
    let receiver = stacks::receive(stack)?;
    let network = Network::start(&args.first, &args.second, receiver.address, run)?;
    let began = Instant::now();
    let camera = Camera::start(began, duration)?;
    let viewer = Viewer::start(receiver.origin.consume(), began);
    let sending = stacks::publish(&receiver, &network, paths, camera.origin()).await?;
    network.fail(began + duration / 3, began + 2 * duration / 3).await?;
    // Whatever is later than this was in time for nobody.
    tokio::time::sleep_until(began + duration + 4 * buffer).await;
    let sent = sending.bytes();
    Ok(Seen::new(&camera.taken(), viewer.stop(), buffer, sent))
}
