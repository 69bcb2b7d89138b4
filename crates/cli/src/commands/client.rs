//! `mendpath client`.

use std::{net::SocketAddr, sync::Arc};

use super::{
    Signals, client_options, invitation,
    service::{self, Reloading},
};
use crate::{
    args::{ClientArgs, Command, DialArgs, SessionArgs},
    client::{Client, ClientOptions, ClientSettings, Credentials},
    config::Reload,
    console::say,
    descriptors,
    failure::Failure,
    secret::{Places, Secret},
    status::Feed,
};

/// Where SOCKS5 is offered when nothing is asked for.
const DEFAULT_SOCKS5: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1080);

pub(super) async fn run(args: ClientArgs, reload: Reload) -> Result<(), Failure> {
    descriptors::raise_for_connections();
    let reloading = Reloading::new(reload);
    let credentials = credentials(&args)?;
    let nothing = args.socks5.is_none() && args.http.is_none() && args.forwards.is_empty();
    let options = ClientOptions {
        socks5: args.socks5.or(nothing.then_some(DEFAULT_SOCKS5)),
        http: args.http,
        forwards: args.forwards,
        credentials,
        ..client_options(&args.dial, &args.session)?
    };
    // Who starts it is not to wait for the server as well.
    let waits = options.wait_for_server;
    let bound = |feed: &Arc<Feed>| {
        super::show_status("client", feed.clone());
        if waits {
            service::waiting();
        }
    };
    let mut signals = Signals::new();
    let client = tokio::select! {
        client = Client::start_telling(options, bound) => client?,
        _ = signals.next() => return Ok(()),
    };
    let (uplink, settings) = (client.uplink.clone(), client.settings());
    service::ready();
    tokio::select! {
        () = reloading.run_and(
            |key, cli| {
                let Command::Client(args) = &cli.command else { return false };
                // It is read in any case.
                key == "proxy-auth-file" || apply(key, &args.dial, &args.session, &settings)
            },
            |cli| {
                let Command::Client(args) = &cli.command else { return None };
                renew_credentials(args, &settings)
            },
        ) => Ok(()),
        failure = client.run() => Err(failure),
        _ = signals.next() => {
            say("stopping");
            service::stopping();
            uplink.say_goodbye().await;
            Ok(())
        }
    }
}

/// Makes an option that was read again count, if it can while the client runs. How it sends counts
/// from the next connection on.
pub(super) fn apply(key: &str, dial: &DialArgs, session: &SessionArgs, settings: &ClientSettings) -> bool {
    match key {
        "answer-early" => settings.set_early_answers(session.answer_early),
        "hide-names" => settings.set_names(!session.hide_names),
        "metered" | "backup" | "prefer" | "cap" => return settings.set_paths(&session.paths.orders()),
        "recovery" | "repair-symbols" | "congestion" | "scheduler" | "qlog" => {
            settings.set_transport(dial.sending.choice(dial.recovery));
        }
        _ => return false,
    }
    true
}

/// What programs must show, if anything.
fn credentials(args: &ClientArgs) -> Result<Option<Credentials>, Failure> {
    let places = places(args);
    if places.is_stdin() && invitation(&args.dial).is_stdin() {
        return Err(Failure::usage(
            "cannot read both the invitation and the proxy's password from standard input",
            "it holds one line",
            "Name a file with --proxy-auth-file or --invitation-file",
        ));
    }
    let Some((secret, credentials)) = read(&places)? else { return Ok(None) };
    places.warn_of(&secret);
    Ok(Some(credentials))
}

/// Reads it again, for the file that holds it may be another one by now. Says what came of that.
fn renew_credentials(args: &ClientArgs, settings: &ClientSettings) -> Option<String> {
    let places = places(args);
    if places.is_read_once() {
        return Some("the proxy's password stays as it was: what it came from is read but once".to_owned());
    }
    match read(&places) {
        Ok(Some((_, credentials))) => {
            let changed = settings.set_credentials(credentials);
            changed.then(|| "the proxy's password is another one now".to_owned())
        }
        Ok(None) if settings.has_credentials() => {
            Some("the proxies keep their password: start it again for none".to_owned())
        }
        Ok(None) => None,
        Err(failure) => Some(format!("{failure} The proxy's password stays as it was")),
    }
}

fn read(places: &Places<'_>) -> Result<Option<(Secret, Credentials)>, Failure> {
    let Some(secret) = places.read()? else { return Ok(None) };
    let credentials = secret.text.parse().map_err(|cure: String| {
        Failure::usage("cannot use the proxy's password", "it is not a user and a password", cure)
    })?;
    Ok(Some((secret, credentials)))
}

/// Where the password may be.
fn places(args: &ClientArgs) -> Places<'_> {
    Places {
        what: "the proxy's password",
        argument: args.proxy_auth.as_deref(),
        file: args.proxy_auth_file.as_deref(),
        file_option: "--proxy-auth-file",
        variable: "MENDPATH_PROXY_AUTH",
    }
}
