//! `mendpath tunnel`.

use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::{
    Signals, client, client_options,
    service::{self, Reloading},
};
use crate::{
    args::{Command, TunnelArgs},
    client::{Client, DialOptions, TUN},
    config::Reload,
    console::say,
    descriptors,
    failure::Failure,
    interfaces::interface_exists,
    status::Feed,
    task::came_to,
    tun::{Carrier, Machine, Opened, Options, Plan, machine_name, open, remove_kill_switch},
};

const KILL_SWITCH_STAYS: &str = "the kill switch stays: nothing gets out until the tunnel is started \
                                 again, or `mendpath tunnel --remove-kill-switch`";

pub(super) async fn run(args: TunnelArgs, reload: Reload) -> Result<(), Failure> {
    if args.remove_kill_switch {
        return take_off_kill_switch();
    }
    descriptors::raise_for_connections();
    let reloading = Reloading::new(reload);
    let mut options = client_options(&args.carry.dial, &args.carry.session)?;
    // Later its name would have to be looked up through the tunnel that is to be made anew. Until that
    // is done a signal ends the process at once: nothing has been changed.
    options.dial.look_up(options.wait_for_server).await?;
    let mut plan = plan_of(&args, &options.dial);
    let options_of_carrier = Options {
        dns: args.carry.dns.map(|ip| (ip, crate::server::DNS_PORT).into()),
        all_dns: plan.takes_dns(),
        own_dns: false,
    };
    // The server first: a tunnel that leads nowhere would cut the machine off.
    let mut signals = Signals::new();
    let shown = |feed: &Arc<Feed>| super::show_status("tunnel", feed.clone());
    let client = tokio::select! {
        client = Client::start_telling(options, shown) => client?,
        _ = signals.next() => return Ok(()),
    };
    let raw = super::run::raw(&args.carry, machine_name());
    let opened = match raw {
        Some(options) => tokio::select! {
            opened = open(&client.uplink, options) => Some(opened?),
            _ = signals.next() => return Ok(()),
        },
        None => None,
    };
    plan.given = opened.as_ref().map(Opened::given);
    let told = describe(&plan);
    let (mut machine, ends) = came_to(spawn_blocking(move || Machine::change(plan)).await)?;
    let carrying = Carrier::start(client.shared.clone(), ends, options_of_carrier, opened);
    let carrying = tokio::spawn(carrying.inspect_err(|_| leave_kill_switch(&mut machine))?);
    let (uplink, settings) = (client.uplink.clone(), client.settings());
    say(told);
    service::ready();
    let ended = tokio::select! {
        () = reloading.run(|key, cli| {
            let Command::Tunnel(args) = &cli.command else { return false };
            client::apply(key, &args.carry.dial, &args.carry.session, &settings)
        }) => Ok(()),
        failure = client.run() => Err(failure),
        Ok(failure) = carrying => Err(failure),
        failure = machine.follow() => Err(failure),
        _ = signals.next() => Ok(()),
    };
    say("stopping");
    service::stopping();
    if ended.is_err() {
        leave_kill_switch(&mut machine);
    }
    drop(machine);
    uplink.say_goodbye().await;
    ended
}

/// What of the machine is to change; what the server gives comes later.
fn plan_of(args: &TunnelArgs, dial: &DialOptions) -> Plan {
    Plan {
        routes: args.routes.clone(),
        excludes: args.excludes.clone(),
        no_routes: args.no_routes,
        kill_switch: args.kill_switch,
        servers: dial.known.values().flatten().copied().collect(),
        given: None,
    }
}

/// Whoever asked for it wants nothing to leave in the clear while he does not know.
fn leave_kill_switch(machine: &mut Machine) {
    if machine.leave_kill_switch() {
        say(KILL_SWITCH_STAYS);
    }
}

/// Takes off what a killed program left behind. One that runs has it for a reason, and takes it off
/// by itself.
fn take_off_kill_switch() -> Result<(), Failure> {
    if interface_exists(TUN) {
        let wrong = format_args!("`mendpath tunnel` runs on this machine: it has the device {TUN}");
        let next = "Stop it, which takes its kill switch off, and start it without --kill-switch";
        return Err(Failure::usage("refusing to take off the kill switch", wrong, next));
    }
    remove_kill_switch()?;
    say("the kill switch is off");
    Ok(())
}

fn describe(plan: &Plan) -> String {
    if plan.no_routes {
        return format!("the device {TUN} is up; nothing leads to it but your own routes");
    }
    let what = match plan.routes.as_slice() {
        [] => "everything".to_owned(),
        routes => routes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    format!("{what} goes through the tunnel until this ends")
}
