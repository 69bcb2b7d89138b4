//! Arguments of `serve`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use hyper::{Uri, header::HeaderValue};
use mendpath::{ControllerKind, QlogDirectory, RecoveryKind};

use super::parse_address;
use crate::transport::{parse_congestion, parse_qlog, parse_recovery};

/// Arguments of `serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  mendpath serve --root public      try it: https://localhost:8443/, with a certificate of its own\n  \
                  mendpath serve --root /srv/www --listen '[::]:443' --cert fullchain.pem --key privkey.pem\n  \
                  mendpath serve --proxy http://127.0.0.1:3000 --listen '[::]:443' --cert chain.pem --key key.pem")]
pub struct ServeArgs {
    /// Read options from the table `serve` of this file [default: the variable MENDPATH_CONFIG].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Serve the files of this directory; hidden ones (.git) are not there, but .well-known is.
    #[arg(long, value_name = "DIR", conflicts_with = "proxy")]
    pub root: Option<PathBuf>,
    /// Hand requests on to this server, with X-Forwarded-For, -Proto and -Host.
    #[arg(long, value_name = "URL", value_parser = parse_proxy)]
    pub proxy: Option<Uri>,
    /// Address to listen on with TCP and UDP; `[::]:443` takes IPv4 and IPv6.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8443", value_parser = parse_address)]
    pub listen: SocketAddr,
    /// Certificate chain in PEM, the server's own first; read again when it changes [default: one
    /// made for localhost, which browsers warn of].
    #[arg(long, value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Follow symbolic links that lead out of the directory.
    #[arg(long)]
    pub follow_symlinks: bool,
    /// Say to who opens a page, before the page, what it needs: early hints (RFC 8297), such as
    /// `</style.css>; rel=preload; as=style`; several times for several. A server behind says its own.
    #[arg(long = "hint", value_name = "LINK", value_parser = parse_hint)]
    pub hints: Vec<HeaderValue>,
    /// Append a line for each request to this file (`-` for stdout): time, client, protocol,
    /// method, path, status, bytes of the body, milliseconds.
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// Connections at a time by TCP, and as many by QUIC. One host gets half of them at most.
    #[arg(long, default_value_t = 4_096, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_connections: u32,
    /// Worker threads for HTTP/3, each with a socket and clients of its own; Linux takes each packet to
    /// its worker [default: one for each core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub workers: Option<u8>,
    /// How HTTP/3 mends what is lost: none, proactive, fuso, slp, auto. Browsers know no repair
    /// symbols, so copies do it. For clients of the library also cofuso, ctcp, streaming (with browsers
    /// cofuso is as fuso, and ctcp as none).
    #[arg(long, value_name = "SCHEME", default_value = "auto", value_parser = parse_recovery)]
    pub recovery: RecoveryKind,
    /// Congestion controller of HTTP/3: auto, cubic, newreno, ctcp, ctcp-printed, lia,
    /// olia, balia, dctcp.
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = parse_congestion)]
    pub congestion: ControllerKind,
    /// Answer requests of returning browsers by HTTP/3 before their handshake is complete: a round
    /// trip less. They may be replays, so only safe methods are answered; a server behind is told
    /// with `Early-Data: 1` (RFC 8470).
    #[arg(long)]
    pub early_data: bool,
    /// Write a trace of every HTTP/3 connection into this directory, in qlog's format.
    #[arg(long, value_name = "DIR", value_parser = parse_qlog)]
    pub qlog: Option<QlogDirectory>,
    /// Show what it does, for Prometheus (`/metrics`) and as a live page (`/`), on this loopback
    /// address.
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub admin: Option<SocketAddr>,
    /// Seconds that requests have to end when the server is to stop (SIGTERM).
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub drain_time: u64,
}

fn parse_proxy(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|_| "write a URL: http://127.0.0.1:3000".to_owned())?;
    if uri.scheme_str() != Some("http") || uri.authority().is_none() {
        return Err("write a URL that begins with http://, such as http://127.0.0.1:3000".to_owned());
    }
    let (authority, host) = (uri.authority().map_or("", |it| it.as_str()), uri.host().unwrap_or_default());
    if authority.contains('@') {
        return Err("leave the user's name and password away: requests bring their own".to_owned());
    }
    if authority != host && uri.port_u16().is_none() {
        return Err("write a port from 0 to 65535, or none".to_owned());
    }
    if uri.path_and_query().is_some_and(|path| path != "/") {
        return Err("leave the path away: that of each request is used".to_owned());
    }
    Ok(uri)
}

fn parse_hint(text: &str) -> Result<HeaderValue, String> {
    let parameters = text.strip_prefix('<').and_then(|rest| rest.split_once('>')).map(|(_, rest)| rest);
    let is_link = parameters.is_some_and(|rest| rest.trim_start().starts_with(';'));
    match HeaderValue::from_str(text) {
        Ok(link) if is_link => Ok(link),
        _ => Err("write a link: </style.css>; rel=preload; as=style".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_a_link() {
        for link in ["</style.css>; rel=preload; as=style", "<https://cdn.example> ;rel=preconnect"] {
            assert_eq!(parse_hint(link).unwrap(), link);
        }
        for other in ["/style.css", "</style.css>", "</a>; rel=preload\r\nX: 1", "", "rel=preload"] {
            assert!(parse_hint(other).is_err(), "{other}");
        }
    }

    #[test]
    fn a_server_behind_has_a_host_and_a_port_and_nothing_else() {
        for url in ["http://127.0.0.1:3000", "http://localhost/", "http://[::1]:80", "http://[::1]"] {
            assert!(parse_proxy(url).is_ok(), "{url}");
        }
        for (url, reason) in [
            ("https://localhost", "http://"),
            ("localhost:3000", "http://"),
            ("http://localhost/path", "path"),
            ("http://me:secret@localhost", "password"),
            ("http://localhost:65536", "65535"),
            ("http://[::1]:99999", "65535"),
            ("http://localhost:", "65535"),
        ] {
            let refused = parse_proxy(url).unwrap_err();
            assert!(refused.contains(reason), "{url}: {refused}");
        }
    }
}
