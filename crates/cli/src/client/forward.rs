//! A local port that leads to one fixed place: `--forward 2222=intern.example:22`.

use std::{net::SocketAddr, str::FromStr, sync::Arc};

use tokio::net::TcpStream;
use tracing::debug;

use super::{IDLE_TIMEOUT, Shared, early::Early, tunnel};
use crate::{
    console::say,
    failure::Failure,
    listener::{Listener, Place},
    splice::{Patience, reset, splice_tcp},
    status::{Outcome, Protocol, Timed},
    target::{Target, TargetError},
};

/// Where to listen and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The local address.
    pub listen: SocketAddr,
    /// The place, as seen from the server.
    pub target: Target,
}

/// Text that is no forward.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    /// There is no `=`.
    #[error("write LISTEN=HOST:PORT, for example 2222=intern.example:22")]
    Form,
    /// The part before `=`.
    #[error("`{0}` is not a local address: write PORT or ADDRESS:PORT")]
    Listen(String),
    /// The part after `=`.
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl FromStr for Forward {
    type Err = ForwardError;

    /// A port alone stands for that port on 127.0.0.1.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (listen, target) = text.split_once('=').ok_or(ForwardError::Form)?;
        let address = match listen.parse::<u16>() {
            Ok(port) => Some(SocketAddr::from(([127, 0, 0, 1], port))),
            Err(_) => listen.parse().ok(),
        };
        let listen = address.ok_or_else(|| ForwardError::Listen(listen.to_owned()))?;
        Ok(Self { listen, target: target.parse()? })
    }
}

impl Forward {
    pub(crate) async fn bind(&self) -> Result<Listener, Failure> {
        if !self.listen.ip().is_loopback() {
            say(format_args!("everybody who reaches {} can use it to reach {}", self.listen, self.target));
        }
        Listener::bind(self.listen, "a forwarded port", "--forward").await
    }
}

/// Serves one connection to a forwarded port. What the program says goes out with the request:
/// nobody but we would use the answer.
pub(crate) async fn serve(tcp: TcpStream, place: Place, shared: Arc<Shared>, target: Arc<Target>) {
    // To connect is to ask.
    place.occupy().await;
    let mut timed = Timed::new(shared.uplink.live(), Protocol::Forward);
    let (send, mut early) = match tunnel::ask(&shared.uplink, Target::clone(&target)).await {
        Ok((send, asked)) => (send, Early::new(asked.granted())),
        Err(reply) => {
            timed.ends(Outcome::Refused);
            say(format_args!("cannot reach {target}: {}", reply.text));
            return reset(tcp);
        }
    };
    let flow = shared.uplink.live().traffic.begin(&target);
    let summary = splice_tcp(tcp, (&mut early, send), Patience::with(IDLE_TIMEOUT), &flow).await;
    debug!(%target, ?summary, "forwarded connection ended");
    timed.ends((&summary.ended).into());
    if let Some(reply) = early.refusal().await {
        timed.ends(Outcome::Refused);
        say(format_args!("cannot reach {target}: {}", reply.text));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forms() {
        let forward: Forward = "2222=intern.example:22".parse().unwrap();
        assert_eq!(forward.listen, "127.0.0.1:2222".parse().unwrap());
        assert_eq!(forward.target.to_string(), "intern.example:22");
        let forward: Forward = "[::1]:53=[2001:db8::1]:53".parse().unwrap();
        assert_eq!(forward.listen, "[::1]:53".parse().unwrap());
        assert_eq!("22".parse::<Forward>(), Err(ForwardError::Form));
        assert!("host:1=a:1".parse::<Forward>().unwrap_err().to_string().contains("PORT or ADDRESS:PORT"));
        assert!("1=a".parse::<Forward>().unwrap_err().to_string().contains("HOST:PORT"));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in ".{0,60}") {
            let _ = text.parse::<Forward>();
        }
    }
}
