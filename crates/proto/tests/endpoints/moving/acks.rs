//! What a side that only receives sends: ACKs, which stay short because it learns which of them
//! arrived (RFC 9000 section 13.2.4).

use mendpath_proto::{ControllerKind, RecoveryKind, TransportConfig};
use units::Duration;

use super::net::Net;

fn loses_five_percent(n: u64) -> bool {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xfff < 205
}

/// A download of `len` bytes, 5 % of all packets lost in both directions: the mean size of the
/// client's packets, and its bytes as a part of the server's.
fn lossy_download(transport: TransportConfig, len: usize) -> (f64, f64) {
    let mut net = Net::new(transport);
    net.lose = Box::new(loses_five_percent);
    let sent = |net: &mut Net| {
        let (client, server) = (net.client().stats(), net.server().stats());
        (client.packets_sent, client.bytes_sent, server.bytes_sent)
    };
    let before = sent(&mut net);
    net.transfer(true, len, Duration::from_secs(600), |_, _| {});
    let after = sent(&mut net);
    let (packets, up, down) = (after.0 - before.0, after.1 - before.1, after.2 - before.2);
    assert!(packets > 2_000, "{packets}");
    (up as f64 / packets as f64, up as f64 / down as f64)
}

/// Each ACK names what is new, not every gap since the beginning: with a window of a few packets,
/// and with one of hundreds, where a round trip has tens of gaps.
#[test]
fn acks_of_a_long_lossy_download_stay_short() {
    let single = TransportConfig { max_paths: 1, ..TransportConfig::default() };
    let plain = TransportConfig {
        controller: ControllerKind::NewReno,
        recovery: RecoveryKind::None,
        ..single.clone()
    };
    for (transport, len, longest, most) in
        [(plain, 8_000_000, 40.0, 0.016), (single, 20_000_000, 70.0, 0.024)]
    {
        let (mean, part) = lossy_download(transport, len);
        println!("{mean:.1} bytes per packet, {:.2} % of the download", part * 100.0);
        assert!(
            mean < longest && part < most,
            "{mean:.1} bytes per packet, {:.2} % of the download",
            part * 100.0
        );
    }
}

/// Two sides that have nothing but ACKs to send fall silent: whoever asks for an ACK does so once
/// in so many packets.
#[test]
fn receivers_do_not_keep_each_other_awake() {
    let mut net = Net::new(TransportConfig {
        max_idle_timeout: Duration::from_secs(60).into(),
        ..TransportConfig::default()
    });
    net.lose = Box::new(loses_five_percent);
    net.transfer(true, 2_000_000, Duration::from_secs(60), |_, _| {});
    net.transfer(false, 2_000_000, Duration::from_secs(60), |_, _| {});
    net.run(Duration::from_secs(5));
    let sent = |net: &mut Net| net.client().stats().packets_sent + net.server().stats().packets_sent;
    let before = sent(&mut net);
    net.run(Duration::from_secs(30));
    assert_eq!(sent(&mut net), before);
}
