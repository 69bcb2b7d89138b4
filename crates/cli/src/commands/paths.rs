//! `mendpath paths` and `mendpath path`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde_json::{Value, json};

use super::{print, status};
use crate::{
    args::{PathArgs, PathCommand, PathsArgs},
    client::{Candidate, candidates},
    failure::{Failure, io_reason},
    interfaces::OTHER_FAMILY,
    status::{Change, Order},
};

/// Stands for any server where none is named: nobody has it (RFC 5737 section 3).
const ANY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Which interfaces a client would use.
pub(super) fn list(args: &PathsArgs) -> Result<(), Failure> {
    let mut candidates = candidates(SocketAddr::new(args.to.unwrap_or(ANY), 0)).map_err(|error| {
        Failure::new("cannot list the interfaces", io_reason(&error), "Name addresses with --path instead")
    })?;
    if args.to.is_none() {
        candidates.iter_mut().for_each(without_server);
    }
    match args.json {
        true => print(&format!("{}\n", candidates.iter().map(row).collect::<Value>())),
        false => print(&table(&candidates)),
    }
}

/// Nothing is of another family than the address of a server that nobody has named.
fn without_server(candidate: &mut Candidate) {
    if candidate.against == Some(OTHER_FAMILY) {
        candidate.against =
            Some("not looked up without a server: name one of IPv6, such as --to 2001:db8::1");
    }
}

fn row(candidate: &Candidate) -> Value {
    let Candidate { local, against } = candidate;
    json!({
        "interface": local.interface, "address": local.ip, "up": local.up,
        "usable": against.is_none(), "reason": against,
    })
}

fn table(candidates: &[Candidate]) -> String {
    let width = |of: fn(&Candidate) -> usize| candidates.iter().map(of).max().unwrap_or(0);
    let interface = width(|c| c.local.interface.len());
    let address = width(|c| c.local.ip.to_string().len());
    let line = |c: &Candidate| {
        let (yes, why) = c.against.map_or(("yes", "used by a client without --path"), |why| ("no ", why));
        format!("{yes}  {:interface$}  {:address$}  {why}\n", c.local.interface, c.local.ip.to_string())
    };
    candidates.iter().map(line).collect()
}

/// Changes a client that runs.
pub(super) async fn change(args: PathArgs) -> Result<(), Failure> {
    let (names, change) = match args.command {
        PathCommand::Pause(named) => (named.names, Change::Pause),
        PathCommand::Resume(named) => (named.names, Change::Resume),
        PathCommand::Prefer(named) => (named.names, Change::Prefer),
        PathCommand::Backup(named) => (named.names, Change::Backup),
        PathCommand::Metered(named) => (named.names, Change::Metered),
        PathCommand::Cap(cap) => (vec![cap.name], Change::Cap(cap.rate.value().map(|rate| rate.0))),
    };
    let order = serde_json::to_string(&Order { names, change }).expect("plain keys");
    let answer = status::tell_client(args.socket, &format!("path {order}")).await?;
    let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
    if let Some(error) = answer["error"].as_str() {
        let next = "`mendpath status` shows the paths";
        return Err(Failure::new("cannot change the path", error, next));
    }
    let concerned: Vec<&str> =
        answer["paths"].as_array().into_iter().flatten().flat_map(Value::as_str).collect();
    match concerned.as_slice() {
        [] => print("noted, for when the path comes back\n"),
        paths => print(&format!("{}: done\n", paths.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::LocalAddress;

    /// As of a machine with both families.
    #[test]
    fn no_server_is_spoken_of_that_was_not_named() {
        let told = |against| {
            let ip = "2001:db8::7".parse().unwrap();
            let local = LocalAddress { interface: "wlan0".into(), index: None, ip, up: true };
            let mut candidate = Candidate { local, against };
            without_server(&mut candidate);
            table(&[candidate])
        };
        let text = told(Some(OTHER_FAMILY));
        assert!(text.starts_with("no   wlan0  2001:db8::7  not looked up without a server: "), "{text}");
        assert!(!text.contains("the server's address"), "{text}");
        assert!(told(Some("another reason")).contains("another reason"));
        assert!(told(None).starts_with("yes"));
    }
}
