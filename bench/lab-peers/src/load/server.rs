//! Servers under load, each a process, and what the system says about it.

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use anyhow::{Context as _, Result};
use rustls::RootCertStore;
use tempfile::TempDir;

use crate::certificate;

/// A server that is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    /// h3 over quinn, files in memory.
    H3Quinn,
    /// The same program over mendpath.
    MendpathH3,
    /// `mendpath serve`, files as the system has them.
    Serve,
}

impl Server {
    /// All; the first is what the others are compared with.
    pub(super) const ALL: [Self; 3] = [Self::H3Quinn, Self::MendpathH3, Self::Serve];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::H3Quinn => "h3-quinn",
            Self::MendpathH3 => "mendpath-h3",
            Self::Serve => "serve",
        }
    }
}

/// Files to serve and a certificate, in a directory that is removed with it.
pub(super) struct Site {
    directory: TempDir,
}

impl Site {
    /// A file for each of the sizes, in bytes.
    pub(super) fn new(sizes: &[usize]) -> Result<Self> {
        let site = Self { directory: TempDir::new()? };
        std::fs::create_dir(site.root())?;
        for size in sizes {
            std::fs::write(site.root().join(format!("{size}.bin")), vec![0x5a; *size])?;
        }
        let made = rcgen::generate_simple_self_signed([certificate::NAME.to_owned()])?;
        std::fs::write(site.file("certificate.pem"), made.cert.pem())?;
        std::fs::write(site.file("key.pem"), made.signing_key.serialize_pem())?;
        std::fs::write(site.file("certificate"), made.cert.der())?;
        Ok(site)
    }

    /// Of the file of that size.
    pub(super) fn path(size: usize) -> String {
        format!("/{size}.bin")
    }

    /// What the client trusts.
    pub(super) fn roots(&self) -> Result<Arc<RootCertStore>> {
        let mut roots = RootCertStore::empty();
        roots.add(std::fs::read(self.file("certificate"))?.into())?;
        Ok(Arc::new(roots))
    }

    fn root(&self) -> PathBuf {
        self.file("root")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// A server that runs until it is dropped.
pub(super) struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    pub(super) fn start(server: Server, program: Option<&Path>, site: &Site) -> Result<Self> {
        // Free a moment ago.
        let address = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let this = std::env::current_exe()?;
        let (program, arguments): (&Path, &[&str]) = match server {
            Server::H3Quinn => (&this, &["web", "--over", "quinn"]),
            Server::MendpathH3 => (&this, &["web", "--over", "mendpath"]),
            Server::Serve => (program.context("--program is needed")?, &["serve"]),
        };
        let child = Command::new(program)
            .args(arguments)
            .args(["--listen", &address.to_string()])
            .arg("--root")
            .arg(site.root())
            .arg("--cert")
            .arg(site.file("certificate.pem"))
            .arg("--key")
            .arg(site.file("key.pem"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child, address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// User and system time so far, of all threads (proc_pid_stat(5)), in steps of 10 ms.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        /// USER_HZ, the same on every Linux.
        const TICKS_PER_SECOND: f64 = 100.0;
        let stat = self.read("stat")?;
        // The name of the program, in parentheses, may hold anything.
        let (_, fields) = stat.rsplit_once(')').context("a name in parentheses")?;
        let mut fields = fields.split_whitespace().skip(11).map(str::parse::<u64>);
        let mut next = || Ok::<_, anyhow::Error>(fields.next().context("utime and stime")??);
        Ok((next()? + next()?) as f64 / TICKS_PER_SECOND)
    }

    /// The most memory that was resident so far (`VmHWM`), in bytes.
    pub(super) fn peak_bytes(&self) -> Result<u64> {
        self.status("VmHWM:")
    }

    /// The resident memory that is no file's, such as the program's (`RssAnon`), in bytes.
    pub(super) fn own_bytes(&self) -> Result<u64> {
        self.status("RssAnon:")
    }

    /// A quantity of proc_pid_status(5), in bytes.
    fn status(&self, name: &'static str) -> Result<u64> {
        let status = self.read("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)).context(name)?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1_024)
    }

    fn read(&self, file: &str) -> Result<String> {
        let path = format!("/proc/{}/{file}", self.child.id());
        std::fs::read_to_string(&path).with_context(|| format!("{path}: the server has ended"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
