//! `mendpath server`.

mod drain;

use super::{
    GOODBYE, Signals, print,
    service::{self, Reloading},
    state_dir, workers,
};
use mendpath::QuicLb;

use crate::{
    activation::handed_over,
    admin,
    args::{Cli, Command, ServerArgs},
    config::Reload,
    console::say,
    descriptors,
    destination::DestinationPolicy,
    failure::Failure,
    protocol::CloseCode,
    quic_lb::Key,
    secret::Places,
    server::{Limits, ProxyServer, ServerOptions, ServerSettings, Statistics},
};
#[cfg(all(feature = "tunnel", target_os = "linux"))]
use crate::{
    failure::io_reason,
    server::{Machine, Pool, Tunnels},
    task::came_to,
};

pub(super) async fn run(args: ServerArgs, reload: Reload) -> Result<(), Failure> {
    let reloading = Reloading::new(reload);
    if args.drain {
        return drain::order(args.socket, args.drain_time).await;
    }
    descriptors::raise_for_connections();
    let options = options(&args)?;
    let statistics = admin::bind(args.admin).await?;
    let server = ProxyServer::bind_on(&options, handed_over()?)?;
    let (endpoint, accounts) = (server.endpoint().clone(), server.accounts());
    for address in endpoint.local_addrs() {
        say(format_args!("listening on UDP {address}; clients use the invitation on stdout"));
    }
    #[cfg(all(feature = "tunnel", target_os = "linux"))]
    let machine = tunnels(&server, &args).await?;
    let shown = server.statistics();
    let ending = drain::Ending::new(server.drainer(), drain_time(args.drain_time));
    let order = ending.order();
    shown.feed().on_drain(order);
    super::show_status("server", shown.feed());
    if let Some(listener) = statistics {
        say(format_args!("statistics on {}", listener.address));
        tokio::spawn(listener.serve(shown, Statistics::serve));
    }
    // Who reads the next line may end the server at once, in good order.
    let signals = Signals::new();
    // A server runs, whoever reads this.
    let _ = print(&format!("{}\n", server.invitation()));
    let settings = server.settings();
    service::ready();
    tokio::select! {
        () = server.run() => {}
        () = ending.run(signals) => {}
        () = reloading.run(|key, cli| apply(key, cli, &settings, &ending)) => {}
    }
    service::stopping();
    #[cfg(all(feature = "tunnel", target_os = "linux"))]
    drop(machine);
    endpoint.close(CloseCode::Unavailable.into(), b"the server stops");
    let _ = tokio::time::timeout(GOODBYE, endpoint.wait_idle()).await;
    accounts.close().await;
    Ok(())
}

fn options(args: &ServerArgs) -> Result<ServerOptions, Failure> {
    Ok(ServerOptions {
        listen: args.listen,
        workers: Some(workers(args.workers)),
        advertise: args.advertise.clone(),
        quic_lb: quic_lb(args)?,
        state: state_dir(args.state.clone())?,
        policy: DestinationPolicy::new(args.allow_private),
        dns: args.dns.clone(),
        limits: Limits {
            clients: args.max_clients as usize,
            streams: args.max_streams as usize,
            ..Limits::default()
        },
        show_names: !args.hide_names,
        transport: args.sending.choice(args.recovery),
    })
}

/// Offers tunnels if that is wanted. If not, what a server that was killed has left behind is taken away.
#[cfg(all(feature = "tunnel", target_os = "linux"))]
async fn tunnels(server: &ProxyServer, args: &ServerArgs) -> Result<Option<Machine>, Failure> {
    if args.tunnel {
        return offer_tunnels(server, &args.tunnel_pool).await.map(Some);
    }
    if !args.tunnel_pool.is_empty() {
        let reason = "nothing says that tunnels are offered";
        return Err(Failure::usage("cannot use the pool of addresses", reason, "Say --tunnel, too"));
    }
    let _ = tokio::task::spawn_blocking(Machine::tidy).await;
    Ok(None)
}

/// Makes the TUN device; what is returned undoes that when it is dropped.
#[cfg(all(feature = "tunnel", target_os = "linux"))]
async fn offer_tunnels(server: &ProxyServer, networks: &[ipnet::IpNet]) -> Result<Machine, Failure> {
    let pool = Pool::of(networks)?;
    let (machine, device) = came_to(tokio::task::spawn_blocking(move || Machine::change(&pool)).await)?;
    let tunnels = Tunnels::new(device, &pool).map_err(|error| {
        let next = "Please report this with the output of -vv";
        Failure::new("cannot use the TUN device", io_reason(&error), next)
    })?;
    tokio::spawn(tunnels.clone().run());
    tokio::spawn(machine.keep());
    server.offer(tunnels, &pool);
    say(format_args!("tunnels of packets have addresses of {} and {}", pool.v4, pool.v6));
    Ok(machine)
}

/// The seconds that what runs has at the end.
fn drain_time(chosen: Option<u64>) -> u64 {
    chosen.unwrap_or(30)
}

/// What balancers are to read, with the key that may be in several places.
fn quic_lb(args: &ServerArgs) -> Result<Option<QuicLb>, Failure> {
    let Some(options) = &args.quic_lb else {
        return match &args.quic_lb_key_file {
            None => Ok(None),
            Some(_) => Err(Failure::usage(
                "cannot use the key of connection ids",
                "nothing says that balancers are to read them",
                "Say --quic-lb id=HEX, too",
            )),
        };
    };
    let places = Places {
        what: "the key of connection ids",
        argument: None,
        file: args.quic_lb_key_file.as_deref(),
        file_option: "--quic-lb-key-file",
        variable: "MENDPATH_QUIC_LB_KEY",
    };
    let key = places.read()?.map(|secret| secret.text.parse::<Key>()).transpose();
    let key = key.map_err(|wrong| {
        Failure::usage("cannot use the key of connection ids", wrong, "Make one: openssl rand -hex 16")
    })?;
    Ok(Some(options.config(key.as_ref())))
}

/// Makes an option that was read again count, if it can while the server runs.
fn apply(key: &str, cli: &Cli, settings: &ServerSettings, ending: &drain::Ending) -> bool {
    let Command::Server(args) = &cli.command else { return false };
    match key {
        "allow-private" => settings.set_policy(DestinationPolicy::new(args.allow_private)),
        "drain-time" => ending.set_time(drain_time(args.drain_time)),
        "dns" => settings.set_dns(&args.dns),
        "hide-names" => settings.show_names(!args.hide_names),
        "max-clients" | "max-streams" | "recovery" | "repair-symbols" | "congestion" | "scheduler"
        | "qlog" => {
            let choice = args.sending.choice(args.recovery);
            settings.set_limits(args.max_clients as usize, args.max_streams as usize, &choice);
        }
        _ => return false,
    }
    true
}
