//! Connects a client's stream to another host.

use std::{io, net::SocketAddr, time::Duration};

use mendpath::{RecvStream, SendStream};
use tokio::net::{TcpStream, lookup_host};
use tracing::debug;

use super::{Shared, session::refuse};
use crate::{
    destination::DestinationPolicy,
    failure::io_reason,
    protocol::{Reply, Status, write_frame},
    splice::splice_tcp,
    target::{Host, Target},
};

/// Addresses of a name that are tried; more are ignored.
const MAX_ADDRESSES: usize = 8;

/// Serves one proxied TCP connection from request to end.
pub(super) async fn serve(target: &Target, (mut send, receive): (SendStream, RecvStream), shared: &Shared) {
    let limit = shared.limits.connect_timeout;
    let connected = tokio::time::timeout(limit, connect(target, shared.policy, limit)).await;
    let tcp = match connected {
        Ok(Ok(tcp)) => tcp,
        Ok(Err(reply)) => return refuse(send, receive, reply).await,
        Err(_) => {
            let reply =
                Reply::new(Status::TimedOut, format_args!("{target} did not answer within {limit:?}"));
            return refuse(send, receive, reply).await;
        }
    };
    if write_frame(&mut send, &Reply::ok().encode()).await.is_err() {
        return;
    }
    let summary = splice_tcp(tcp, (receive, send), shared.limits.tcp_idle).await;
    debug!(%target, ?summary, "proxied connection ended");
}

/// Resolves once, and connects to one of exactly those addresses that the policy permits.
async fn connect(target: &Target, policy: DestinationPolicy, limit: Duration) -> Result<TcpStream, Reply> {
    let addresses = resolve(target, policy).await?;
    // A dead first address must leave time for the next one.
    let share = (limit / 2).min(Duration::from_secs(4));
    let mut last = None;
    for address in addresses {
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => {
                // The transport below decides what belongs together; waiting here only adds delay.
                let _ = tcp.set_nodelay(true);
                return Ok(tcp);
            }
            Ok(Err(error)) => last = Some(error),
            Err(_) => last = Some(io::ErrorKind::TimedOut.into()),
        }
    }
    let error = last.unwrap_or_else(|| io::ErrorKind::NotFound.into());
    Err(Reply::new(status_of(&error), format_args!("cannot connect to {target}: {}", io_reason(&error))))
}

/// The permitted addresses of `target`.
///
/// # Errors
/// The answer to the client when there are none.
pub(super) async fn resolve(target: &Target, policy: DestinationPolicy) -> Result<Vec<SocketAddr>, Reply> {
    let addresses: Vec<_> = match &target.host {
        Host::Ip(ip) => vec![SocketAddr::new(*ip, target.port)],
        Host::Name(name) => lookup_host((name.as_str(), target.port))
            .await
            .map_err(|_| Reply::new(Status::NameUnknown, format_args!("the name {name} has no address")))?
            .take(MAX_ADDRESSES)
            .collect(),
    };
    policy.permitted(addresses).map_err(|why| {
        Reply::new(
            Status::Forbidden,
            format_args!("{target} is {why}; the server needs --allow-private for that"),
        )
    })
}

fn status_of(error: &io::Error) -> Status {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Status::Refused,
        io::ErrorKind::NetworkUnreachable => Status::NetworkUnreachable,
        io::ErrorKind::HostUnreachable => Status::HostUnreachable,
        io::ErrorKind::TimedOut => Status::TimedOut,
        io::ErrorKind::NotFound => Status::NameUnknown,
        _ => Status::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_are_judged_by_their_address() {
        let target = "localhost:80".parse().unwrap();
        let reply = resolve(&target, DestinationPolicy::PublicOnly).await.unwrap_err();
        assert_eq!(reply.status, Status::Forbidden);
        assert!(
            reply.text.contains("a loopback address; the server needs --allow-private"),
            "{}",
            reply.text
        );
        assert!(!resolve(&target, DestinationPolicy::AllowPrivate).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn refusal_has_its_status() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target::from_addr(listener.local_addr().unwrap());
        drop(listener);
        let error =
            connect(&target, DestinationPolicy::AllowPrivate, Duration::from_secs(5)).await.unwrap_err();
        assert_eq!(error.status, Status::Refused);
    }
}
