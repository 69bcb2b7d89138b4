//! `mendpath send`.

use mendpath::PathStats;

use super::{dial_options, print};
use crate::{
    args::SendArgs,
    failure::Failure,
    token::Service,
    transfer::{SendOptions, Sent, send},
};

pub(super) async fn run(args: SendArgs) -> Result<(), Failure> {
    let dial = dial_options(&args.dial, Service::Files)?;
    let name = args.file.display().to_string();
    let sent = send(SendOptions { file: args.file, dial }).await?;
    print(&summary(&name, &sent));
    Ok(())
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
