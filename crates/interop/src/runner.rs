//! The environment of the QUIC interop runner, translated into options.

use std::{env, path::PathBuf};

use crate::{ClientArgs, Failure, ServerArgs};

/// What the environment asks for.
#[derive(Debug)]
pub(crate) enum Order {
    Server(ServerArgs),
    /// Each with an endpoint of its own.
    Client(Vec<ClientArgs>),
}

/// Reads ROLE, TESTCASE and REQUESTS; files are where the runner puts them.
pub(crate) fn command() -> Result<Order, Failure> {
    let variable = |name| env::var(name).map_err(|_| Failure::Environment(name));
    let case = variable("TESTCASE")?;
    match variable("ROLE")?.as_str() {
        "server" => Ok(Order::Server(server(&case)?)),
        "client" => Ok(Order::Client(vec![client(&case, &variable("REQUESTS")?)?])),
        _ => Err(Failure::Environment("ROLE")),
    }
}

/// Test cases that a server needs no option for.
const CASES: &[&str] = &[
    "handshake",
    "transfer",
    "longrtt",
    "multiplexing",
    "goodput",
    "crosstraffic",
    "blackhole",
    "handshakeloss",
    "transferloss",
    "handshakecorruption",
    "transfercorruption",
    "multiconnect",
    "chacha20",
    "ipv6",
    "amplificationlimit",
    "resumption",
    "zerortt",
    "keyupdate",
    "retry",
    "connectionmigration",
    "rebind-port",
    "rebind-addr",
];

fn server(case: &str) -> Result<ServerArgs, Failure> {
    if !CASES.contains(&case) {
        return Err(Failure::Unsupported(case.to_owned()));
    }
    Ok(ServerArgs {
        listen: vec!["[::]:443".parse().expect("an address")],
        root: PathBuf::from("/www"),
        cert: Some(PathBuf::from("/certs/cert.pem")),
        key: Some(PathBuf::from("/certs/priv.key")),
        retry: case == "retry",
    })
}

fn client(case: &str, requests: &str) -> Result<ClientArgs, Failure> {
    if !CASES.contains(&case) {
        return Err(Failure::Unsupported(case.to_owned()));
    }
    Ok(ClientArgs {
        urls: requests.split_whitespace().map(str::to_owned).collect(),
        insecure: true,
        output: Some(PathBuf::from("/downloads")),
        chacha20: case == "chacha20",
        resume: case == "resumption",
        zero_rtt: case == "zerortt",
        key_update: case == "keyupdate",
        rebind: case == "connectionmigration",
        connection_per_file: matches!(case, "multiconnect" | "handshakeloss" | "handshakecorruption"),
        ..ClientArgs::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_case_is_a_set_of_options() {
        let args = client("multiconnect", "https://server:443/a https://server:443/b").unwrap();
        assert_eq!(args.urls.len(), 2);
        assert!(args.connection_per_file && !args.chacha20);
        assert!(client("chacha20", "https://server:443/a").unwrap().chacha20);
        assert!(server("retry").unwrap().retry && !server("handshake").unwrap().retry);
        assert!(matches!(client("teleport", ""), Err(Failure::Unsupported(_))));
        assert!(matches!(server("teleport"), Err(Failure::Unsupported(_))));
    }
}
