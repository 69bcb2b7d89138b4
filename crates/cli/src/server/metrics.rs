//! `/metrics` of a server: its clients together, and what each account has used.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

use crate::{
    accounts::Row,
    admin::{Counters, encode_counters, metrics_text},
};

/// What there is to tell at the moment.
#[derive(Debug)]
pub(super) struct Scrape {
    pub(super) clients: usize,
    pub(super) turned_away: u64,
    pub(super) counters: Counters,
    pub(super) accounts: Vec<Row>,
}

impl Scrape {
    /// The text.
    pub(super) fn text(self) -> String {
        metrics_text(self)
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let clients = encoder.encode_descriptor("clients", "Clients connected.", None, MetricType::Gauge)?;
        ConstGauge::new(self.clients as i64).encode(clients)?;
        let help = "Clients with a token for whom there was no seat.";
        let turned_away = encoder.encode_descriptor("turned_away", help, None, MetricType::Counter)?;
        ConstCounter::new(self.turned_away).encode(turned_away)?;
        encode_counters(&self.counters, &mut encoder)?;
        encode_accounts(&self.accounts, &mut encoder)
    }
}

/// A counter that each account has.
type OfAccount = (&'static str, &'static str, Option<Unit>, fn(&Row) -> u64);

fn encode_accounts(accounts: &[Row], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Clients of the account connected.";
    let mut clients = encoder.encode_descriptor("account_clients", help, None, MetricType::Gauge)?;
    for row in accounts {
        let gauge = ConstGauge::new(row.clients as i64);
        gauge.encode(clients.encode_family(&[("account", row.name.as_str())])?)?;
    }
    let counters: [OfAccount; 3] = [
        ("account_up", "What its programs sent since it was made.", Some(Unit::Bytes), |row| row.up_bytes),
        ("account_down", "What its programs received since it was made.", Some(Unit::Bytes), |row| {
            row.down_bytes
        }),
        ("account_packets_dropped", "UDP packets that came faster than its rate.", None, |row| {
            row.packets_dropped
        }),
    ];
    for (name, help, unit, value) in counters {
        let mut counter = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
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

    #[test]
    fn accounts_have_a_label() {
        let row = |name: &str, clients, up_bytes| Row {
            name: name.into(),
            clients,
            up_bytes,
            down_bytes: 7,
            packets_dropped: 0,
        };
        let accounts = vec![row("alice", 1, 5), row("bob@example.org", 0, 6)];
        let text = Scrape { clients: 1, turned_away: 2, counters: Counters::default(), accounts }.text();
        for line in [
            "mendpath_clients 1",
            "mendpath_turned_away_total 2",
            "mendpath_bytes_sent_total 0",
            "mendpath_account_clients{account=\"alice\"} 1",
            "mendpath_account_up_bytes_total{account=\"bob@example.org\"} 6",
            "mendpath_account_down_bytes_total{account=\"alice\"} 7",
            "mendpath_account_packets_dropped_total{account=\"alice\"} 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
