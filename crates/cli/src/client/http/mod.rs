//! The HTTP front end: CONNECT (RFC 9110 section 9.3.6), and plain `http://` requests one at a time.

mod head;

use std::{io, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mendpath::{RecvStream, SendStream};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tracing::debug;

use self::head::{Head, HeadError, Wanted};
use super::{Credentials, HANDSHAKE_TIMEOUT, IDLE_TIMEOUT, Shared, tunnel};
use crate::{protocol::Reply, splice::splice_tcp};

/// The longest head of a request, in bytes.
const MAX_HEAD: usize = 16 * 1024;

/// Serves one connection to the proxy.
pub(crate) async fn serve(mut tcp: TcpStream, shared: Arc<Shared>) {
    let heard = tokio::time::timeout(HANDSHAKE_TIMEOUT, read_head(&mut tcp)).await;
    let (head, rest) = match heard {
        Ok(Ok(heard)) => heard,
        Ok(Err(Unheard::Head(error))) => {
            let (code, reason) = error.status();
            return respond(&mut tcp, code, reason, "", &error.to_string()).await;
        }
        Ok(Err(Unheard::Gone)) => return,
        Err(_) => {
            return respond(&mut tcp, 408, "Request Timeout", "", "The request did not arrive in time.")
                .await;
        }
    };
    if !shared.credentials.as_ref().is_none_or(|credentials| is_authorized(&head, credentials)) {
        let challenge = "Proxy-Authenticate: Basic realm=\"mendpath\"\r\n";
        let text = "This proxy wants the user and password given with --proxy-auth.";
        return respond(&mut tcp, 407, "Proxy Authentication Required", challenge, text).await;
    }
    if let Err(error) = carry(tcp, head, rest, &shared).await {
        debug!(%error, "HTTP connection failed");
    }
}

async fn carry(mut tcp: TcpStream, head: Head, rest: Vec<u8>, shared: &Shared) -> io::Result<()> {
    let (target, is_tunnel) = (head.target.clone(), head.wanted == Wanted::Tunnel);
    let (receive, send) = match open(head, &rest, shared).await {
        Ok(stream) => stream,
        Err(reply) => {
            let (code, reason) = reply.status.http();
            respond(&mut tcp, code, reason, "", &reply.text).await;
            return Ok(());
        }
    };
    if is_tunnel {
        tcp.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    }
    let summary = splice_tcp(tcp, (receive, send), IDLE_TIMEOUT).await;
    debug!(%target, ?summary, "connection ended");
    Ok(())
}

/// Opens a stream that leads to where the request wants to go. A plain request goes out with it, and need not wait for the answer.
async fn open(head: Head, rest: &[u8], shared: &Shared) -> Result<(RecvStream, SendStream), Reply> {
    let (mut send, asked) = tunnel::ask(&shared.uplink, head.target).await?;
    let first = match head.wanted {
        Wanted::Tunnel => Vec::new(),
        Wanted::Forward { rewritten } => rewritten,
    };
    for bytes in [first.as_slice(), rest] {
        // If the server takes no more, its answer says why.
        let _ = send.write_all(bytes).await;
    }
    Ok((asked.granted().await?, send))
}

enum Unheard {
    /// It was no request that can be served.
    Head(HeadError),
    /// The program has closed its connection.
    Gone,
}

/// The head of the request, and what has arrived after it.
async fn read_head(tcp: &mut (impl AsyncRead + Unpin)) -> Result<(Head, Vec<u8>), Unheard> {
    let mut buffer = Vec::with_capacity(2_048);
    loop {
        let read = tcp.read_buf(&mut buffer).await.map_err(|_| Unheard::Gone)?;
        if read == 0 {
            return Err(Unheard::Gone);
        }
        if let Some((head, length)) = Head::parse(&buffer).map_err(Unheard::Head)? {
            return Ok((head, buffer.split_off(length)));
        }
        if buffer.len() >= MAX_HEAD {
            return Err(Unheard::Head(HeadError::TooLong));
        }
    }
}

/// The first half of [`serve`], for fuzz targets.
#[cfg(feature = "fuzzing")]
pub(super) async fn understand(
    stream: &mut (impl AsyncRead + Unpin),
    credentials: &Credentials,
) -> Result<super::fuzzing::HttpRequest, Option<u16>> {
    let (head, rest) = read_head(stream).await.map_err(|error| match error {
        Unheard::Head(error) => Some(error.status().0),
        Unheard::Gone => None,
    })?;
    let authorized = is_authorized(&head, credentials);
    let rewritten = match head.wanted {
        Wanted::Tunnel => None,
        Wanted::Forward { rewritten } => Some(rewritten),
    };
    Ok(super::fuzzing::HttpRequest { target: head.target, rewritten, authorized, rest })
}

fn is_authorized(head: &Head, credentials: &Credentials) -> bool {
    let decoded = head.authorization.as_deref().and_then(|value| {
        let (scheme, encoded) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(encoded.trim()).ok()).flatten()
    });
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    text.as_deref()
        .and_then(|pair| pair.split_once(':'))
        .is_some_and(|(user, password)| credentials.match_pair(user, password))
}

/// Answers with words of our own, and closes.
async fn respond(tcp: &mut TcpStream, code: u16, reason: &str, headers: &str, text: &str) {
    let body = format!("mendpath: {text}\n");
    let response = format!(
        "HTTP/1.1 {code} {reason}\r\n{headers}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = tcp.write_all(response.as_bytes()).await;
    let _ = tcp.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_authentication() {
        let credentials: Credentials = "alice:open sesame".parse().unwrap();
        let head = |value: &str| {
            let request = format!("CONNECT a.example:443 HTTP/1.1\r\nProxy-Authorization: {value}\r\n\r\n");
            Head::parse(request.as_bytes()).unwrap().unwrap().0
        };
        let encoded = STANDARD.encode("alice:open sesame");
        assert!(is_authorized(&head(&format!("Basic {encoded}")), &credentials));
        assert!(is_authorized(&head(&format!("basic  {encoded}")), &credentials));
        assert!(!is_authorized(&head(&format!("Bearer {encoded}")), &credentials));
        assert!(!is_authorized(&head("Basic !!!"), &credentials));
        assert!(!is_authorized(&head("Basic"), &credentials));
    }
}
