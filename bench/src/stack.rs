//! The stacks that are compared, each in a file of its own behind the same few calls.

pub mod mendpath;
mod quinn;
#[cfg(feature = "s2n-quic")]
mod s2n_quic;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Result;
use clap::ValueEnum;

/// The application protocol of all benches.
const ALPN: &[u8] = b"bench";
/// The name in the servers' certificate.
const SERVER_NAME: &str = "localhost";
/// Flow control of every stack, stream and connection: more than any path here holds.
const WINDOW: u64 = 16 << 20;
/// Silence that every stack bears: longer than any measurement.
const IDLE: Duration = Duration::from_secs(600);
/// Bytes handed over per write.
const CHUNK: usize = 64 << 10;

/// A stack by name; with our own, how recovery is set and over how many paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stack {
    /// Ours as people run it, with datagrams as large as loopback carries.
    MendpathJumbo,
    /// Ours, `auto` with the repair extension, one path; from here on with datagrams of at most 1,452
    /// bytes, as the others have them.
    MendpathAuto,
    /// The same over two paths.
    MendpathAutoTwoPaths,
    /// Ours, `cofuso` negotiated, one path.
    MendpathCofuso,
    /// The same over two paths.
    MendpathCofusoTwoPaths,
    /// Ours without recovery and the repair extension, one path.
    Mendpath,
    /// quinn.
    Quinn,
    /// s2n-quic.
    #[cfg(feature = "s2n-quic")]
    S2nQuic,
}

impl Stack {
    /// The name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned())
    }
}

/// Where the certificate and key of all servers are.
#[derive(Clone, Debug)]
pub struct Credentials {
    directory: PathBuf,
}

impl Credentials {
    /// Those in a directory made by [`create`](Self::create).
    pub fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Makes a self-signed certificate.
    pub fn create(directory: &Path) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])?;
        std::fs::write(directory.join("cert.pem"), made.cert.pem())?;
        std::fs::write(directory.join("cert.der"), made.cert.der())?;
        std::fs::write(directory.join("key.pem"), made.signing_key.serialize_pem())?;
        std::fs::write(directory.join("key.der"), made.signing_key.serialize_der())?;
        Ok(Self::at(directory))
    }

    fn pem(&self, what: &str) -> Result<String> {
        Ok(std::fs::read_to_string(self.directory.join(format!("{what}.pem")))?)
    }

    fn der(&self, what: &str) -> Result<Vec<u8>> {
        Ok(std::fs::read(self.directory.join(format!("{what}.der")))?)
    }
}

/// Serves until the process ends: eight bytes of a stream ask for that many bytes back. `ready` is
/// called with the address.
pub async fn serve(stack: Stack, credentials: &Credentials, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    match stack {
        Stack::Quinn => quinn::serve(credentials, ready).await,
        #[cfg(feature = "s2n-quic")]
        Stack::S2nQuic => s2n_quic::serve(credentials, ready).await,
        ours => mendpath::serve(ours, credentials, ready).await,
    }
}

/// A client endpoint: one socket, any number of connections.
pub enum Dialer {
    Mendpath(mendpath::Dialer),
    Quinn(quinn::Dialer),
    #[cfg(feature = "s2n-quic")]
    S2nQuic(Box<s2n_quic::Dialer>),
}

impl Dialer {
    /// An endpoint for connections to `server`.
    pub fn new(stack: Stack, credentials: &Credentials, server: SocketAddr) -> Result<Self> {
        Ok(match stack {
            Stack::Quinn => Self::Quinn(quinn::Dialer::new(credentials, server)?),
            #[cfg(feature = "s2n-quic")]
            Stack::S2nQuic => Self::S2nQuic(Box::new(s2n_quic::Dialer::new(credentials, server)?)),
            ours => Self::Mendpath(mendpath::Dialer::new(ours, credentials, server)?),
        })
    }

    /// Connects.
    pub async fn connect(&self) -> Result<Client> {
        Ok(match self {
            Self::Mendpath(dialer) => Client::Mendpath(dialer.connect().await?),
            Self::Quinn(dialer) => Client::Quinn(dialer.connect().await?),
            #[cfg(feature = "s2n-quic")]
            Self::S2nQuic(dialer) => Client::S2nQuic(Box::new(dialer.connect().await?)),
        })
    }
}

/// An open connection of a client.
pub enum Client {
    Mendpath(mendpath::Client),
    Quinn(quinn::Client),
    #[cfg(feature = "s2n-quic")]
    S2nQuic(Box<s2n_quic::Client>),
}

impl Client {
    /// Asks for bytes and reads them all.
    pub async fn download(&mut self, bytes: u64) -> Result<()> {
        let got = match self {
            Self::Mendpath(client) => client.download(bytes).await?,
            Self::Quinn(client) => client.download(bytes).await?,
            #[cfg(feature = "s2n-quic")]
            Self::S2nQuic(client) => client.download(bytes).await?,
        };
        anyhow::ensure!(got == bytes, "{got} of {bytes} bytes arrived");
        Ok(())
    }
}
