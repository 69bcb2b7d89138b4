//! `mendpath serve`.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::{
    Ending, GOODBYE, Signals,
    service::{self, Reloading},
    workers,
};
use crate::{
    admin,
    args::{Command, ServeArgs},
    config::Reload,
    console::say,
    descriptors,
    failure::Failure,
    serve::{Content, ServeOptions, Statistics, WebServer},
    transport::Choice,
};

pub(super) async fn run(args: ServeArgs, reload: Reload) -> Result<(), Failure> {
    descriptors::raise_for_connections();
    let (reloading, signals) = (Reloading::new(reload), Signals::new());
    let options = ServeOptions {
        content: content(&args)?,
        listen: args.listen,
        certificate: certificate(&args)?,
        hints: args.hints,
        access_log: args.access_log,
        max_connections: args.max_connections as usize,
        workers: Some(workers(args.workers)),
        early_data: args.early_data,
        transport: Choice {
            recovery: args.recovery,
            congestion: args.congestion,
            qlog: args.qlog,
            ..Choice::default()
        },
        limits: crate::serve::Limits::default(),
    };
    let listener = admin::bind(args.admin).await?;
    let server = WebServer::bind(&options)?;
    super::show_status("web", server.statistics().feed());
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
    if let Some(listener) = listener {
        say(format_args!("statistics on {}", listener.address));
        tokio::spawn(listener.serve(server.statistics(), Statistics::serve));
    }
    service::ready();
    let drain = AtomicU64::new(args.drain_time);
    let apply = |key: &str, command: &Command| match (key, command) {
        ("drain-time", Command::Serve(args)) => {
            drain.store(args.drain_time, Ordering::Relaxed);
            true
        }
        _ => false,
    };
    tokio::select! {
        () = server.run(stop(signals, &drain)) => {}
        () = reloading.run(|key, cli| apply(key, &cli.command)) => {}
    }
    service::stopping();
    Ok(())
}

/// Waits until the server is to end, and gives what waits for the end of patience: as with that of the
/// proxy there is none after Ctrl-C, after SIGTERM it lasts `drain` seconds, and another signal ends it.
async fn stop(mut signals: Signals, drain: &AtomicU64) -> impl Future<Output = ()> {
    let ending = signals.next().await;
    async move {
        if ending == Ending::Interrupt {
            return;
        }
        let time = Duration::from_secs(drain.load(Ordering::Relaxed));
        service::stopping_within(time + GOODBYE);
        say(format_args!("requests may end within {time:?}; a signal stops at once"));
        if tokio::time::timeout(time, signals.next()).await.is_ok() {
            say("stopping at once");
        }
    }
}

// The file may have some of these and the line the others, so that clap cannot see whether one is
// missing.

fn content(args: &ServeArgs) -> Result<Content, Failure> {
    match (&args.root, &args.proxy) {
        (Some(root), None) => {
            Ok(Content::Files { root: root.clone(), follow_symlinks: args.follow_symlinks })
        }
        (None, Some(_)) if args.follow_symlinks => Err(Failure::usage(
            "cannot follow symbolic links",
            "a server behind has none",
            "Leave --follow-symlinks away, or name a directory with --root",
        )),
        (None, Some(_)) if !args.hints.is_empty() => Err(Failure::usage(
            "cannot give early hints",
            "a server behind gives its own",
            "Leave --hint away, or name a directory with --root",
        )),
        (None, Some(url)) => Ok(Content::Proxy(url.clone())),
        (root, _) => Err(Failure::usage(
            "cannot serve",
            if root.is_some() { "both --root and --proxy are given" } else { "there is nothing to serve" },
            "Name a directory with --root, or a server with --proxy",
        )),
    }
}

fn certificate(args: &ServeArgs) -> Result<Option<(PathBuf, PathBuf)>, Failure> {
    match (&args.cert, &args.key) {
        (Some(chain), Some(key)) => Ok(Some((chain.clone(), key.clone()))),
        (None, None) => Ok(None),
        _ => Err(Failure::usage(
            "cannot use the certificate",
            "chain and key belong together, and one of them is missing",
            "Name both with --cert and --key",
        )),
    }
}
