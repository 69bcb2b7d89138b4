//! Both ends and the paths between them, while ends come and go.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use emulator::Emulator;
use mendpath_cli::invitation::Invitation;
use tokio::{net::TcpStream, sync::Mutex as AsyncMutex, task::spawn_blocking};
use units::Bytes;

use crate::soak::{
    Args, Outcome, PATHS,
    ends::End,
    pair::{both_paths, put_between},
    program::socks5,
};

/// One of the two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Server,
    Client,
}

impl Role {
    /// Both, in the order of [`Stage::look`].
    pub const BOTH: [Self; 2] = [Self::Server, Self::Client];

    /// As results call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// What can be seen of an end from outside.
#[derive(Clone, Copy, Default, Debug)]
pub struct Look {
    /// How often it had been started before.
    pub life: u32,
    /// Resident memory.
    pub memory: Bytes,
    /// The most it has been in this life.
    pub peak: Bytes,
    /// Open descriptors.
    pub descriptors: usize,
}

/// Ends, each with how often it has been started again.
struct Ends {
    server: End,
    client: End,
    lives: [u32; 2],
}

/// The pair, and what is needed to start either end again.
pub struct Stage {
    pub emulator: Emulator,
    ends: AsyncMutex<Ends>,
    /// Where the client's SOCKS5 proxy is in its present life.
    socks5: Mutex<SocketAddr>,
    cuts: AtomicU64,
    args: Args,
    /// Where the server listens in every life.
    server: SocketAddr,
    invitation: Invitation,
    second: SocketAddr,
    state: tempfile::TempDir,
}

impl Stage {
    /// Starts both ends and waits until they have both paths.
    pub async fn start(args: &Args) -> Outcome<Self> {
        let state = tempfile::tempdir()?;
        let mut server = start_server(args, state.path(), None)?;
        let mut invitation: Invitation = server.line()?.parse()?;
        let real = SocketAddr::from((Ipv4Addr::LOCALHOST, invitation.server.port));
        let (emulator, second) = put_between(args, &mut invitation)?;
        let (client, [socks5, admin]) = start_client(args, &invitation, second)?;
        both_paths(admin).await?;
        Ok(Self {
            emulator,
            ends: AsyncMutex::new(Ends { server, client, lives: [0; 2] }),
            socks5: Mutex::new(socks5),
            cuts: AtomicU64::new(0),
            args: args.clone(),
            server: real,
            invitation,
            second,
            state,
        })
    }

    /// A connection through the pair to `host`.
    pub async fn connect(&self, host: SocketAddr) -> Outcome<TcpStream> {
        let (tcp, _) = socks5(self.proxy(), 1, host).await?;
        tcp.set_nodelay(true)?;
        Ok(tcp)
    }

    /// Where the SOCKS5 proxy is now.
    pub fn proxy(&self) -> SocketAddr {
        *self.socks5.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Kills an end as `kill -9` does and starts it again; returns when it is ready.
    pub async fn restart(&self, role: Role) -> Outcome<()> {
        let mut ends = self.ends.lock().await;
        ends.lives[role as usize] += 1;
        let (args, invitation, second) = (self.args.clone(), self.invitation.clone(), self.second);
        match role {
            Role::Server => {
                ends.server.kill();
                let (path, listen) = (self.state.path().to_owned(), self.server);
                ends.server = spawn_blocking(move || {
                    let mut server = start_server(&args, &path, Some(listen))?;
                    server.line().map(|_| server)
                })
                .await??;
            }
            Role::Client => {
                ends.client.kill();
                let start = move || start_client(&args, &invitation, second);
                let (client, [socks5, _]) = spawn_blocking(start).await??;
                ends.client = client;
                *self.socks5.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = socks5;
            }
        }
        Ok(())
    }

    /// What both ends look like now; fails while one is being started.
    pub async fn look(&self) -> Outcome<[Look; 2]> {
        let ends = self.ends.try_lock()?;
        let look = |end: &End, life| {
            let account = end.account();
            let (memory, peak) = (account.memory("VmRSS")?, account.memory("VmHWM")?);
            Outcome::Ok(Look { life, memory, peak, descriptors: account.descriptors()? })
        };
        Ok([look(&ends.server, ends.lives[0])?, look(&ends.client, ends.lives[1])?])
    }

    /// Ends all cuts.
    pub fn restore_paths(&self) -> Outcome<()> {
        for path in PATHS {
            self.emulator.restore(path, None)?;
        }
        Ok(())
    }

    /// Notes a cut.
    pub fn count_cut(&self) {
        self.cuts.fetch_add(1, Relaxed);
    }

    /// How many cuts there were.
    pub fn cuts(&self) -> u64 {
        self.cuts.load(Relaxed)
    }
}

fn start_server(args: &Args, state: &std::path::Path, listen: Option<SocketAddr>) -> Outcome<End> {
    let dir = state.to_str().ok_or("the temporary directory has a strange name")?;
    let mut more = vec!["--state".to_owned(), dir.to_owned()];
    more.extend(listen.map(|listen| format!("--listen={listen}")));
    End::start("server", args, &more.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The client, and where its SOCKS5 proxy and its statistics are.
fn start_client(args: &Args, invitation: &Invitation, second: SocketAddr) -> Outcome<(End, [SocketAddr; 2])> {
    let (invitation, second) = (invitation.to_string(), second.to_string());
    // An invitation beginning with a hyphen would be an option: it never does.
    let more = ["--invitation", &invitation, "--second", &second, "--wait"];
    let mut client = End::start("client", args, &more)?;
    let line = client.line()?;
    let (socks5, admin) = line.trim().split_once(' ').ok_or("the client said something strange")?;
    Ok((client, [socks5.parse()?, admin.parse()?]))
}
