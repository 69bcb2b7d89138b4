//! What `/metrics` prints is what the dashboard, the alerts and the book ask for.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
};

use promql_parser::{
    label::Matchers,
    parser::{self, Expr, LabelModifier, VectorSelector},
    util::{ExprVisitor, walk_expr},
};
use serde_json::Value;

use crate::process::{Process, address_in};

/// Labels that Prometheus itself adds, or that functions need.
const FROM_PROMETHEUS: [&str; 3] = ["instance", "job", "le"];

/// What the program says before the addresses where it listens.
const STATISTICS: &str = "statistics on ";
const SOCKS5: &str = "SOCKS5 proxy on ";

/// Every metric, with the labels that it has.
type Printed = BTreeMap<String, BTreeSet<String>>;

/// What a client and a server print once a request has gone through them.
fn printed() -> Printed {
    let runtime = tempfile::tempdir().unwrap();
    let state = runtime.path().join("state");
    let admin = "--admin=127.0.0.1:0";
    let server = Process::start(&[
        "server",
        "--listen=127.0.0.1:0",
        "--allow-private",
        admin,
        "--state",
        state.to_str().unwrap(),
    ]);
    let [at_server, invitation] = server.lines_with([STATISTICS, "mendpath://"]);
    let at_server = address_in(&at_server, STATISTICS);
    let client = Process::start(&["client", &invitation, "--path=127.0.0.1", "--socks5=127.0.0.1:0", admin]);
    let [socks5, at_client] = client.lines_with([SOCKS5, STATISTICS]);
    let (socks5, at_client) = (address_in(&socks5, SOCKS5), address_in(&at_client, STATISTICS));
    // The account is on the books from its first bytes on.
    assert!(through(socks5, at_server).starts_with("HTTP/1.1 200"));
    let mut all = Printed::new();
    for text in [get(at_client), get(at_server)] {
        assert!(text.ends_with("# EOF\n"), "{text}");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, labels) = sample(line);
            all.entry(name.to_owned()).or_default().extend(labels);
        }
    }
    all
}

fn request(mut tcp: TcpStream, at: SocketAddr) -> String {
    tcp.write_all(format!("GET /metrics HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).unwrap();
    answer
}

fn get(admin: SocketAddr) -> String {
    let answer = request(TcpStream::connect(admin).unwrap(), admin);
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// Asks `target` for its metrics through a SOCKS5 proxy.
fn through(proxy: SocketAddr, target: SocketAddr) -> String {
    let SocketAddr::V4(v4) = target else { panic!("{target} is not IPv4") };
    let mut tcp = TcpStream::connect(proxy).unwrap();
    tcp.write_all(&[5, 1, 0]).unwrap();
    let mut chosen = [0; 2];
    tcp.read_exact(&mut chosen).unwrap();
    assert_eq!(chosen, [5, 0]);
    let mut connect = vec![5, 1, 0, 1];
    connect.extend(v4.ip().octets());
    connect.extend(v4.port().to_be_bytes());
    tcp.write_all(&connect).unwrap();
    let mut granted = [0; 10];
    tcp.read_exact(&mut granted).unwrap();
    assert_eq!(granted[1], 0, "refused");
    request(tcp, target)
}

/// Name and labels of a line.
fn sample(line: &str) -> (&str, Vec<String>) {
    let end = line.find(['{', ' ']).unwrap();
    let labels = line[end..].strip_prefix('{').map_or("", |rest| rest.split_once('}').unwrap().0);
    let names =
        labels.split("\",").filter_map(|label| label.split_once('=')).map(|(name, _)| name.to_owned());
    (&line[..end], names.collect())
}

/// Finds what a query asks for that nobody prints.
struct Asked<'a> {
    printed: &'a Printed,
    missing: Vec<String>,
}

impl Asked<'_> {
    fn selector(&mut self, selector: &VectorSelector) {
        let name = selector.name.clone().unwrap_or_default();
        let Some(labels) = self.printed.get(&name) else {
            return self.missing.push(name);
        };
        let Matchers { matchers, .. } = &selector.matchers;
        let unknown = matchers.iter().map(|matcher| &matcher.name).filter(|label| !is_known(label, labels));
        self.missing.extend(unknown.map(|label| format!("{name}{{{label}}}")));
    }

    fn modifier(&mut self, modifier: Option<&LabelModifier>) {
        let (LabelModifier::Include(labels) | LabelModifier::Exclude(labels)) = match modifier {
            Some(modifier) => modifier,
            None => return,
        };
        let anywhere: BTreeSet<String> = self.printed.values().flatten().cloned().collect();
        let unknown = labels.labels.iter().filter(|label| !is_known(label, &anywhere));
        self.missing.extend(unknown.map(|label| format!("by ({label})")));
    }
}

fn is_known(label: &str, labels: &BTreeSet<String>) -> bool {
    FROM_PROMETHEUS.contains(&label) || labels.contains(label)
}

impl ExprVisitor for Asked<'_> {
    type Error = std::convert::Infallible;

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, Self::Error> {
        match expr {
            Expr::VectorSelector(selector) => self.selector(selector),
            Expr::MatrixSelector(matrix) => self.selector(&matrix.vs),
            Expr::Aggregate(aggregate) => self.modifier(aggregate.modifier.as_ref()),
            _ => {}
        }
        Ok(true)
    }
}

fn check(printed: &Printed, query: &str) {
    let expr = parser::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let mut asked = Asked { printed, missing: Vec::new() };
    walk_expr(&mut asked, &expr).unwrap();
    assert!(asked.missing.is_empty(), "{query} asks for what nobody prints: {:?}", asked.missing);
}

fn read(file: &str) -> String {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The queries of the dashboard's panels, its variables in place.
fn of_dashboard() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read("dist/grafana/mendpath.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries = targets.map(|target| target["expr"].as_str().unwrap().replace("$__rate_interval", "5m"));
    let labels = dashboard["templating"]["list"].as_array().unwrap().iter();
    let labels = labels.filter_map(|variable| variable["query"]["query"].as_str()).map(|query| {
        let inside = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
        let (metric, label) = inside.unwrap_or_else(|| panic!("{query}")).split_once(", ").unwrap();
        format!("count by ({label}) ({metric}{{{label}=~\".*\"}})")
    });
    labels.chain(queries).collect()
}

/// The expressions of the alerts: a line each, or the lines below that are indented further.
fn of_alerts() -> Vec<String> {
    let text = read("dist/prometheus/mendpath-alerts.yml");
    let mut queries: Vec<String> = Vec::new();
    let mut folded = false;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("        expr: ") {
            folded = rest == ">-";
            queries.push(if folded { String::new() } else { rest.to_owned() });
        } else if folded && line.starts_with("          ") {
            let query = queries.last_mut().unwrap();
            *query = format!("{query} {}", line.trim());
        } else {
            folded = false;
        }
    }
    queries
}

#[test]
fn the_dashboard_the_alerts_and_the_book_ask_for_what_is_printed() {
    let printed = printed();
    let (dashboard, alerts) = (of_dashboard(), of_alerts());
    assert!(dashboard.len() > 25 && alerts.len() >= 7, "{dashboard:?} {alerts:?}");
    dashboard.iter().chain(&alerts).for_each(|query| check(&printed, query));
    in_the_book(&printed);
}

/// The table of docs/operate.md has every metric, and nothing else.
fn in_the_book(printed: &Printed) {
    let book = read("docs/operate.md");
    let table = book.split("| metric |").nth(1).expect("a table of metrics").split("\n\n").next().unwrap();
    let told: BTreeSet<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `mendpath_")?.split(['`', '{']).next())
        .collect();
    let parts = ["_bucket", "_sum", "_count"];
    let is = |name: &&str| !parts.iter().any(|part| name.ends_with(&format!("_seconds{part}")));
    let mut all: BTreeSet<&str> =
        printed.keys().map(|name| name.strip_prefix("mendpath_").unwrap()).filter(is).collect();
    let histograms =
        printed.keys().filter_map(|name| name.strip_prefix("mendpath_")?.strip_suffix("_bucket"));
    all.extend(histograms);
    let missing: Vec<_> = all.difference(&told).collect();
    assert!(missing.is_empty(), "docs/operate.md does not tell of {missing:?}");
    let left: Vec<_> = told.difference(&all).filter(|name| !name.starts_with("tun_")).collect();
    assert!(left.is_empty(), "docs/operate.md tells of {left:?}, which nobody prints");
}

#[test]
#[should_panic(expected = "asks for what nobody prints")]
fn a_query_for_what_is_not_there_is_found() {
    let printed = Printed::from([("mendpath_up".to_owned(), BTreeSet::new())]);
    check(&printed, "mendpath_up == 0");
    check(&printed, "sum by (instance) (mendpath_up{path=\"a\"})");
}
