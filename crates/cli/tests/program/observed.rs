//! What a monitoring system sees of a real client and a real server: metrics, the queries of our
//! dashboard and alerts, logs, and traces that logs can be matched with.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use promql_parser::parser::{self, Expr, VectorSelector};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    process::Process,
    queries::{Known, Labels, Query, queries},
    support::*,
};

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
        let [statistics, invitation] = server.lines_with(["statistics on ", "mendpath://"]);
        let server_admin = address(&statistics, "statistics on ");
        let paths = ["--path=127.0.0.1", "--path=127.0.0.2", "--socks5=127.0.0.1:0"];
        let client = Process::start(&[&["client", &invitation], &paths[..], &common[..]].concat());
        // Paths are opened while it still says where it listens.
        let parts = ["SOCKS5 proxy on ", "statistics on ", "connection is up", "path 127.0.0.2 is open"];
        let [proxy, statistics, up, _] = client.lines_with(parts);
        let proxy = address(&proxy, "SOCKS5 proxy on ");
        let client_admin = address(&statistics, "statistics on ");
        let logged = [up, server.line_with("client let in")].map(|line| json(&line));

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
        let (of_client, of_server) = (metrics(client_admin, ended).await, metrics(server_admin, ended).await);
        for process in [client, server] {
            signal::kill(Pid::from_raw(process.id() as i32), Signal::SIGINT).unwrap();
            for line in process.errors() {
                let line = json(&line);
                assert!(line["timestamp"].is_string() && line["fields"].is_object(), "{line}");
            }
        }
        Self { client: of_client, server: of_server, dir, logged }
    }
}

fn address(line: &str, after: &str) -> std::net::SocketAddr {
    let line = json(line);
    let message = line["fields"]["message"].as_str().unwrap().to_owned();
    message.split(after).nth(1).unwrap().parse().unwrap()
}

pub fn json(line: &str) -> Value {
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

/// The names of samples, with their labels and those labels' values.
fn samples(text: &str) -> BTreeMap<String, Labels> {
    let mut found: BTreeMap<String, Labels> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let selector = parser::parse(series).unwrap_or_else(|error| panic!("{series}: {error}"));
        let Expr::VectorSelector(VectorSelector { name, matchers, .. }) = selector else {
            panic!("{series}")
        };
        let labels = found.entry(name.unwrap()).or_default();
        for matcher in matchers.matchers {
            labels.entry(matcher.name).or_default().insert(matcher.value);
        }
    }
    found
}

/// Every metric of both sides, as it is called in `# TYPE`, with its kind.
fn families(text: &str) -> BTreeMap<String, String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.map(|line| line.split_once(' ').unwrap()).map(|(name, kind)| (name.into(), kind.into())).collect()
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[tokio::test(flavor = "multi_thread")]
async fn dashboard_alerts_documents_logs_and_traces_fit_what_is_printed() {
    let observed = Observed::new().await;
    queries_find_what_they_ask_for(&observed);
    names_are_by_convention_and_in_the_table(&observed);
    series_that_matter_are_there(&observed);
    logs_and_traces_agree(&observed);
}

fn queries_find_what_they_ask_for(observed: &Observed) {
    let mut printed = samples(&observed.client);
    for (name, labels) in samples(&observed.server) {
        let known = printed.entry(name).or_default();
        for (label, values) in labels {
            known.entry(label).or_default().extend(values);
        }
    }
    let known = Known { printed, documented: documented() };
    for Query { expr, shown } in queries() {
        let plain = expr.replace("$__rate_interval", "1m");
        let parsed = parser::parse(&plain).unwrap_or_else(|error| panic!("{expr}: {error}"));
        let result = known.result(&parsed);
        for label in shown {
            assert!(result.contains(&label), "no label {label} in the result of {expr}");
        }
    }
    values_are_in_the_table(&known);
}

/// Where the table lists the values of a label, there are no others.
fn values_are_in_the_table(known: &Known) {
    for (name, labels) in &known.printed {
        let family =
            ["_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        for (label, values) in known.documented.get(family).into_iter().flatten() {
            for value in labels.get(label).into_iter().flatten() {
                assert!(values.contains(value), "docs/operate.md: {name} may have {label}=\"{value}\"");
            }
        }
    }
}

/// The rows of the tables of metrics, and the values of labels that they list.
fn documented() -> BTreeMap<String, Labels> {
    let page = fs::read_to_string(root().join("docs/operate.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let metrics = rows.filter(|(name, _)| name.starts_with("mendpath_") || name.starts_with("process_"));
    metrics.map(|(name, meaning)| (name.to_owned(), listed(meaning))).collect()
}

/// The values in a text such as "labels `role` (`client` or `server`)".
fn listed(meaning: &str) -> Labels {
    let mut labels = Labels::new();
    let mut before = None;
    let mut parts = meaning.split('`').peekable();
    parts.next();
    while let (Some(word), Some(after)) = (parts.next(), parts.next()) {
        if after.starts_with(" (") && parts.peek().is_some() {
            before = Some(word);
            continue;
        }
        if let Some(label) = before {
            labels.entry(label.to_owned()).or_default().insert(word.to_owned());
        }
        if after.starts_with(')') {
            before = None;
        }
    }
    labels
}

fn names_are_by_convention_and_in_the_table(observed: &Observed) {
    let mut all = families(&observed.client);
    all.extend(families(&observed.server));
    let documented = documented();
    let roles = &documented["mendpath_build_info"]["role"];
    assert!(roles.contains("client") && roles.len() == 2, "{roles:?}");
    for (family, kind) in &all {
        let total = if kind == "counter" { "_total" } else { "" };
        let name = format!("{family}{total}");
        assert!(documented.contains_key(&name), "docs/operate.md has no `{name}`");
        for unit in ["bytes", "seconds"] {
            let inside = family.split('_').any(|word| word == unit) && !family.ends_with(unit);
            assert!(!inside, "{family}: the unit stands at the end");
        }
        assert!(!family.contains("_ms"), "{family}: base units");
        assert!(family.starts_with("mendpath_") || family.starts_with("process_"), "{family}");
    }
    // Those of tunnels have tests of their own.
    let of_tunnels =
        |name: &&String| ["mendpath_tun_", "mendpath_tunnel_"].iter().any(|of| name.starts_with(of));
    for name in documented.keys().filter(|name| !of_tunnels(name)) {
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
    // One socket by another is a matter of Linux.
    #[cfg(target_os = "linux")]
    {
        let workers = samples(&observed.server)["mendpath_worker_connections"]["worker"].len();
        assert_eq!(workers, std::thread::available_parallelism().unwrap().get(), "a worker for each core");
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
    fs::write(trace, &bytes).unwrap();
    let (copy, link) = (trace.with_extension("copy"), trace.with_extension("link"));
    fs::copy(trace, &copy).unwrap();
    fs::hard_link(trace, &link).unwrap();
    let refused = |output: &Path, why: &str| {
        let (fine, _, told) = run(&[file, "-o", output.to_str().unwrap()]);
        assert!(!fine && told.contains(why) && fs::read(output).unwrap() == bytes, "{told}");
    };
    refused(&copy, "it holds a trace");
    refused(&link, "it is the trace to be read");
    for path in ["path 0", "path 1"] {
        assert!(page.contains(&format!("<th scope=\"col\">{path}</th>")), "{path}");
    }
    assert!(page.contains("path validated"));
    fs::write(trace, "no trace").unwrap();
    let unmade = trace.with_extension("page");
    assert!(!run(&[file, "-o", unmade.to_str().unwrap()]).0 && !unmade.exists());
    let (fine, _, told) = run(&[file, "-o", "-"]);
    assert!(!fine && told.contains("it is no trace of ours: its beginning is no JSON"), "{told}");
    let (fine, _, told) = run(&[file, "-o", file]);
    assert!(!fine && told.contains("it is the trace to be read"), "{told}");
    let page = trace.with_extension("html");
    let before = fs::read(&page).unwrap();
    let (fine, _, told) = run(&[page.to_str().unwrap()]);
    assert!(!fine && told.contains("cannot read ") && told.contains("it is no trace of ours"), "{told}");
    assert_eq!(fs::read(&page).unwrap(), before);
}

/// As where the disk is full that the log is on.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_log_that_takes_no_more_ends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state").to_str().unwrap().to_owned();
    let server = ["server", "-v", "--listen=127.0.0.1:0", "--allow-private", "--state", &state];
    let server = Process::start_after("exec 2>/dev/full", &server);
    let invitation = server.line_with("mendpath://");
    let client = ["client", &invitation, "--path=127.0.0.1", "--socks5=127.0.0.1:0"];
    let client = Process::start(&client);
    let proxy = client.address_after("SOCKS5 proxy on ");
    let echo = echo_server().await;
    let (mut tcp, status, _) = socks5(proxy, 1, echo).await;
    assert_eq!(status, 0);
    let heard = converse(&mut tcp, &pattern(1_000)).await;
    assert_eq!(heard[..1_000], pattern(1_000));
}
