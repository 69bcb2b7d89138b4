//! The client: fetches files over one connection or several.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use mendpath::{ClientConfig, Connection, Endpoint, OpenPathError, PathError, PathOptions};
use tokio::{io::AsyncWriteExt as _, task::JoinSet};

use crate::{ClientArgs, Failure, hq, tls};

/// Bytes after which a client that is to move does so: the transfer is under way.
const ENOUGH_TO_MOVE: u64 = 50_000;

/// Fetches all URLs, and prints a line for each connection.
pub(crate) async fn fetch(args: ClientArgs) -> Result<(), Failure> {
    let target = Target::of(&args.urls).await?;
    if let Some(directory) = &args.output {
        let failure = |source| Failure::File { path: directory.clone(), source };
        tokio::fs::create_dir_all(directory).await.map_err(failure)?;
    }
    let any: IpAddr = match target.address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let config = ClientConfig::with_tls(tls::client(&args)?).early_data(args.zero_rtt);
    let endpoint = Endpoint::builder().bind((any, 0).into()).client(config).build().map_err(Failure::Bind)?;
    let client = Client { endpoint, target, args };
    for (index, paths) in client.batches().into_iter().enumerate() {
        client.session(paths, index > 0).await?;
    }
    client.endpoint.wait_idle().await;
    Ok(())
}

struct Client {
    endpoint: Endpoint,
    target: Target,
    args: ClientArgs,
}

impl Client {
    /// What each connection fetches.
    fn batches(&self) -> Vec<&[String]> {
        let paths = &self.target.paths[..];
        if self.args.connection_per_file {
            paths.chunks(1).collect()
        } else if self.args.resume || self.args.zero_rtt {
            // A single file is fetched twice.
            vec![&paths[..1], if paths.len() > 1 { &paths[1..] } else { paths }]
        } else {
            vec![paths]
        }
    }

    /// One connection; a `later` one is for what needs an earlier one.
    #[allow(
        clippy::disallowed_methods,
        reason = "how long a transfer takes is what the person at the terminal waits for"
    )]
    async fn session(&self, paths: &[String], later: bool) -> Result<(), Failure> {
        let start = Instant::now();
        let connecting = self.endpoint.connect(self.target.address, &self.target.name)?;
        let (connection, early) = if self.args.zero_rtt && later {
            let refused = |_| Failure::NotShown("the server gave no ticket for 0-RTT");
            let (connection, accepted) = connecting.into_0rtt().map_err(refused)?;
            (connection, Some(accepted))
        } else {
            (connecting.await?, None)
        };
        if self.args.key_update {
            connection.force_key_update();
        }
        for &local in &self.args.paths {
            connection.add_path(PathOptions::new().local_ip(local)).await?;
        }
        let transfer = get_all(&connection, paths, self.args.output.as_deref());
        let bytes = if self.args.rebind {
            let mut transfer = std::pin::pin!(transfer);
            tokio::select! {
                bytes = &mut transfer => {
                    bytes?;
                    return Err(Failure::NotShown("the transfer was over before the client could move"));
                }
                moved = rebind(&connection) => moved?,
            }
            transfer.await?
        } else {
            transfer.await?
        };
        let elapsed = start.elapsed();
        println!("{} files, {bytes} bytes in {:.3} s", paths.len(), elapsed.as_secs_f64());
        for path in connection.path_stats() {
            println!("path {} {}: {} bytes received", path.id, path.network.local, path.bytes_received);
        }
        if let Some(accepted) = early
            && !accepted.await
        {
            return Err(Failure::NotShown("the server took no 0-RTT data"));
        }
        if self.args.resume && later && !connection.is_resumed() {
            return Err(Failure::NotShown("the server did not resume the session"));
        }
        if self.args.key_update && connection.stats().key_updates == 0 {
            return Err(Failure::NotShown("the keys were not updated"));
        }
        connection.close(0u8.into(), b"");
        Ok(())
    }
}

/// Continues from another local port once something has arrived.
async fn rebind(connection: &Connection) -> Result<(), Failure> {
    let mut look = tokio::time::interval(Duration::from_millis(1));
    loop {
        look.tick().await;
        let paths = connection.paths();
        let Some(path) = paths.first() else { continue };
        let Ok(stats) = path.stats() else { continue };
        if stats.bytes_received <= ENOUGH_TO_MOVE {
            continue;
        }
        let options = PathOptions::new().local_ip(stats.network.local.ip());
        match path.migrate(&options) {
            Err(OpenPathError::Path(PathError::NotReady | PathError::NoConnectionId)) => {}
            moved => return Ok(moved?),
        }
    }
}

/// Asks for all paths at once, and returns how many bytes came.
async fn get_all(connection: &Connection, paths: &[String], output: Option<&Path>) -> Result<u64, Failure> {
    let output: Option<Arc<Path>> = output.map(Arc::from);
    let mut tasks = JoinSet::new();
    for path in paths {
        tasks.spawn(get(connection.clone(), path.clone(), output.clone()));
    }
    let mut bytes = 0;
    while let Some(done) = tasks.join_next().await {
        bytes += done.expect("no task panics")?;
    }
    Ok(bytes)
}

async fn get(connection: Connection, path: String, output: Option<Arc<Path>>) -> Result<u64, Failure> {
    let (mut send, mut recv) = connection.open_bi().await?;
    let failure = |source| Failure::Request { path: path.clone(), source };
    send.write_all(hq::request(&path).as_bytes()).await.map_err(failure)?;
    // Refused if the server has the line and stopped the stream already: no harm.
    let _ = send.finish();
    let mut file = match output {
        Some(directory) => Some(File::create(&directory, &path).await?),
        None => None,
    };
    let mut bytes = 0;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let failure = |source| Failure::Answer { path: path.clone(), source };
        let Some(read) = recv.read(&mut buffer).await.map_err(failure)? else { break };
        bytes += read as u64;
        if let Some(file) = &mut file {
            file.write(&buffer[..read]).await?;
        }
    }
    if let Some(file) = &mut file {
        file.finish().await?;
    }
    Ok(bytes)
}

/// A file being written.
struct File {
    path: PathBuf,
    file: tokio::fs::File,
}

impl File {
    async fn create(directory: &Path, url_path: &str) -> Result<Self, Failure> {
        let name = hq::name(url_path).ok_or_else(|| Failure::Url {
            url: url_path.to_owned(),
            reason: "ends in no file name".into(),
        })?;
        let path = directory.join(name);
        match tokio::fs::File::create(&path).await {
            Ok(file) => Ok(Self { path, file }),
            Err(source) => Err(Failure::File { path, source }),
        }
    }

    async fn write(&mut self, data: &[u8]) -> Result<(), Failure> {
        self.file.write_all(data).await.map_err(|source| Failure::File { path: self.path.clone(), source })
    }

    async fn finish(&mut self) -> Result<(), Failure> {
        self.file.flush().await.map_err(|source| Failure::File { path: self.path.clone(), source })
    }
}

/// A server, and what is wanted from it.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    address: SocketAddr,
    name: String,
    paths: Vec<String>,
}

impl Target {
    async fn of(urls: &[String]) -> Result<Self, Failure> {
        let parts: Vec<Url<'_>> = urls.iter().map(|url| Url::parse(url)).collect::<Result<_, _>>()?;
        let first = &parts[0];
        for (part, url) in parts.iter().zip(urls) {
            if (part.host, part.port) != (first.host, first.port) {
                return Err(Failure::Url {
                    url: url.clone(),
                    reason: "another server than the first".into(),
                });
            }
        }
        let failure = |reason: String| Failure::Url { url: urls[0].clone(), reason };
        let mut addresses = tokio::net::lookup_host((first.host, first.port))
            .await
            .map_err(|error| failure(error.to_string()))?;
        let address = addresses.next().ok_or_else(|| failure("the name has no address".into()))?;
        let paths = parts.iter().map(|part| part.path.to_owned()).collect();
        Ok(Self { address, name: first.host.to_owned(), paths })
    }
}

/// The parts of `https://HOST[:PORT]/PATH`.
#[derive(Debug, PartialEq, Eq)]
struct Url<'a> {
    host: &'a str,
    port: u16,
    path: &'a str,
}

impl<'a> Url<'a> {
    fn parse(url: &'a str) -> Result<Self, Failure> {
        let failure = |reason: &str| Failure::Url { url: url.to_owned(), reason: reason.to_owned() };
        let rest = url.strip_prefix("https://").ok_or_else(|| failure("must begin with https://"))?;
        let slash = rest.find('/').ok_or_else(|| failure("has no path"))?;
        let (authority, path) = rest.split_at(slash);
        let (host, port) = match authority.rsplit_once(':') {
            // A colon inside brackets belongs to an IPv6 address.
            Some((host, port)) if !port.contains(']') => {
                (host, port.parse().map_err(|_| failure("has a port that is no number"))?)
            }
            _ => (authority, 443),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() || path.contains(['\r', '\n', ' ']) {
            return Err(failure("is not a URL"));
        }
        Ok(Self { host, port, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let url = |host, port, path| Url { host, port, path };
        assert_eq!(Url::parse("https://localhost:4433/a/b").unwrap(), url("localhost", 4_433, "/a/b"));
        assert_eq!(Url::parse("https://server/x").unwrap(), url("server", 443, "/x"));
        assert_eq!(Url::parse("https://[::1]:443/x").unwrap(), url("::1", 443, "/x"));
        assert_eq!(Url::parse("https://[::1]/x").unwrap(), url("::1", 443, "/x"));
        for bad in
            ["http://a/b", "https://a", "https://a:b/c", "https:///x", "https://a/b c", "https://a:99999/"]
        {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }
}
