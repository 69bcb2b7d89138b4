//! A snapshot as one screen of text.

use std::fmt::Write as _;

use super::{PathRow, Role, Snapshot};

const BIT_RATES: [&str; 4] = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"];
/// Destinations and events on the screen.
const SHOWN: usize = 8;

/// The screen. Those of before, the oldest first, say how fast things go.
pub(crate) fn screen(now: &Snapshot, before: &[Snapshot]) -> String {
    let mut out = String::new();
    let earlier = before.last();
    head(&mut out, now);
    sums(&mut out, now, earlier);
    for path in &now.paths {
        let last = earlier.and_then(|earlier| same(path, earlier));
        let seconds = earlier.map_or(0.0, |earlier| seconds_between(earlier, now));
        describe(&mut out, path, last, seconds, is_client(now));
        if !before.is_empty() {
            chart(&mut out, path, now, before);
        }
    }
    traffic(&mut out, now);
    events(&mut out, now);
    out
}

/// The path in another snapshot.
fn same<'a>(path: &PathRow, other: &'a Snapshot) -> Option<&'a PathRow> {
    other.paths.iter().find(|other| (other.client, other.id) == (path.client, path.id))
}

fn is_client(now: &Snapshot) -> bool {
    matches!(now.role, Role::Client(_))
}

/// However the clock was set meanwhile.
fn seconds_between(earlier: &Snapshot, now: &Snapshot) -> f64 {
    now.uptime_ms.saturating_sub(earlier.uptime_ms).max(200) as f64 / 1e3
}

/// Down and up of what this side sent and received.
fn turned<T>(is_client: bool, sent: T, received: T) -> (T, T) {
    if is_client { (received, sent) } else { (sent, received) }
}

fn head(out: &mut String, now: &Snapshot) {
    let up = duration(now.uptime_ms as f64);
    let _ = match &now.role {
        Role::Client(row) => {
            let state = if row.connected { "connected" } else { "no connection" };
            writeln!(
                out,
                "client of {}{}: {state}\n  {}{} reconnects, up for {up}, version {}",
                row.server,
                match row.servers.len() {
                    0 | 1 => String::new(),
                    all => format!(" (one of {all} servers)"),
                },
                match row.recovery.as_str() {
                    "" => String::new(),
                    scheme => format!("recovery {scheme}, "),
                },
                row.reconnects,
                now.version
            )
        }
        Role::Server(row) => {
            writeln!(
                out,
                "server on {}: {}{} {}\n  {} at the door, {} turned away, up for {up}, version {}",
                row.listen.join(", "),
                if row.draining { "about to stop, " } else { "" },
                row.clients,
                if row.clients == 1 { "client" } else { "clients" },
                row.waiting,
                row.turned_away,
                now.version
            )
        }
    };
}

fn sums(out: &mut String, now: &Snapshot, earlier: Option<&Snapshot>) {
    let of = |snapshot: &Snapshot, name: &str| snapshot.totals.get(name).copied().unwrap_or(0);
    let all = |name| of(now, name);
    let (down, up) = turned(is_client(now), all("stream_bytes_sent"), all("stream_bytes_received"));
    let _ = write!(out, "  goodput {} down, {} up", bytes(down), bytes(up));
    if let Some(earlier) = earlier {
        let seconds = seconds_between(earlier, now);
        let speed = |name| rate(all(name).saturating_sub(of(earlier, name)), seconds);
        let (down, up) = turned(is_client(now), speed("stream_bytes_sent"), speed("stream_bytes_received"));
        let _ = write!(out, "; now {down} down, {up} up");
    }
    let _ = writeln!(
        out,
        "\n  lost {} of {} packets sent here, {} of them mended; {} rebuilt here\n  \
         delay saved {} (estimated: one round trip for each mended or rebuilt packet, \
         no more than passed)",
        all("packets_lost"),
        all("packets_sent"),
        all("packets_mended"),
        all("packets_rebuilt"),
        duration(now.saved_ms)
    );
}

fn describe(out: &mut String, path: &PathRow, before: Option<&PathRow>, seconds: f64, is_client: bool) {
    let owner = path.client.map(|client| format!("client {client}: ")).unwrap_or_default();
    let mut state = if path.state == "suspect" { "does not answer".to_owned() } else { path.state.clone() };
    if path.metered {
        state += ", metered";
    }
    if let Some(cap) = path.cap_bits_per_second {
        let _ = write!(state, ", at most {} each way", scaled(cap as f64, &BIT_RATES));
    }
    let (down, up) = turned(is_client, path.bytes_sent, path.bytes_received);
    let lost = share(path.packets_lost, path.packets_sent);
    let missing = share(path.packets_missing, path.packets_missing + path.packets_received);
    let (loss_down, loss_up) = turned(is_client, lost, missing);
    let _ = writeln!(
        out,
        "\n{owner}path {} {} -> {}\n  {state}, round trip {} (least {}), window {} with {} in flight\n  \
         loss {loss_down} down, {loss_up} up; {} down, {} up",
        path.id,
        path.name,
        path.remote,
        duration(path.rtt_ms),
        duration(path.rtt_min_ms),
        bytes(path.window_bytes),
        bytes(path.in_flight_bytes),
        bytes(down),
        bytes(up)
    );
    if let Some(before) = before {
        let sent = rate(path.bytes_sent.saturating_sub(before.bytes_sent), seconds);
        let received = rate(path.bytes_received.saturating_sub(before.bytes_received), seconds);
        let (down, up) = turned(is_client, sent, received);
        let _ = writeln!(out, "  now {down} down, {up} up");
    }
}

/// Bytes of both directions over time, one block for each snapshot.
fn chart(out: &mut String, path: &PathRow, now: &Snapshot, before: &[Snapshot]) {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let moved = |snapshot: &Snapshot| same(path, snapshot).map(|row| row.bytes_sent + row.bytes_received);
    let all: Vec<&Snapshot> = before.iter().chain([now]).collect();
    let rates: Vec<f64> = all
        .windows(2)
        .map(|pair| {
            let (then, later) = (moved(pair[0]).unwrap_or(0), moved(pair[1]).unwrap_or(0));
            later.saturating_sub(then) as f64 * 8.0 / seconds_between(pair[0], pair[1])
        })
        .collect();
    let most = rates.iter().copied().fold(1.0, f64::max);
    let blocks: String = rates.iter().map(|rate| BLOCKS[(rate / most * 7.0).round() as usize]).collect();
    let _ = writeln!(out, "  {blocks} of {} at most", scaled(most, &BIT_RATES));
}

fn traffic(out: &mut String, now: &Snapshot) {
    let traffic = &now.traffic;
    let _ = writeln!(out, "\nconnections: {} open, {} so far", traffic.open, traffic.count);
    let label =
        |row: &super::DestinationRow| format!("{}:{}", row.host.as_deref().unwrap_or("a host"), row.port);
    let shown = &traffic.destinations[..traffic.destinations.len().min(SHOWN)];
    let width = shown.iter().map(|row| label(row).len()).max().unwrap_or(0);
    for row in shown {
        let (down, up) = turned(is_client(now), row.bytes_sent, row.bytes_received);
        let _ = writeln!(
            out,
            "  {:width$}  {:>4} open  {:>8} down  {:>8} up",
            label(row),
            row.open,
            bytes(down),
            bytes(up)
        );
    }
}

fn events(out: &mut String, now: &Snapshot) {
    if !now.events.is_empty() {
        out.push_str("\nevents\n");
    }
    for event in now.events.iter().take(SHOWN) {
        let ago = duration(now.unix_ms.saturating_sub(event.unix_ms) as f64);
        let times = if event.count > 1 { format!(" ({} times)", event.count) } else { String::new() };
        let _ = writeln!(out, "  {ago:>7} ago  {}{times}", event.text);
    }
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

fn bytes(value: u64) -> String {
    scaled(value as f64, &["B", "kB", "MB", "GB", "TB"])
}

fn rate(moved: u64, seconds: f64) -> String {
    scaled(moved as f64 * 8.0 / seconds, &BIT_RATES)
}

/// Three digits and a unit.
fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1e3;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {}", units[unit])
}

fn duration(ms: f64) -> String {
    let seconds = ms / 1e3;
    match seconds {
        ..0.0995 => format!("{ms:.1} ms"),
        ..1.0 => format!("{ms:.0} ms"),
        ..120.0 => format!("{seconds:.0} s"),
        ..7_200.0 => format!("{:.0} min", (seconds / 60.0).floor()),
        ..172_800.0 => format!("{:.0} h", (seconds / 3_600.0).floor()),
        _ => format!("{:.0} days", (seconds / 86_400.0).floor()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::status::{ClientRow, EventKind, Live};

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!(
            [0, 999, 1_000, 12_340, 999_949].map(bytes),
            ["0 B", "999 B", "1.00 kB", "12.3 kB", "1.00 MB"]
        );
        assert_eq!(rate(1_250_000, 2.0), "5.00 Mbit/s");
        assert_eq!(
            [0.4, 34.2, 250.0, 90_000.0, 600_000.0, 86_400_000.0, 864_000_000.0].map(duration),
            ["0.4 ms", "34.2 ms", "250 ms", "90 s", "10 min", "24 h", "10 days"]
        );
    }

    #[test]
    fn a_screen_says_it_all() {
        let live = Live::new(true);
        live.journal.note(EventKind::Down, "path wlan0 is gone\u{1b}[2J");
        let _flow = live.traffic.begin(&"example.org:443".parse().unwrap());
        let role = || {
            let recovery = "auto".to_owned();
            Role::Client(ClientRow {
                server: "vps.example:4433".into(),
                servers: vec!["vps.example:4433".into(), "b.example:4433".into()],
                connected: true,
                reconnects: 1,
                recovery,
            })
        };
        let path = |bytes_received| PathRow {
            name: "wwan0 (10.0.0.2)".into(),
            state: "suspect".into(),
            bytes_received,
            packets_missing: 5,
            packets_received: 95,
            ..PathRow::default()
        };
        let before = live.snapshot(role(), None, Duration::ZERO, vec![path(0)]);
        let mut now = live.snapshot(role(), None, Duration::from_millis(1_500), vec![path(1_000_000)]);
        now.uptime_ms = before.uptime_ms + 1_000;
        // The clock was an hour fast.
        now.unix_ms = before.unix_ms - 3_600_000;
        let text = screen(&now, &[before]);
        for part in [
            "client of vps.example:4433 (one of 2 servers): connected\n  recovery auto, 1 reconnects, up for",
            "delay saved 2 s (estimated",
            "path 0 wwan0 (10.0.0.2)",
            "does not answer, round trip",
            "loss 5.0 % down, 0.0 % up",
            "now 8.00 Mbit/s down, 0 bit/s up",
            "█ of 8.00 Mbit/s at most",
            "example.org:443",
            "path wlan0 is gone",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "what peers say does not reach the terminal as it is");
        assert!(!screen(&now, &[]).contains("now "));
        let Role::Client(row) = &mut now.role else { panic!("it is a client") };
        (row.connected, row.recovery) = (false, String::new());
        let text = screen(&now, &[]);
        assert!(text.contains("no connection\n  1 reconnects, up for"), "{text}");
    }
}
