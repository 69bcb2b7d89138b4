//! `mendpath server`.

use super::{GOODBYE, advertise, interrupted, print, state_dir};
use crate::{
    admin,
    args::ServerArgs,
    console::say,
    descriptors,
    destination::DestinationPolicy,
    failure::Failure,
    protocol::CloseCode,
    server::{Limits, ProxyServer, ServerOptions, Statistics},
    transport::Choice,
};

pub(super) async fn run(args: ServerArgs) -> Result<(), Failure> {
    descriptors::raise();
    let policy =
        if args.allow_private { DestinationPolicy::AllowPrivate } else { DestinationPolicy::PublicOnly };
    let options = ServerOptions {
        listen: args.listen,
        advertise: advertise(args.advertise.as_deref())?,
        state: state_dir(args.state)?,
        policy,
        dns: args.dns,
        limits: Limits {
            clients: args.max_clients as usize,
            streams: args.max_streams as usize,
            ..Limits::default()
        },
        show_names: !args.hide_names,
        transport: Choice { recovery: args.recovery, congestion: args.congestion, qlog: args.qlog.clone() },
    };
    let statistics = admin::bind(args.admin).await?;
    let server = ProxyServer::bind(&options)?;
    let endpoint = server.endpoint().clone();
    for address in endpoint.local_addrs() {
        say(format_args!("listening on UDP {address}; clients use the invitation on stdout"));
    }
    let shown = server.statistics();
    super::show_status("server", shown.feed());
    if let Some(listener) = statistics {
        say(format_args!("statistics on {}", listener.address));
        tokio::spawn(listener.serve(shown, Statistics::serve));
    }
    print(&format!("{}\n", server.invitation()));
    tokio::select! {
        () = server.run() => {}
        () = interrupted() => say("stopping"),
    }
    endpoint.close(CloseCode::Unavailable.into(), b"the server stops");
    let _ = tokio::time::timeout(GOODBYE, endpoint.wait_idle()).await;
    Ok(())
}
