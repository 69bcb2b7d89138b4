//! `mendpath serve`.

use std::time::Duration;

use super::{interrupted, service};
use crate::{
    args::ServeArgs,
    console::say,
    descriptors,
    failure::Failure,
    serve::{Content, ServeOptions, WebServer},
    transport::Choice,
};

pub(super) async fn run(args: ServeArgs) -> Result<(), Failure> {
    descriptors::raise();
    let content = match (args.root, args.proxy) {
        (Some(root), _) => Content::Files { root, follow_symlinks: args.follow_symlinks },
        (None, Some(url)) => Content::Proxy(url),
        (None, None) => unreachable!("clap wants one of them"),
    };
    let options = ServeOptions {
        content,
        listen: args.listen,
        certificate: args.cert.zip(args.key),
        access_log: args.access_log,
        max_connections: args.max_connections as usize,
        transport: Choice { recovery: args.recovery, congestion: args.congestion, qlog: args.qlog },
        limits: crate::serve::Limits::default(),
    };
    let server = WebServer::bind(&options)?;
    let address = server.address();
    if let Some(hash) = server.self_signed() {
        // Chromium prefers ::1, where a server of IPv4 is not.
        let resolve = if address.is_ipv4() { " --host-resolver-rules='MAP localhost 127.0.0.1'" } else { "" };
        say(format_args!(
            "the certificate is made for this run; Chromium takes it with \
             --ignore-certificate-errors-spki-list={hash} --origin-to-force-quic-on=localhost:{}{resolve}",
            address.port()
        ));
    }
    say(format_args!("serving HTTP/1.1 and 2 on TCP, HTTP/3 on UDP {address}"));
    service::ready();
    server.run(interrupted(), Duration::from_secs(args.drain_time)).await;
    service::stopping();
    Ok(())
}
