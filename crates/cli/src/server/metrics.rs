//! `/metrics` of a server: its clients together, the clients of each account, and the door.

use std::{collections::BTreeMap, fmt, sync::Arc};

use mendpath::EndpointStats;
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::{account_books::AccountTotals, tally::Sum};
use crate::{
    accounts::Row,
    admin::{Metric, encode_counters, encode_workers, metrics_text, sentence},
    packet_row::TunnelRow,
    status::{Live, PATH_COUNTERS},
};

/// What there is to tell at the moment.
#[derive(Debug)]
pub(super) struct Scrape {
    pub(super) draining: bool,
    pub(super) sum: Sum,
    pub(super) door: EndpointStats,
    /// Connections of each worker.
    pub(super) workers: Vec<usize>,
    pub(super) accounts: BTreeMap<Arc<str>, AccountTotals>,
    pub(super) tunnel: Option<TunnelRow>,
}

impl Scrape {
    /// The text.
    pub(super) fn text(self, live: &Live) -> String {
        metrics_text("server", live, self)
    }

    fn encode_door(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Connections that have not shown a token";
        Metric { name: "door_waiting", help }.gauge(self.door.half_open as u64, encoder)?;
        for (name, help, value) in [
            ("door_evicted", "Connections without a token that had to go for newcomers", self.door.evicted),
            ("door_refused", "Connections refused because there were too many in all", self.door.refused),
            (
                "door_retries_sent",
                "Strangers asked to show that they receive at their address",
                self.door.retries_sent,
            ),
        ] {
            Metric { name, help }.counter(value, encoder)?;
        }
        Ok(())
    }

    fn encode_accounts(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let all = || self.accounts.iter().map(|(name, totals)| ([("account", &**name)], totals));
        let help = "Clients of the account connected";
        let values = all().map(|(labels, totals)| (labels, totals.clients as f64));
        Metric { name: "account_clients", help }.gauges(values, encoder)?;
        let help = "Open paths of the account's clients";
        let values = all().map(|(labels, totals)| (labels, totals.paths as f64));
        Metric { name: "account_paths", help }.gauges(values, encoder)?;
        for (name, help, value) in USED {
            let values = all().filter_map(|(labels, totals)| Some((labels, value(totals.used.as_ref()?))));
            Metric { name, help }.counters(values, encoder)?;
        }
        let counters = self.sum.counters.iter().map(|(counter, _)| counter);
        for (index, counter) in counters.enumerate().filter(|(_, counter)| OF_ACCOUNT.contains(&counter.name))
        {
            let value =
                |totals: &AccountTotals| totals.counters.iter().nth(index).map_or(0, |(_, value)| value);
            let values = all().map(|(labels, totals)| (labels, value(totals)));
            let name = format!("account_{}", counter.name);
            Metric { name: &name, help: sentence(counter.help) }.counters(values, encoder)?;
        }
        Ok(())
    }

    fn encode_paths(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (index, counter) in PATH_COUNTERS.iter().enumerate() {
            let values = self.accounts.iter().flat_map(|(name, totals)| {
                let of_path = totals.of_paths.iter();
                of_path.map(|(path, counts)| {
                    ([("account", name.to_string()), ("path", path.text())], counts.value(index))
                })
            });
            let name = format!("account_path_{}", counter.name);
            Metric { name: &name, help: sentence(counter.help) }.counters(values, encoder)?;
        }
        Ok(())
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let help = "Whether the server takes clients: not while it drains";
        Metric { name: "up", help }.gauge(u64::from(!self.draining), encoder)?;
        Metric { name: "clients", help: "Clients connected" }.gauge(self.sum.clients as u64, encoder)?;
        let help = "Clients with a token for whom there was no seat";
        Metric { name: "turned_away", help }.counter(self.sum.turned_away, encoder)?;
        let help = "UDP packets of associations dropped because too many waited";
        let dropped = self.sum.association_packets_dropped;
        Metric { name: "association_packets_dropped", help }.counter(dropped, encoder)?;
        self.encode_door(encoder)?;
        encode_workers(&self.workers, self.door.misdirected, encoder)?;
        self.tunnel.as_ref().map_or(Ok(()), |tunnel| tunnel.encode(encoder))?;
        encode_counters(&self.sum.counters, encoder)?;
        self.encode_accounts(encoder)?;
        self.encode_paths(encoder)
    }
}

/// Counters of connections that every account has, too.
const OF_ACCOUNT: [&str; 7] = [
    "bytes_sent",
    "bytes_received",
    "packets_sent",
    "packets_received",
    "packets_lost",
    "packets_mended",
    "packets_rebuilt",
];

type OfAccount = (&'static str, &'static str, fn(&Row) -> u64);

/// What is kept across restarts, and what its rate has cost.
static USED: [OfAccount; 3] = [
    ("account_up_bytes", "What the account's programs sent since it was made", |row| row.up_bytes),
    ("account_down_bytes", "What the account's programs received since it was made", |row| row.down_bytes),
    ("account_packets_dropped", "UDP packets that came faster than the account's rate", |row| {
        row.packets_dropped
    }),
];

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    #[tokio::test]
    async fn accounts_have_a_label() {
        let totals = |clients, up_bytes| AccountTotals {
            clients,
            used: Some(Row { up_bytes, down_bytes: 7, ..Row::default() }),
            of_paths: BTreeMap::from([(mendpath::PathId(1).into(), Default::default())]),
            ..AccountTotals::default()
        };
        let accounts =
            BTreeMap::from([("alice".into(), totals(1, 5)), ("bob@example.org".into(), totals(0, 6))]);
        let sum = Sum { clients: 1, turned_away: 2, ..Sum::default() };
        let tunnel = TunnelRow { clients: 3, dropped: [("spoofed", 4)].into(), ..TunnelRow::default() };
        let mut door = EndpointStats::default();
        door.misdirected = 9;
        let (workers, tunnel) = (vec![2, 0], Some(tunnel));
        let text = Scrape { draining: false, sum, door, workers, accounts, tunnel }.text(&Live::new(true));
        for line in [
            "mendpath_up 1",
            "mendpath_clients 1",
            "mendpath_turned_away_total 2",
            "mendpath_sent_bytes_total 0",
            "mendpath_account_clients{account=\"alice\"} 1.0",
            "mendpath_account_up_bytes_total{account=\"bob@example.org\"} 6",
            "mendpath_account_down_bytes_total{account=\"alice\"} 7",
            "mendpath_account_packets_dropped_total{account=\"alice\"} 0",
            "mendpath_account_sent_bytes_total{account=\"alice\"} 0",
            "mendpath_account_path_sent_bytes_total{account=\"alice\",path=\"1\"} 0",
            "mendpath_door_waiting 0",
            "mendpath_worker_connections{worker=\"0\"} 2.0",
            "mendpath_worker_connections{worker=\"1\"} 0.0",
            "mendpath_packets_misdirected_total 9",
            "mendpath_tunnel_clients 3",
            "mendpath_tunnel_dropped_total{reason=\"spoofed\"} 4",
            "mendpath_tunnel_received_bytes_total 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        let samples = text.lines().filter(|line| line.starts_with("mendpath_tunnel_"));
        let printed: BTreeSet<&str> = samples.filter_map(|line| line.split(['{', ' ']).next()).collect();
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate.md");
        let page = fs::read_to_string(page).unwrap();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let documented: BTreeSet<&str> = rows.filter(|name| name.starts_with("mendpath_tunnel_")).collect();
        assert_eq!(printed, documented);
    }
}
