//! What a monitoring system sees of a real client and a real server: metrics, the queries of our
//! dashboard and alerts, logs, and traces that logs can be matched with.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use promql_parser::{
    parser::{self, Expr, LabelModifier, VectorSelector},
    util::{ExprVisitor, walk_expr},
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{process::Process, support::*};

/// A client and a server that have carried something, and been asked.
struct Observed {
    dir: tempfile::TempDir,
    /// What `/metrics` says.
    client: String,
    server: String,
    /// A line of each log that has a span.
    logged: [Value; 2],
}

impl Observed {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let (state, qlog) = (place("state"), place("qlog"));
        let common = ["--log-format=json", "-v", "--admin=127.0.0.1:0", "--qlog", &qlog];
        let server = ["server", "--listen=127.0.0.1:0", "--allow-private", "--state", &state];
        let server = Process::start(&[&server, &common[..]].concat());
        let server_admin = address(&server, "statistics on ");
        let invitation = server.line_with("mendpath://");
        let paths = ["--path=127.0.0.1", "--path=127.0.0.2", "--socks5=127.0.0.1:0"];
        let client = Process::start(&[&["client", &invitation], &paths[..], &common[..]].concat());
        let proxy = address(&client, "SOCKS5 proxy on ");
        let client_admin = address(&client, "statistics on ");
        let logged =
            [client.line_with("connection is up"), server.line_with("client let in")].map(|line| json(&line));
        client.line_with("path 127.0.0.2 is open");

        let echo = echo_server().await;
        let (mut tcp, status, _) = socks5(proxy, 1, echo).await;
        assert_eq!(status, 0);
        assert!(converse(&mut tcp, &pattern(100_000)).await.len() >= 100_000);
        drop(tcp);
        let (_, status, _) = socks5(proxy, 1, closed_port().await).await;
        assert_eq!(status, 5);
        // The requests end on the server a little after the program's connection does.
        let ended = |text: &str| {
            text.contains("_request_duration_seconds_count") && text.contains("outcome=\"complete\"")
        };
        Self {
            client: metrics(client_admin, ended).await,
            server: metrics(server_admin, ended).await,
            dir,
            logged,
        }
    }
}

fn address(process: &Process, after: &str) -> std::net::SocketAddr {
    let line = json(&process.line_with(after));
    let message = line["fields"]["message"].as_str().unwrap().to_owned();
    message.split(after).nth(1).unwrap().parse().unwrap()
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// `/metrics`, asked for until it is as it should be.
async fn metrics(admin: std::net::SocketAddr, done: impl Fn(&str) -> bool) -> String {
    within(async {
        loop {
            let mut tcp = TcpStream::connect(admin).await.unwrap();
            tcp.write_all(format!("GET /metrics HTTP/1.1\r\nhost: {admin}\r\n\r\n").as_bytes())
                .await
                .unwrap();
            let mut answer = String::new();
            tcp.read_to_string(&mut answer).await.unwrap();
            if done(&answer) {
                return answer.split_once("\r\n\r\n").unwrap().1.to_owned();
            }
        }
    })
    .await
}

/// The names of samples, with their labels.
fn samples(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let selector = parser::parse(series).unwrap_or_else(|error| panic!("{series}: {error}"));
        let Expr::VectorSelector(VectorSelector { name, matchers, .. }) = selector else {
            panic!("{series}")
        };
        let labels = matchers.matchers.into_iter().map(|matcher| matcher.name);
        found.entry(name.unwrap()).or_default().extend(labels);
    }
    found
}

/// Every metric of both sides, as it is called in `# TYPE`, with its kind.
fn families(text: &str) -> BTreeMap<String, String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.map(|line| line.split_once(' ').unwrap()).map(|(name, kind)| (name.into(), kind.into())).collect()
}

/// Metric and label names that a query uses.
#[derive(Default)]
struct Uses {
    selectors: Vec<(String, Vec<String>)>,
    /// Of `by`, `on` and such, which may come from any of the metrics.
    grouped: BTreeSet<String>,
}

impl Uses {
    fn selector(&mut self, selector: &VectorSelector) {
        let labels = selector.matchers.matchers.iter().map(|matcher| matcher.name.clone());
        self.selectors.push((selector.name.clone().expect("selectors have names"), labels.collect()));
    }

    fn group(&mut self, modifier: Option<&LabelModifier>) {
        self.grouped.extend(modifier.iter().flat_map(|modifier| modifier.labels().labels.clone()));
    }
}

impl ExprVisitor for Uses {
    type Error = ();

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, ()> {
        match expr {
            Expr::VectorSelector(selector) => self.selector(selector),
            Expr::MatrixSelector(matrix) => self.selector(&matrix.vs),
            Expr::Aggregate(aggregate) => self.group(aggregate.modifier.as_ref()),
            Expr::Binary(binary) => {
                self.group(binary.modifier.as_ref().and_then(|modifier| modifier.matching.as_ref()));
            }
            _ => {}
        }
        Ok(true)
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What of a dashboard or rules is a query.
fn queries() -> Vec<String> {
    let dashboard = fs::read_to_string(root().join("dist/grafana/mendpath.json")).unwrap();
    let mut found = Vec::new();
    expressions(&json(&dashboard), &mut found);
    let rules = fs::read_to_string(root().join("dist/prometheus/alerts.yml")).unwrap();
    let mut lines = rules.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(expr) = line.strip_prefix("        expr: ") else { continue };
        let mut expr = if expr == "|" { String::new() } else { expr.to_owned() };
        while let Some(more) = lines.next_if(|line| line.starts_with("          ")) {
            expr += more;
        }
        found.push(expr);
    }
    assert!(found.len() > 40, "{}", found.len());
    assert_eq!(rules.matches("- alert: ").count(), rules.matches("expr: ").count());
    found
}

fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match (key.as_str(), value.as_str()) {
                    ("expr", Some(expr)) => found.push(expr.to_owned()),
                    ("definition", Some(query)) => {
                        let inside =
                            query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
                        let (selector, label) =
                            inside.and_then(|rest| rest.rsplit_once(", ")).expect("of this form");
                        found.push(format!("sum by ({label}) ({selector})"));
                    }
                    _ => expressions(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

/// Labels that a Prometheus server adds when it asks.
const ADDED: [&str; 2] = ["instance", "job"];

#[tokio::test(flavor = "multi_thread")]
async fn dashboard_alerts_documents_logs_and_traces_fit_what_is_printed() {
    let observed = Observed::new().await;
    queries_find_what_they_ask_for(&observed);
    names_are_by_convention_and_in_the_table(&observed);
    series_that_matter_are_there(&observed);
    logs_and_traces_agree(&observed);
}

fn queries_find_what_they_ask_for(observed: &Observed) {
    let mut known = samples(&observed.client);
    for (name, labels) in samples(&observed.server) {
        known.entry(name).or_default().extend(labels);
    }
    for query in queries() {
        let plain = query.replace("$__rate_interval", "1m");
        let expr = parser::parse(&plain).unwrap_or_else(|error| panic!("{query}: {error}"));
        let mut uses = Uses::default();
        walk_expr(&mut uses, &expr).unwrap();
        assert!(!uses.selectors.is_empty(), "{query}");
        let mut have: BTreeSet<&str> = ADDED.into();
        for (name, labels) in &uses.selectors {
            let of_metric = known.get(name).unwrap_or_else(|| panic!("nobody prints {name}: {query}"));
            for label in labels {
                let there = of_metric.contains(label) || ADDED.contains(&label.as_str());
                assert!(there, "{name} has no label {label}: {query}");
            }
            have.extend(of_metric.iter().map(String::as_str));
        }
        for label in &uses.grouped {
            assert!(have.contains(label.as_str()), "no metric has the label {label}: {query}");
        }
    }
}

fn names_are_by_convention_and_in_the_table(observed: &Observed) {
    let mut all = families(&observed.client);
    all.extend(families(&observed.server));
    let page = fs::read_to_string(root().join("docs/operate.md")).unwrap();
    let rows =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name));
    let documented: BTreeSet<&str> =
        rows.filter(|name| name.starts_with("mendpath_") || name.starts_with("process_")).collect();
    for (family, kind) in &all {
        let total = if kind == "counter" { "_total" } else { "" };
        let name = format!("{family}{total}");
        assert!(documented.contains(name.as_str()), "docs/operate.md has no `{name}`");
        for unit in ["bytes", "seconds"] {
            let inside = family.split('_').any(|word| word == unit) && !family.ends_with(unit);
            assert!(!inside, "{family}: the unit stands at the end");
        }
        assert!(!family.contains("_ms"), "{family}: base units");
        assert!(family.starts_with("mendpath_") || family.starts_with("process_"), "{family}");
    }
    for name in documented.iter().filter(|name| !name.starts_with("mendpath_tun_")) {
        let family = name.strip_suffix("_total").unwrap_or(name);
        assert!(all.contains_key(family), "nobody prints {name} of docs/operate.md");
    }
}

fn series_that_matter_are_there(observed: &Observed) {
    let has = |text: &str, series: &str| {
        assert!(text.lines().any(|line| line.starts_with(series)), "{series} is not in\n{text}");
    };
    for series in [
        "mendpath_up 1",
        "mendpath_path_up{path=\"127.0.0.2\"} 1",
        "mendpath_path_sent_bytes_total{path=\"127.0.0.1\"} ",
        "mendpath_request_duration_seconds_count{protocol=\"socks5\",outcome=\"complete\"} 1",
        "mendpath_request_duration_seconds_count{protocol=\"socks5\",outcome=\"refused\"} 1",
        "mendpath_request_duration_seconds_bucket{le=\"300.0\",protocol=\"socks5\",outcome=\"complete\"} 1",
        "mendpath_connect_duration_seconds_count{outcome=\"refused\"} 1",
    ] {
        has(&observed.client, series);
    }
    for series in [
        "mendpath_up 1",
        "mendpath_account_clients{account=\"owner\"} 1",
        "mendpath_account_path_sent_bytes_total{account=\"owner\",path=\"0\"} ",
        "mendpath_request_duration_seconds_count{protocol=\"tcp\",outcome=\"complete\"} 1",
        "mendpath_connect_duration_seconds_count{outcome=\"connected\"} 1",
    ] {
        has(&observed.server, series);
    }
}

fn logs_and_traces_agree(observed: &Observed) {
    let traces = observed.dir.path().join("qlog");
    for (line, role) in observed.logged.iter().zip(["client", "server"]) {
        let id = line["span"]["id"].as_str().unwrap_or_else(|| panic!("{line}"));
        assert_eq!(
            (line["level"].as_str(), line["span"]["name"].as_str()),
            (Some("INFO"), Some("connection"))
        );
        assert!(line["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
        let trace = traces.join(format!("{id}_{role}.sqlog"));
        let head = fs::read_to_string(&trace).unwrap_or_else(|error| panic!("{}: {error}", trace.display()));
        let head = json(head.split('\u{1e}').find(|record| !record.trim().is_empty()).unwrap());
        assert_eq!(head["trace"]["common_fields"]["group_id"], *id);
        view(&trace, id);
    }
    assert_eq!(observed.logged[0]["span"]["id"], observed.logged[1]["span"]["id"]);
}

/// `mendpath qlog view` makes a page of it, and of what a killed process would have left.
fn view(trace: &Path, id: &str) {
    let run = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_mendpath")).args(["qlog", "view"]).args(arguments).output();
        let output = output.unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let file = trace.to_str().unwrap();
    assert!(run(&[file]).0);
    let page = fs::read_to_string(trace.with_extension("html")).unwrap();
    for part in [id, "path 0", "path 1", "Congestion window", "Round-trip time", "Goodput"] {
        assert!(page.contains(part), "{part}");
    }
    let bytes = fs::read(trace).unwrap();
    fs::write(trace, &bytes[..bytes.len() - 30]).unwrap();
    let (fine, page, told) = run(&[file, "-o", "-"]);
    assert!(fine && page.contains("The last record was cut off"), "{told}");
    fs::write(trace, "no trace").unwrap();
    let (fine, _, told) = run(&[file, "-o", "-"]);
    assert!(!fine && told.contains("it is no trace of ours: its beginning is no JSON"), "{told}");
    let (fine, _, told) = run(&[file, "-o", file]);
    assert!(!fine && told.contains("it is the trace to be read"), "{told}");
}
