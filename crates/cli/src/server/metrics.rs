//! `/metrics` of a server: its clients together, strangers, and what each account has used.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use super::statistics::StatsRow;
use crate::{
    accounts::Row,
    admin::{encode_counter, encode_counters, encode_gauge, encode_process, metrics_text, name_and_unit},
    status::Live,
};

/// Accounts that have series of their own, the first by name; the others have some together.
const MAX_ACCOUNTS: usize = 1_000;
/// The label of those. No account is called so.
const OTHERS: &str = "(others)";

/// What there is to tell at the moment.
#[derive(Debug)]
pub(super) struct Scrape {
    pub(super) stats: StatsRow,
    pub(super) live: Arc<Live>,
}

impl Scrape {
    /// The text.
    pub(super) fn text(self) -> String {
        metrics_text(self)
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (stats, encoder) = (&self.stats, &mut encoder);
        encode_gauge("up", "Whether new clients are let in.", i64::from(!stats.draining), encoder)?;
        encode_process("server", &self.live, encoder)?;
        encode_gauge("clients", "Clients connected.", stats.clients as i64, encoder)?;
        let help = "Clients with a token for whom there was no seat.";
        encode_counter("turned_away", help, stats.turned_away, encoder)?;
        let help = "Packets of UDP associations that found no room.";
        encode_counter("association_packets_dropped", help, stats.association_packets_dropped, encoder)?;
        let door = &stats.door;
        let help = "Connections that have not been let in yet.";
        encode_gauge("door_waiting", help, door.waiting as i64, encoder)?;
        let counters = [
            (
                "door_evicted",
                "Connections that made room for newer ones before they were let in.",
                door.evicted,
            ),
            (
                "door_evicted_by_network",
                "Those of them that made room in their network's share.",
                door.evicted_by_network,
            ),
            ("door_refused", "Connections refused.", door.refused),
            ("door_retries_sent", "Retry packets sent.", door.retries_sent),
        ];
        for (name, help, value) in counters {
            encode_counter(name, help, value, encoder)?;
        }
        encode_counters(&stats.counters, encoder)?;
        encode_accounts(&within_limit(&stats.accounts), encoder)
    }
}

/// The accounts that have series of their own, and the sum of the others if there are any.
fn within_limit(accounts: &[Row]) -> Vec<Row> {
    let (own, others) = accounts.split_at(accounts.len().min(MAX_ACCOUNTS));
    let mut rows = own.to_vec();
    if !others.is_empty() {
        let sum = |of: fn(&Row) -> u64| others.iter().map(of).sum();
        rows.push(Row {
            name: OTHERS.to_owned(),
            clients: others.iter().map(|row| row.clients).sum(),
            up_bytes: sum(|row| row.up_bytes),
            down_bytes: sum(|row| row.down_bytes),
            packets_dropped: sum(|row| row.packets_dropped),
        });
    }
    rows
}

/// A counter that each account has: its name in the JSON, what it counts, its value.
type OfAccount = (&'static str, &'static str, fn(&Row) -> u64);

fn encode_accounts(accounts: &[Row], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Clients of the account connected.";
    let mut clients = encoder.encode_descriptor("account_clients", help, None, MetricType::Gauge)?;
    for row in accounts {
        let gauge = ConstGauge::new(row.clients as i64);
        gauge.encode(clients.encode_family(&[("account", row.name.as_str())])?)?;
    }
    let counters: [OfAccount; 3] = [
        ("up_bytes", "What its programs sent since it was made.", |row| row.up_bytes),
        ("down_bytes", "What its programs received since it was made.", |row| row.down_bytes),
        ("packets_dropped", "UDP packets that came faster than its rate.", |row| row.packets_dropped),
    ];
    for (field, help, value) in counters {
        let (name, unit) = name_and_unit(field);
        let name = format!("account_{name}");
        let mut counter = encoder.encode_descriptor(&name, help, unit.as_ref(), MetricType::Counter)?;
        for row in accounts {
            let labels = [("account", row.name.as_str())];
            ConstCounter::new(value(row)).encode(counter.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, clients: usize, up_bytes: u64) -> Row {
        Row { name: name.into(), clients, up_bytes, down_bytes: 7, packets_dropped: 0 }
    }

    fn text(accounts: Vec<Row>) -> String {
        let stats = StatsRow { clients: 1, turned_away: 2, accounts, ..StatsRow::default() };
        Scrape { stats, live: Arc::new(Live::new(true)) }.text()
    }

    #[test]
    fn accounts_have_a_label() {
        let text = text(vec![row("alice", 1, 5), row("bob@example.org", 0, 6)]);
        for line in [
            "mendpath_up 1",
            "mendpath_clients 1",
            "mendpath_turned_away_total 2",
            "mendpath_door_waiting 0",
            "mendpath_sent_bytes_total 0",
            "mendpath_account_clients{account=\"alice\"} 1",
            "mendpath_account_up_bytes_total{account=\"bob@example.org\"} 6",
            "mendpath_account_down_bytes_total{account=\"alice\"} 7",
            "mendpath_account_packets_dropped_total{account=\"alice\"} 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn ten_thousand_accounts_have_a_thousand_series() {
        let all = (0..10_000).map(|n| row(&format!("user{n:05}"), 1, 2)).collect();
        let text = text(all);
        let series: Vec<_> =
            text.lines().filter(|line| line.starts_with("mendpath_account_up_bytes_total{")).collect();
        assert_eq!(series.len(), MAX_ACCOUNTS + 1);
        assert_eq!(series[MAX_ACCOUNTS], "mendpath_account_up_bytes_total{account=\"(others)\"} 18000");
    }
}
