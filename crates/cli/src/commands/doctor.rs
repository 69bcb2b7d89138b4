//! `mendpath doctor`.

use std::{ffi::OsString, path::PathBuf};

use super::{dial_options, invitation, print, state_dir, status};
use crate::{
    args::{Cli, ClientArgs, Command, DoctorArgs, ServerArgs},
    config::{Source, Unreadable, of_environment, packaged},
    doctor::{
        Finding, Report,
        client::{self, Known, problem},
        server::{self, Running},
    },
    failure::Failure,
    status::Role,
    token::Service,
};

/// Examines, and returns the exit code.
pub(super) async fn run(args: DoctorArgs) -> Result<u8, Failure> {
    let (side, json) = (if args.server { "server" } else { "client" }, args.json);
    let mut findings = Vec::new();
    let more = if args.server { of_server(args).await } else { of_client(args).await };
    match more {
        Ok(more) => findings.extend(more),
        Err(finding) => findings.push(*finding),
    }
    let report = Report::new(side, findings);
    print(&if json { report.json() } else { report.text() })?;
    Ok(report.exit_code())
}

async fn of_client(args: DoctorArgs) -> Result<Vec<Finding>, Box<Finding>> {
    let named = args.invitation.is_some() || args.invitation_file.is_some();
    let config = args.config.or_else(of_environment);
    let config = config.or_else(|| if named { None } else { packaged("client") });
    let (options, mut findings) = read("client", config, Vec::new())?;
    let Command::Client(options) = options.command else { unreachable!("it was asked for") };
    let ClientArgs { mut dial, .. } = options;
    if named {
        (dial.invitation, dial.invitation_file) = (args.invitation, args.invitation_file);
    }
    if !args.paths.is_empty() {
        dial.paths = args.paths;
    }
    let known = match invitation(&dial).read() {
        Err(failure) => return Err(Box::new(problem("invitation", &failure))),
        Ok(Some(secret)) => {
            client::invited(&secret.text).map_err(Box::new)?;
            let options = dial_options(&dial, Service::Proxy);
            Known::Invited(Box::new(options.map_err(|failure| Box::new(problem("invitation", &failure)))?))
        }
        Ok(None) => of_running_client(dial.paths).await,
    };
    findings.extend(client::examine(known).await);
    Ok(findings)
}

/// The server of the first client that runs here.
async fn of_running_client(paths: Vec<crate::client::PathSpec>) -> Known {
    let place = status::snapshots().await.into_iter().find_map(|(_, snapshot)| match snapshot.role {
        Role::Client(client) => client.server.parse().ok(),
        Role::Server(_) => None,
    });
    place.map_or(Known::Nothing, |place| Known::Place(place, paths))
}

async fn of_server(args: DoctorArgs) -> Result<Vec<Finding>, Box<Finding>> {
    let text = |value: Option<String>, option: &str| value.map(|value| format!("{option}={value}").into());
    let more: Vec<OsString> = [
        text(args.listen.map(|listen| listen.to_string()), "--listen"),
        args.state.map(|state| {
            let mut option = OsString::from("--state=");
            option.push(state);
            option
        }),
    ]
    .into_iter()
    .flatten()
    .collect();
    let config = args.config.or_else(of_environment).or_else(|| packaged("server"));
    let (options, mut findings) = read("server", config, more)?;
    let Command::Server(options) = options.command else { unreachable!("it was asked for") };
    let ServerArgs { listen, advertise, state, allow_private, dns, .. } = options;
    let state = state_dir(state).map_err(|failure| Box::new(problem("state", &failure)))?;
    let named = args.advertise;
    let options = server::Options { listen, named, advertise, state, allow_private, dns };
    let running: Vec<Running> = status::snapshots().await.into_iter().filter_map(running).collect();
    findings.extend(server::examine(&options, &running).await);
    Ok(findings)
}

fn running((socket, snapshot): (PathBuf, crate::status::Snapshot)) -> Option<Running> {
    let Role::Server(server) = snapshot.role else { return None };
    let listen = server.listen.iter().filter_map(|address| address.parse().ok()).collect();
    Some(Running { socket, listen })
}

/// Options as the command itself would read them, and where from.
fn read(
    command: &str,
    config: Option<PathBuf>,
    more: Vec<OsString>,
) -> Result<(Cli, Vec<Finding>), Box<Finding>> {
    let mut line = vec!["mendpath".into(), command.into()];
    let found = config
        .as_deref()
        .map(|file| file.display())
        .map(|file| Finding::ok("options", format_args!("read from {file}")));
    line.extend(config.into_iter().flat_map(|file| ["--config".into(), file.into_os_string()]));
    line.extend(more);
    let read = Source::beside_process(line).read_once().map_err(|unreadable| match unreadable {
        Unreadable::Configuration(failure) => Box::new(Finding::problem("options", failure.parts().0, {
            let (_, wrong, next) = failure.parts();
            format!("{wrong}. {next}")
        })),
        Unreadable::CommandLine(error) => {
            let first = error.to_string().lines().next().unwrap_or_default().to_owned();
            Box::new(Finding::problem("options", first, "`mendpath config check` says more"))
        }
    })?;
    Ok((read.cli, found.into_iter().collect()))
}
