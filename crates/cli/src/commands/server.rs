//! `mendpath server`.

mod drain;

use super::{
    GOODBYE, print,
    service::{self, Reloading},
    state_dir,
};
use crate::{
    admin,
    args::{Cli, Command, ServerArgs},
    console::say,
    descriptors,
    destination::DestinationPolicy,
    failure::Failure,
    protocol::CloseCode,
    server::{Limits, ProxyServer, ServerOptions, ServerSettings, Statistics},
    transport::Choice,
};

pub(super) async fn run(args: ServerArgs) -> Result<(), Failure> {
    descriptors::raise();
    let reloading = Reloading::new(args.reload);
    let options = ServerOptions {
        listen: args.listen,
        advertise: args.advertise,
        state: state_dir(args.state)?,
        policy: DestinationPolicy::new(args.allow_private),
        dns: args.dns,
        limits: Limits {
            clients: args.max_clients as usize,
            streams: args.max_streams as usize,
            ..Limits::default()
        },
        show_names: !args.hide_names,
        transport: Choice { recovery: args.recovery, congestion: args.congestion, qlog: args.qlog.clone() },
    };
    if args.drain {
        return drain::order(args.socket).await;
    }
    let statistics = admin::bind(args.admin).await?;
    let server = ProxyServer::bind(&options)?;
    let (endpoint, accounts) = (server.endpoint().clone(), server.accounts());
    for address in endpoint.local_addrs() {
        say(format_args!("listening on UDP {address}; clients use the invitation on stdout"));
    }
    let shown = server.statistics();
    let ending = drain::Ending::new(server.drainer(), args.drain_time);
    let order = ending.order();
    shown.feed().on_drain(order);
    super::show_status("server", shown.feed());
    if let Some(listener) = statistics {
        say(format_args!("statistics on {}", listener.address));
        tokio::spawn(listener.serve(shown, Statistics::serve));
    }
    print(&format!("{}\n", server.invitation()));
    let settings = server.settings();
    service::ready();
    tokio::select! {
        () = server.run() => {}
        () = ending.run() => {}
        () = reloading.run(|key, cli| apply(key, cli, &settings, &ending)) => {}
    }
    service::stopping();
    endpoint.close(CloseCode::Unavailable.into(), b"the server stops");
    let _ = tokio::time::timeout(GOODBYE, endpoint.wait_idle()).await;
    accounts.close().await;
    Ok(())
}

/// Makes an option that was read again count, if it can while the server runs.
fn apply(key: &str, cli: &Cli, settings: &ServerSettings, ending: &drain::Ending) -> bool {
    let Command::Server(args) = &cli.command else { return false };
    match key {
        "allow-private" => settings.set_policy(DestinationPolicy::new(args.allow_private)),
        "drain-time" => ending.set_time(args.drain_time),
        "dns" => settings.set_dns(&args.dns),
        _ => return false,
    }
    true
}
