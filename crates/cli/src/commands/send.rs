//! `mendpath send`.

use mendpath::PathStats;

use super::{Ending, Signals, dial_options, print};
use crate::{
    args::SendArgs,
    console::{say, shown},
    failure::Failure,
    token::Service,
    transfer::{SendOptions, Sent, send_until},
};

/// Returns the exit code.
pub(super) async fn run(args: SendArgs) -> Result<u8, Failure> {
    let dial = dial_options(&args.dial, Service::Files)?;
    let name = shown(&args.file);
    let (mut signals, mut ending) = (Signals::with_hangup(), None);
    let stopped = async { ending = Some(signals.next().await) };
    let sent = send_until(SendOptions { file: args.file, dial }, stopped).await?;
    match (sent, ending) {
        (Some(sent), _) => print(&summary(&name, &sent)).map(|()| 0),
        (None, ending) => {
            say(format_args!("stopped; {name} has not been sent"));
            Ok(ending.map_or(1, Ending::exit_code))
        }
    }
}

fn summary(name: &str, sent: &Sent) -> String {
    let mut out = format!(
        "sent {name}: {} in {:.2} s, {:.1} Mbit/s, checksum confirmed\n",
        units::Bytes(sent.size),
        sent.took.as_secs_f64(),
        sent.goodput_mbps()
    );
    for path in &sent.paths {
        out += &path_line(path);
    }
    out
}

fn path_line(path: &PathStats) -> String {
    format!(
        "  path {} from {}: {} in {} packets, RTT {:.1} ms, {} lost, {} of them mended, {} repair symbols and {} copies sent\n",
        path.id.0,
        path.network.local,
        units::Bytes(path.bytes_sent),
        path.packets_sent,
        units::Duration::from(path.rtt).as_millis_f64(),
        path.packets_lost,
        path.packets_mended,
        path.repair_symbols_sent,
        path.copies_sent
    )
}
