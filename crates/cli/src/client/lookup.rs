//! Where servers are: what their names say now, or what they said once, where names can be looked up
//! no more.

use std::{
    collections::BTreeMap,
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    sync::Arc,
    thread,
};

use tokio::{sync::oneshot, time::timeout};

use super::{
    dial::DialOptions,
    uplink::{FIRST_WAIT, LONGEST_WAIT},
};
use crate::{
    backoff::{Backoff, pause},
    console::say,
    failure::{Failure, io_reason},
    invitation::Invitation,
    target::{Host, Target, canonical},
    transport::Retry,
};

/// Addresses of a name that are tried.
const MAX_ADDRESSES: usize = 4;

/// The addresses of servers that were looked up once and for all, one at least of each, in the order in
/// which to try them.
pub type Known = BTreeMap<Target, Vec<SocketAddr>>;

impl DialOptions {
    /// Where `host` is: the addresses that are known, or else those that its name has now.
    ///
    /// # Errors
    /// When its name has none.
    pub(super) async fn addresses(&self, host: &Target) -> Result<Vec<SocketAddr>, (Failure, Retry)> {
        match self.known.get(host) {
            Some(known) => Ok(known.clone()),
            None => self.in_time(host, resolve(host)).await,
        }
    }

    /// What a lookup says before the whole attempt is given up: the server is not to be blamed for a
    /// name server that does not answer, which systems wait for as long as we do for all together.
    async fn in_time(
        &self,
        host: &Target,
        lookup: impl Future<Output = Result<Vec<SocketAddr>, (Failure, Retry)>>,
    ) -> Result<Vec<SocketAddr>, (Failure, Retry)> {
        let found = timeout(self.timeout / 10 * 9, lookup).await;
        found.unwrap_or_else(|_| Err(not_found(host, "no name server answers")))
    }

    /// Looks the invitation's servers up once and for all: no later attempt asks for a name. Servers
    /// whose names have no address now are left out of the invitation.
    ///
    /// # Errors
    /// When none of them has an address, unless `wait` says to try until one has.
    pub async fn look_up(&mut self, wait: bool) -> Result<(), Failure> {
        let invitation = &self.invitation;
        let known = until_found(wait, || find_all(invitation)).await?;
        leave_out_unknown(&mut self.invitation, &known);
        self.known = Arc::new(known);
        Ok(())
    }
}

/// Looks until there is something, if it is to `wait`, and says once that it does.
async fn until_found<T, L>(wait: bool, look: impl Fn() -> L) -> Result<T, Failure>
where
    L: Future<Output = Result<T, Failure>>,
{
    let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
    let mut told = false;
    loop {
        match look().await {
            Err(failure) if wait => {
                if !std::mem::replace(&mut told, true) {
                    say(format_args!("{failure} Trying again"));
                }
            }
            ended => return ended,
        }
        pause(backoff.next_wait()).await;
    }
}

/// The addresses of those servers of `invitation` that have some.
async fn find_all(invitation: &Invitation) -> Result<Known, Failure> {
    let (mut known, mut failed) = (Known::new(), None);
    for host in invitation.hosts() {
        match resolve(host).await {
            // Rules of the system are made of them, which are of one family or the other.
            Ok(found) => _ = known.insert(host.clone(), found.into_iter().map(canonical).collect()),
            Err((failure, _)) => failed = Some(failure),
        }
    }
    match failed {
        Some(failure) if known.is_empty() => Err(failure),
        _ => Ok(known),
    }
}

/// Leaves those servers out of `invitation` whose addresses are not known. One at least is.
fn leave_out_unknown(invitation: &mut Invitation, known: &Known) {
    let hosts: Vec<Target> = invitation.hosts().filter(|host| known.contains_key(*host)).cloned().collect();
    let mut hosts = hosts.into_iter();
    if let Some(first) = hosts.next() {
        (invitation.server, invitation.also) = (first, hosts.collect());
    }
}

/// The addresses of a server, four at most, families in turn.
///
/// # Errors
/// When its name has none.
pub(crate) async fn resolve(server: &Target) -> Result<Vec<SocketAddr>, (Failure, Retry)> {
    let addresses: Vec<_> = match &server.host {
        Host::Ip(ip) => vec![SocketAddr::new(*ip, server.port)],
        Host::Name(name) => {
            let place = (name.clone(), server.port);
            let found = unattended(move || place.to_socket_addrs().map(Vec::from_iter)).await;
            in_turn(found.map_err(|error| not_found(server, &io_reason(&error)))?)
        }
    };
    if addresses.is_empty() { Err(not_found(server, "its name has no address")) } else { Ok(addresses) }
}

/// Does `work` on a thread of its own, for which nobody waits when the program ends: the system's own lookup
/// takes half a minute where no name server answers, and cannot be stopped.
async fn unattended<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (tell, told) = oneshot::channel();
    thread::Builder::new().name("lookup".to_owned()).spawn(move || tell.send(work()))?;
    told.await.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()))
}

fn not_found(server: &Target, wrong: &str) -> (Failure, Retry) {
    let failure = Failure::new(
        format!("cannot find the server {server}"),
        wrong,
        "Check this machine's connection and DNS, and the name in the invitation",
    );
    (failure, Retry::Useful)
}

/// The first few of `addresses`, of one family and the other in turn (RFC 8305 section 4): many of one
/// that leads nowhere leave room for the other.
fn in_turn(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let begins_with_v4 = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (first, other): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv4() == begins_with_v4);
    let (mut first, mut other) = (first.into_iter(), other.into_iter());
    let pairs = std::iter::from_fn(|| Some([first.next(), other.next()]));
    pairs.take(MAX_ADDRESSES).flatten().flatten().take(MAX_ADDRESSES).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use mendpath::KeyPin;

    use super::*;
    use crate::token::{Service, TokenSecret};

    /// An invitation to some servers.
    fn invitation(servers: &[&str]) -> Invitation {
        let token = TokenSecret::from_bytes([5; 32]).invitation_token(Service::Proxy);
        let (server, also) = servers.split_first().unwrap();
        let also = also.iter().map(|server| server.parse().unwrap()).collect();
        Invitation { token, server: server.parse().unwrap(), also, pin: KeyPin::of_spki(b"key") }
    }

    #[test]
    fn families_are_tried_in_turn() {
        let of = |hosts: &[&str]| -> Vec<String> {
            let addresses = hosts.iter().map(|host| SocketAddr::new(host.parse().unwrap(), 1)).collect();
            in_turn(addresses).iter().map(|address| address.ip().to_string()).collect()
        };
        let many = ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4", "192.0.2.1"];
        assert_eq!(of(&many), ["2001:db8::1", "192.0.2.1", "2001:db8::2", "2001:db8::3"]);
        assert_eq!(of(&["192.0.2.1", "192.0.2.2"]), ["192.0.2.1", "192.0.2.2"]);
        assert_eq!(of(&[]), [""; 0]);
    }

    #[tokio::test]
    async fn looked_up_servers_stay_as_the_invitation_names_them() {
        let servers = invitation(&["[::ffff:192.0.2.1]:4433", "192.0.2.7:1"]);
        let mut options = DialOptions::new(servers.clone(), Service::Proxy);
        options.look_up(false).await.unwrap();
        assert_eq!(options.invitation, servers);
        let known: Vec<_> = options.known.values().flatten().map(ToString::to_string).collect();
        assert_eq!(known, ["192.0.2.7:1", "192.0.2.1:4433"]);
        let found = options.addresses(&servers.server).await.map_err(|(failure, _)| failure);
        assert_eq!(found, Ok(vec!["192.0.2.1:4433".parse().unwrap()]));
    }

    /// As in a network whose name server is gone: the server may well be there.
    #[tokio::test(start_paused = true)]
    async fn of_a_name_that_nobody_answers_for_it_is_told_before_the_server_is_blamed() {
        let servers = invitation(&["vps.example:4433"]);
        let options = DialOptions::new(servers.clone(), Service::Proxy);
        let waiting = options.in_time(&servers.server, std::future::pending());
        let told = timeout(options.timeout, waiting).await.expect("the attempt is not over yet");
        let (failure, retry) = told.unwrap_err();
        assert!(failure.to_string().contains("no name server answers"), "{failure}");
        assert_eq!(retry, Retry::Useful);
    }

    /// As of a name that no name server answers for, after Ctrl-C.
    #[test]
    fn the_end_waits_for_no_lookup() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let (began, begins) = std::sync::mpsc::channel();
        runtime.spawn(unattended(move || {
            began.send(()).unwrap();
            let _ = held.recv();
            Ok(())
        }));
        begins.recv().unwrap();
        drop(runtime);
        drop(release);
    }

    #[test]
    fn servers_without_an_address_are_left_out() {
        let mut servers = invitation(&["a.example:1", "b.example:1", "c.example:1"]);
        let known = |server: &str| (server.parse::<Target>().unwrap(), vec![([192, 0, 2, 1], 1).into()]);
        leave_out_unknown(&mut servers, &Known::from([known("b.example:1"), known("c.example:1")]));
        assert_eq!(servers, invitation(&["b.example:1", "c.example:1"]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_waited_for_where_that_was_asked_for() {
        let asked = Cell::new(0);
        let third_time = || {
            asked.set(asked.get() + 1);
            let offline = || Failure::new("cannot find it", "there is no network", "Connect to one");
            std::future::ready(if asked.get() == 3 { Ok("there") } else { Err(offline()) })
        };
        assert!(until_found(false, third_time).await.is_err());
        assert_eq!(asked.get(), 1);
        assert_eq!(until_found(true, third_time).await, Ok("there"));
        assert_eq!(asked.get(), 3);
    }
}
