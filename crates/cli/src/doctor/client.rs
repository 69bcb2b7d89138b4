//! What goes wrong on a client: the invitation, the server's name, each way there.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    path::Path,
    time::Duration,
};

use mendpath::Connection;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use super::{Finding, Verdict, machine, sizes::judge};
use crate::{
    backoff::pause,
    client::{DialOptions, PathSpec, WantedPath, candidates, resolve, show_token, try_path, usable_paths},
    failure::{Failure, io_reason},
    invitation::Invitation,
    probe::{self, Outcome, SIZES},
    protocol::CloseCode,
    target::Target,
    token::Service,
    transport::explain,
};

/// For a handshake; a longer one is of no use.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// In which goodbyes leave.
const GOODBYE: Duration = Duration::from_millis(50);

/// What is known of the server.
pub(crate) enum Known {
    /// Everything.
    Invited(Box<DialOptions>),
    /// Where it is, from a client that runs.
    Place(Target, Vec<PathSpec>),
    /// Nothing.
    Nothing,
}

/// All checks; those that need a server only as far as it is known.
pub(crate) async fn examine(known: Known) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut only_v6 = false;
    match known {
        Known::Nothing => {
            findings.push(Finding::warning(
                "invitation",
                "there is none, and no client runs: the way to a server is not tried",
                "Name the file that holds it with --invitation-file",
            ));
            let nowhere = SocketAddr::from(([192, 0, 2, 1], 0));
            findings.extend(unrouted(nowhere));
        }
        Known::Place(target, paths) => {
            findings.push(Finding::ok(
                "invitation",
                format_args!("none named; a running client's server is {target}"),
            ));
            only_v6 = ways(&target, &paths, None, &mut findings).await;
        }
        Known::Invited(options) => {
            let hosts: Vec<_> = options.invitation.hosts().cloned().collect();
            for host in hosts {
                findings.push(Finding::ok("invitation", format_args!("for {host}")));
                let mut options = options.clone();
                (options.invitation.server, options.invitation.also) = (host.clone(), Vec::new());
                only_v6 |= ways(&host, &options.paths, Some(&options), &mut findings).await;
            }
        }
    }
    findings.push(machine::ipv6(only_v6));
    findings.extend(machine::checks(&[Path::new("/etc/mendpath")]));
    findings
}

/// Resolves the name and tries each path to the first address of each family; says whether there is
/// an address of IPv6 alone.
async fn ways(
    target: &Target,
    specs: &[PathSpec],
    options: Option<&DialOptions>,
    findings: &mut Vec<Finding>,
) -> bool {
    let began = Instant::now();
    let addresses = match resolve(target).await {
        Ok(addresses) => addresses,
        Err((failure, _)) => {
            findings.push(problem("name", &failure));
            return false;
        }
    };
    if let crate::target::Host::Name(name) = &target.host {
        let shown: Vec<_> = addresses.iter().map(|address| address.ip().to_string()).collect();
        let took = began.elapsed().as_millis();
        findings
            .push(Finding::ok("name", format_args!("{name} is {}, found in {took} ms", shown.join(", "))));
    }
    let firsts = [true, false].map(|v4| addresses.iter().find(|address| address.is_ipv4() == v4));
    let only_v6 = firsts[0].is_none();
    let mut tried = Vec::new();
    for server in firsts.into_iter().flatten() {
        tried.push((*server, usable_paths(specs, *server).unwrap_or_default()));
    }
    // A family without a way is of no interest beside one that has some.
    let any = tried.iter().any(|(_, paths)| !paths.is_empty());
    for (server, paths) in tried {
        if paths.is_empty() && !any {
            findings.push(Finding::problem(
                "paths",
                format_args!("no interface leads to {server}"),
                "Connect this machine to a network; `mendpath paths` says what it has, and why it is not used",
            ));
        }
        let results = try_all(&server, paths, options).await;
        report(results, options, findings).await;
        if specs.is_empty() && (any || only_v6 == server.is_ipv6()) {
            findings.extend(unrouted(server));
        }
    }
    only_v6
}

/// What became of one path.
struct Tried {
    path: WantedPath,
    /// How long the handshake took; none without an invitation.
    handshake: Option<Result<(Connection, Duration), Failure>>,
    sizes: [Outcome; 3],
}

impl Tried {
    fn works(&self) -> bool {
        match &self.handshake {
            Some(result) => result.is_ok(),
            None => self.sizes[0] == Outcome::Passes,
        }
    }
}

/// Tries all paths at the same time.
async fn try_all(server: &SocketAddr, paths: Vec<WantedPath>, options: Option<&DialOptions>) -> Vec<Tried> {
    let mut under_way = JoinSet::new();
    for (nth, path) in paths.into_iter().enumerate() {
        let (server, options) = (*server, options.cloned());
        under_way.spawn(async move {
            let sizes = probe::sizes(&path, server);
            let shake = async {
                let options = options?;
                let began = Instant::now();
                let tried =
                    timeout(HANDSHAKE, try_path(&options, &options.invitation.server, server, path.clone()))
                        .await;
                let late = || explain(&mendpath::ConnectionError::TimedOut, &options.invitation.server).0;
                let connection = tried.unwrap_or_else(|_| Err(late()));
                Some(connection.map(|connection| (connection, began.elapsed())))
            };
            let (sizes, handshake) = tokio::join!(sizes, shake);
            (nth, Tried { path, handshake, sizes })
        });
    }
    let mut results = under_way.join_all().await;
    results.sort_by_key(|(nth, _)| *nth);
    results.into_iter().map(|(_, tried)| tried).collect()
}

async fn report(results: Vec<Tried>, options: Option<&DialOptions>, findings: &mut Vec<Finding>) {
    for tried in &results {
        let name = tried.path.to_string();
        match &tried.handshake {
            Some(Ok((_, took))) => {
                let found = format!("the server answers, handshake in {:.1} ms", took.as_secs_f64() * 1e3);
                findings.push(Finding::ok(format_args!("path {name}"), found));
            }
            Some(Err(failure)) => findings.push(problem(format!("path {name}"), failure)),
            None => {}
        }
        let check = format!("packets {name}");
        // One reason is enough: what is silent was told above.
        let told = matches!(tried.handshake, Some(Err(_))) && tried.sizes == [Outcome::Silence; SIZES.len()];
        if !told {
            findings.push(judge(check, tried.sizes, &name));
        }
    }
    findings.extend(filters(&results));
    if let Some(options) = options {
        findings.extend(token(&results, options).await);
    }
    let connections = results.iter().filter_map(|tried| tried.handshake.as_ref()?.as_ref().ok());
    let mut said = false;
    for (connection, _) in connections {
        connection.close(CloseCode::Done.into(), b"");
        said = true;
    }
    if said {
        pause(GOODBYE).await;
    }
}

/// Reverse path filters, which are to blame where one path works and another with a strict one does
/// not.
fn filters(results: &[Tried]) -> Option<Finding> {
    let v4 = results.iter().filter(|tried| tried.path.ip.is_ipv4() && !tried.path.ip.is_loopback());
    let interfaces: BTreeSet<String> = v4.filter_map(|tried| tried.path.interface.clone()).collect();
    let interfaces: Vec<_> = interfaces.into_iter().collect();
    let mut finding = machine::reverse_paths(&interfaces)?;
    let (working, broken): (Vec<_>, Vec<_>) = results.iter().partition(|tried| tried.works());
    if finding.verdict == Verdict::Warning && finding.found.starts_with("strict") && !working.is_empty() {
        let suspects: Vec<_> = broken.iter().filter_map(|tried| tried.path.interface.as_deref()).collect();
        if !suspects.is_empty() {
            finding.verdict = Verdict::Problem;
            finding.found += &format!("; this is probably why {} gets no answer", suspects.join(", "));
        }
    }
    Some(finding)
}

/// Whether the server lets us in.
async fn token(results: &[Tried], options: &DialOptions) -> Option<Finding> {
    let connected = |tried: &Tried| Some(tried.handshake.as_ref()?.as_ref().ok()?.0.clone());
    let connection = results.iter().find_map(connected)?;
    debug_assert_eq!(options.service, Service::Proxy, "of a proxy");
    let shown = timeout(HANDSHAKE, show_token(options, &connection)).await;
    let error = match shown {
        Ok(Ok(_)) => return Some(Finding::ok("admission", "the server takes the invitation")),
        Ok(Err(error)) => error,
        Err(_) => mendpath::ConnectionError::TimedOut,
    };
    Some(problem("admission", &explain(&error, &options.invitation.server).0))
}

/// Interfaces that are up and have an address, but no route to the server. Bridges lead to
/// containers, and need none.
fn unrouted(server: SocketAddr) -> Vec<Finding> {
    let candidates = match candidates(server) {
        Ok(candidates) => candidates,
        Err(error) => {
            let found = format!("the interfaces cannot be listed: {}", io_reason(&error));
            return vec![Finding::problem("interfaces", found, "Name addresses with --path instead")];
        }
    };
    let is_bridge = |name: &str| Path::new(&format!("/sys/class/net/{name}/bridge")).exists();
    let unused = candidates.into_iter().filter(|candidate| !is_bridge(&candidate.local.interface));
    let without = unused.filter_map(|candidate| {
        let (why, cure) =
            candidate.against?.split_once(": ").filter(|(why, _)| why.starts_with("no route"))?;
        let (name, ip): (_, IpAddr) = (candidate.local.interface, candidate.local.ip);
        let cure = cure.replace("dev ...", &format!("dev {name}"));
        let cure = cure.replacen("add one", "To use it, add one", 1);
        Some(Finding::warning(format_args!("route {name} ({ip})"), why, cure))
    });
    without.collect()
}

/// What a command would have failed with.
pub(crate) fn problem(check: impl std::fmt::Display, failure: &Failure) -> Finding {
    let (_, wrong, next) = failure.parts();
    Finding::problem(check, wrong, next)
}

/// The invitation's text, read.
pub(crate) fn invited(text: &str) -> Result<Invitation, Finding> {
    text.parse()
        .map_err(|error| Finding::problem("invitation", error, "Copy the whole line that the server printed"))
}
