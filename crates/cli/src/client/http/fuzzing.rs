//! The front end without origin servers, for fuzz targets.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http_body_util::BodyExt as _;
use hyper::{Method, Request, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    Answer, builder, closing,
    forward::rewrite,
    guard::Guard,
    head::{Framing, Wanted},
    is_authorized,
    visit::Visit,
    words,
};
use crate::client::{Credentials, fuzzing::HttpRequest};

type Understood = Arc<Mutex<Vec<Result<HttpRequest, u16>>>>;

/// Reads requests until the connection ends, and answers each with a few words.
pub(in crate::client) async fn understand(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    credentials: Credentials,
) -> Vec<Result<HttpRequest, u16>> {
    let (visit, understood) = (Visit::new(None), Understood::default());
    let guard = TokioIo::new(Guard::new(stream, visit.clone()));
    let service = {
        let (understood, credentials) = (understood.clone(), Arc::new(credentials));
        service_fn(move |request| {
            let (visit, understood, credentials) = (visit.clone(), understood.clone(), credentials.clone());
            async move { Ok::<_, Infallible>(answer(&visit, request, &credentials, &understood).await) }
        })
    };
    // How a connection ends is for the program to see.
    let _ = builder().serve_connection(guard, service).with_upgrades().await;
    let mut understood = understood.lock().expect("nobody panicked");
    std::mem::take(&mut *understood)
}

async fn answer(
    visit: &Arc<Visit>,
    request: Request<Incoming>,
    credentials: &Credentials,
    understood: &Understood,
) -> Answer {
    let (ruling, turn) = visit.begin().expect("hyper read a request that was not judged");
    let note = |request| understood.lock().expect("nobody panicked").push(request);
    let (head, early) = match ruling {
        Ok(ruling) => ruling,
        Err(error) => {
            note(Err(error.status()));
            return closing(words(error.status(), "", Some(turn)));
        }
    };
    assert_eq!(head.uri, *request.uri(), "hyper read another target");
    assert_eq!(
        head.wanted == Wanted::Tunnel,
        request.method() == Method::CONNECT,
        "hyper read another method"
    );
    let (parts, body) = request.into_parts();
    let body = body.collect().await.ok().map(|body| body.to_bytes().to_vec());
    if let (Framing::Length(length), Some(body)) = (head.body, &body) {
        assert_eq!(body.len() as u64, length, "hyper read another body");
    }
    let rewritten = match head.wanted.clone() {
        Wanted::Tunnel => None,
        Wanted::Forward(path) => rewrite(&head, path, parts).ok().map(|outgoing| {
            let parts = outgoing.parts;
            let mut text = format!("{} {} HTTP/1.1\r\n", parts.method, parts.uri).into_bytes();
            for (name, value) in &parts.headers {
                text.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
            }
            [text, b"\r\n".to_vec()].concat()
        }),
    };
    let authorized = is_authorized(&head, credentials);
    let is_tunnel = head.wanted == Wanted::Tunnel;
    let body = if is_tunnel { Some(early.to_vec()) } else { body };
    note(Ok(HttpRequest { target: head.target, rewritten, authorized, body }));
    let answer = words(200, "", Some(turn));
    if is_tunnel { closing(answer) } else { answer }
}
