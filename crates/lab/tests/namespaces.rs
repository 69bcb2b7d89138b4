//! The whole way: namespaces, devices, links, kernel TCP and MPTCP. Needs Linux, root and
//! /dev/net/tun; skipped aloud without.

#![cfg(target_os = "linux")]

use std::io::Write as _;

use mendpath_lab::{Cancel, LabError, Options, PathSpec, Plan, Report};

const PLAN: &str = r#"
    title = "test"
    contenders = ["tcp:cubic", "tcp:cubic@1", "mptcp:cubic@1", "mendpath:none", "nobody"]
    rounds = 1
    [[network]]
    paths = ["rate=200mbit,delay=4ms", "rate=200mbit,delay=4ms,drop=5,data-only"]
    [[fetch]]
    size = "40kB"
    count = 3
    [[bulk]]
    size = "8MB"
    limit = "10s"
"#;

/// Without the program `mendpath`: its row must say so.
fn options() -> Options {
    Options::new("/nowhere/mendpath".into())
}

/// Runs a plan, or says why it cannot be.
fn run(plan: &str, options: &Options) -> Option<Result<Report, LabError>> {
    if let Err(reason) = mendpath_lab::available() {
        let _ = writeln!(std::io::stderr(), "skipped: {reason}");
        return None;
    }
    Some(mendpath_lab::run(&Plan::parse("test", plan).unwrap(), options, &mut |_| {}))
}

#[test]
fn kernels_meet_the_links_and_missing_programs_are_named() {
    let Some(report) = run(PLAN, &options()) else { return };
    let report = report.unwrap();
    assert_eq!(report.rows.len(), 10);
    for row in &report.rows[..3] {
        assert_eq!((row.error.as_deref(), row.count, row.failed), (None, 3, 0), "{row:?}");
        assert_eq!(row.payload_bytes, 120_000);
        // Two round trips at least: 40 kB do not fit into the first window.
        assert!(row.times_ms.iter().all(|ms| *ms >= 8.0), "{row:?}");
    }
    // Path 1 loses the sixth packet with data of every fetch, path 0 nothing.
    assert_eq!(report.rows[0].paths[0].down_lost, 0);
    assert_eq!(report.rows[0].paths[1].down_packets, 0);
    assert_eq!(report.rows[1].paths[1].down_lost, 3);
    assert_eq!(report.rows[1].paths[0].down_packets, 0);
    let mptcp = report.rows[2].mptcp.unwrap();
    assert_eq!((mptcp.connections, mptcp.fallbacks), (3, 0));
    assert!(report.rows[3].error.as_ref().unwrap().contains("there is no such program"));
    assert!(report.rows[4].error.as_ref().unwrap().contains("kcptun"), "the adapters that exist are named");
    let bulk = &report.rows[7];
    assert_eq!(bulk.payload_bytes, 8_000_000);
    assert!(bulk.mptcp.unwrap().joins >= 1, "{bulk:?}");
    assert!(bulk.paths.iter().all(|path| path.down_bytes > 100_000), "both sub-flows carry data: {bulk:?}");
}

#[test]
fn a_run_that_is_cancelled_ends_at_once_and_says_so() {
    let mut options = options();
    options.cancel = Cancel::default();
    options.cancel.cancel();
    let Some(report) = run(PLAN, &options) else { return };
    assert!(matches!(report, Err(LabError::Interrupted)));
}

#[test]
fn what_warms_a_connection_is_no_part_of_what_is_measured() {
    let plan = r#"
        title = "test"
        contenders = ["tcp:reno"]
        network = [{ paths = ["delay=4ms"] }]
        fetch = [{ size = "10kB", count = 2, connection = "kept", warm_up = "4MB" }]
    "#;
    let Some(report) = run(plan, &options()) else { return };
    let report = report.unwrap();
    let row = &report.rows[0];
    assert_eq!((row.error.as_deref(), row.count, row.payload_bytes), (None, 2, 20_000));
    assert!(row.sent_ratio.is_some_and(|ratio| (1.0..1.5).contains(&ratio)), "{row:?}");
}

/// What happens to a path counts from the start of each fetch: connecting for the next one is no part of it.
#[test]
fn an_outage_of_one_fetch_does_not_meet_the_next() {
    let plan = r#"
        title = "test"
        contenders = ["tcp:reno"]
        network = [{ paths = ["delay=4ms,outage=500ms-60s"] }]
        fetch = [{ size = "10kB", count = 2, idle = "700ms", limit = "3s" }]
    "#;
    let Some(report) = run(plan, &options()) else { return };
    let report = report.unwrap();
    let row = &report.rows[0];
    assert_eq!((row.error.as_deref(), row.count, row.failed), (None, 2, 0), "{row:?}");
}

/// Two share a client, from whose address a program that chooses none sends.
#[test]
fn a_program_that_does_not_choose_its_path_is_not_said_to_be_on_another() {
    let plan = r#"
        title = "test"
        network = [{ paths = ["delay=4ms", "delay=4ms"] }]
        share = [{ pairs = [["tcp:reno", "sleeper@1"]], time = "1s" }]
        [adapters.sleeper]
        about = "a"
        install = "i"
        server = ["sleep", "1000"]
        client = ["sleep", "1000"]
    "#;
    let Some(report) = run(plan, &options()) else { return };
    let report = report.unwrap();
    let error = report.rows[1].error.clone().unwrap();
    assert!(error.contains("does not choose its path"), "{error}");
}

/// Neither a program nor a browser is there: every row says so, and what to do.
#[test]
fn calls_and_pages_name_what_is_missing() {
    let plan = |contender: &str, measure: &str| {
        let text = format!(
            "title = 't'\ncontenders = ['{contender}']\nnetwork = [{{ paths = ['delay=4ms'] }}]\n{measure}"
        );
        Plan::parse("test", &text).unwrap()
    };
    let mut options = options();
    if let Err(reason) = mendpath_lab::available() {
        let _ = writeln!(std::io::stderr(), "skipped: {reason}");
        return;
    }
    let mut error = |plan: &Plan| {
        let report = mendpath_lab::run(plan, &options, &mut |_| {}).unwrap();
        options.browser = Some("/nowhere/chromium".into());
        report.rows[0].error.clone().unwrap()
    };
    let call = error(&plan("mendpath:auto", "call = [{ time = '1s' }]"));
    assert!(call.contains("there is no such program"), "{call}");
    let page = error(&plan("mendpath-serve", "page = [{ count = 1 }]"));
    assert!(page.contains("there is no Chromium to load pages with"), "{page}");
}

/// A command of the user's may have started others, in a session of their own.
#[test]
fn commands_leave_nothing_behind_and_their_code_is_returned() {
    if let Err(reason) = mendpath_lab::available() {
        let _ = writeln!(std::io::stderr(), "skipped: {reason}");
        return;
    }
    let file = std::env::temp_dir().join(format!("lab-left-{}", std::process::id()));
    let left = file.display();
    let shell = |script: String| ["sh", "-c", &script].map(str::to_owned);
    let execute = |server: &[String], client: &[String]| {
        let options = options();
        mendpath_lab::execute(&["delay=4ms".parse().unwrap()], 1, Some(server), client, &options).unwrap()
    };
    let server = shell(format!("setsid sleep 1000 & echo $! > {left}; wait"));
    let client = shell(format!("until test -s {left}; do sleep 0.01; done; exit 7"));
    assert_eq!(execute(&server, &client), 7);
    let number = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    // What has ended has no namespace any more, even if nobody has asked how it ended.
    let namespace = std::fs::metadata(format!("/proc/{}/ns/net", number.trim()));
    assert!(namespace.is_err(), "process {number} is still there");
    let killed = shell("kill -9 $$".to_owned());
    assert_eq!(execute(&shell("sleep 1000".to_owned()), &killed), 128 + 9);
}

/// What the kernel says of the ninth would help nobody.
#[test]
fn a_command_has_as_many_paths_as_a_plan() {
    let paths: Vec<PathSpec> = vec!["".parse().unwrap(); 9];
    let options = options();
    let error = mendpath_lab::execute(&paths, 1, None, &["true".to_owned()], &options).unwrap_err();
    assert!(error.is_usage() && error.to_string().contains("9 paths: give it 1 to 8"), "{error}");
}

/// Programs whose last words, which the row quotes, are the routes of either side.
const ROUTES: &str = r#"
    title = "test"
    contenders = ["server-side", "client-side@1", "own-word"]
    [[network]]
    paths = ["delay=4ms", "delay=4ms"]
    [[fetch]]
    size = "1kB"
    count = 1
    [adapters.server-side]
    about = "a"
    install = "i"
    server = ["ip", "route"]
    client = ["sleep", "1000"]
    [adapters.client-side]
    about = "a"
    install = "i"
    server = ["sleep", "1000"]
    client = ["ip", "route", "show", "table", "all"]
    [adapters.own-word]
    about = "a"
    install = "i"
    congestion = "reno"
    server = ["ip", "route"]
    client = ["sleep", "1000"]
"#;

/// A new namespace has the machine's default.
#[test]
fn programs_of_an_adapter_have_cubic_or_the_controller_that_it_says() {
    if let Err(reason) = mendpath_lab::available() {
        let _ = writeln!(std::io::stderr(), "skipped: {reason}");
        return;
    }
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    if !["cubic", "reno"].iter().all(|name| known.split_whitespace().any(|word| word == *name)) {
        let _ = writeln!(std::io::stderr(), "skipped: this kernel has only {known}");
        return;
    }
    let options = options();
    let plan = Plan::parse("test", ROUTES).unwrap();
    let report = mendpath_lab::run(&plan, &options, &mut |_| {}).unwrap();
    let errors: Vec<&str> = report.rows.iter().filter_map(|row| row.error.as_deref()).collect();
    if let Some(reason) = errors.iter().find(|error| error.contains("there is no such program")) {
        let _ = writeln!(std::io::stderr(), "skipped: {reason}");
        return;
    }
    // The server's routes to the client's two addresses; the client's to everywhere, in a table for each
    // address and in the main one.
    let counts = |name: &str| errors.iter().map(|error| error.matches(name).count()).collect::<Vec<_>>();
    assert_eq!(counts("congctl cubic"), [2, 4, 0], "{errors:?}");
    assert_eq!(counts("congctl reno"), [0, 0, 2], "{errors:?}");
}
