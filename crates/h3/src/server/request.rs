//! A request, from its fields to what becomes of it.

use std::{future::poll_fn, pin::pin, sync::Arc};

use bytes::Bytes;
use h3::{
    error::{Code, StreamError},
    ext::Protocol,
    proto::frame::Frame,
    server::RequestStream,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header::COOKIE};
use tower_service::Service;

use super::{
    books::{Books, Outcome, UnderWay},
    leaving::Left,
    pseudo,
    reception::Resolver,
    reply::{BoxError, Broken, Reply, Sending},
};
use crate::{
    BidiStream, Body, EarlyData,
    connection::Accepted,
    guard,
    malformed::{Malformed, length},
    patience::within,
    response::Beside,
};

/// A request, its stream, and whether its pseudo-header fields are as they should be.
type Resolved = (Request<()>, RequestStream<BidiStream<Bytes>, Bytes>, Result<(), Malformed>);

/// Answers a request. A service that panics resets its stream, and the next may do better.
pub(super) async fn serve_request<S, B>(resolver: Resolver, accepted: Accepted, service: S, books: Arc<Books>)
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>>,
    B: http_body::Body<Error: Into<BoxError>>,
{
    let mut under_way = UnderWay { books, outcome: Outcome::Cancelled };
    under_way.outcome = outcome_of(resolver, accepted, service, &under_way.books).await;
}

async fn outcome_of<S, B>(resolver: Resolver, accepted: Accepted, service: S, books: &Books) -> Outcome
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>>,
    B: http_body::Body<Error: Into<BoxError>>,
{
    let Accepted { mut end, beside, early } = accepted;
    let outcome = {
        let mut attempt = pin!(attempt(resolver, &beside, early, service, books));
        tokio::select! {
            biased;
            outcome = &mut attempt => outcome,
            // Nobody wants the answer any more.
            _ = &mut end => return given_up(&beside),
        }
    };
    if outcome != Outcome::Answered {
        return outcome;
    }
    match books.leaving.push(Left::new(end, beside)) {
        Ok(()) => Outcome::Leaving,
        // The connection ends, and waits for its requests.
        Err(left) => left.taken(&books.limits).await,
    }
}

/// Reads a request and hands over its response.
async fn attempt<S, B>(
    resolver: Resolver,
    beside: &Beside,
    early: bool,
    mut service: S,
    Books { limits, refused, has_interims, .. }: &Books,
) -> Outcome
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>>,
    B: http_body::Body<Error: Into<BoxError>>,
{
    let (request, stream, sound) = match within(limits.head, pin!(resolve(resolver))).await {
        Ok(Ok(resolved)) => resolved,
        Ok(Err(error)) => {
            let (outcome, status) = without_fields(&error);
            status.into_iter().for_each(refused);
            return outcome;
        }
        Err(_) => return Outcome::Cancelled,
    };
    beside.tells_of_its_end();
    let (mut send, mut recv) = stream.split();
    let bodiless = request.method() == Method::HEAD;
    let Ok(length) = sound.and_then(|()| length(request.headers())) else {
        refused(StatusCode::BAD_REQUEST);
        recv.stop_sending(Code::H3_MESSAGE_ERROR);
        send.stop_stream(Code::H3_MESSAGE_ERROR);
        return Outcome::Cancelled;
    };
    let body = Body::new(recv, length, limits.body);
    let (mut request, mut malformed) = (Some(request.map(|()| body)), None);
    if let Some(request) = &mut request {
        join_cookies(request.headers_mut());
        malformed = request.body_mut().look().await;
        if early {
            request.extensions_mut().insert(EarlyData);
        }
    }
    let (has_interims, patience) = (*has_interims, limits.send);
    let mut reply = Reply { send: &mut send, beside, bodiless, has_interims, patience };
    match reply.give(&mut service, &mut request, malformed).await {
        Ok(()) => Outcome::Answered,
        Err(broken) => break_off(reply.send, beside, broken),
    }
}

/// The request, once its fields have come, and whether they make one: `h3` says of most, and refuses
/// them, but not of pseudo-header fields that come twice or late, nor where both scheme and path are missing,
/// which only CONNECT does without (RFC 9114 sections 4.3.1 and 4.4), nor of a protocol, which only CONNECT may ask
/// for (RFC 8441 section 4).
async fn resolve(mut resolver: Resolver) -> Result<Resolved, StreamError> {
    let frame = poll_fn(|cx| resolver.frame_stream.poll_next(cx)).await;
    let sound = match &frame {
        Ok(Some(Frame::Headers(section))) => pseudo::check(section),
        _ => Ok(()),
    };
    let (request, stream) = resolver.accept_with_frame(frame)?.resolve().await?;
    let has_protocol = request.extensions().get::<Protocol>().is_some();
    let names_target = request.uri().scheme().is_some() && !has_protocol;
    let is_request = names_target || request.method() == Method::CONNECT;
    Ok((request, stream, if is_request { sound } else { Err(Malformed) }))
}

/// What has become of a request whose fields do not come, and with which status it was refused, if it was.
fn without_fields(error: &StreamError) -> (Outcome, Option<StatusCode>) {
    let too_large = Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    match error {
        StreamError::HeaderTooBig { .. } => (Outcome::Answered, too_large),
        // `h3` was not shown their frame, and does not answer.
        StreamError::Undefined(error) if error.is::<guard::Broken>() => (Outcome::Cancelled, too_large),
        StreamError::StreamError { code: Code::H3_MESSAGE_ERROR, .. } => {
            (Outcome::Cancelled, Some(StatusCode::BAD_REQUEST))
        }
        _ => (Outcome::Cancelled, None),
    }
}

/// Says that a response is not whole, to a client who still wants it, and what has become of its request.
fn break_off(send: &mut Sending, beside: &Beside, broken: Broken) -> Outcome {
    match broken {
        Broken::Client => given_up(beside),
        Broken::NotTaken => Outcome::Cancelled,
        Broken::Malformed => {
            send.stop_stream(Code::H3_MESSAGE_ERROR);
            Outcome::Cancelled
        }
        Broken::Service(error) => {
            tracing::debug!(%error, "a response broke off");
            send.stop_stream(Code::H3_INTERNAL_ERROR);
            Outcome::Answered
        }
    }
}

/// What has become of a request whose client has given it up.
fn given_up(beside: &Beside) -> Outcome {
    if beside.has_begun() { Outcome::Begun } else { Outcome::Cancelled }
}

/// Clients may send cookies one by one, and browsers do. Whoever knows nothing of HTTP/3 gets them in one field
/// (RFC 9114 section 4.2.1).
fn join_cookies(fields: &mut HeaderMap) {
    if fields.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let cookies: Vec<&[u8]> = fields.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&cookies.join(&b"; "[..])) {
        fields.insert(COOKIE, joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_before_the_service_sees_a_request_is_told_apart() {
        let too_large = Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        for (error, expected) in [
            // `h3` has answered it.
            (StreamError::HeaderTooBig { actual_size: 2, max_size: 1 }, (Outcome::Answered, too_large)),
            (
                StreamError::Undefined(guard::Broken::TooLong { length: 3, max: 2 }.into()),
                (Outcome::Cancelled, too_large),
            ),
            (
                StreamError::StreamError { code: Code::H3_MESSAGE_ERROR, reason: String::new() },
                (Outcome::Cancelled, Some(StatusCode::BAD_REQUEST)),
            ),
            (
                StreamError::StreamError { code: Code::H3_REQUEST_INCOMPLETE, reason: String::new() },
                (Outcome::Cancelled, None),
            ),
            (StreamError::Undefined("something else".into()), (Outcome::Cancelled, None)),
            (StreamError::RemoteTerminate { code: Code::H3_REQUEST_CANCELLED }, (Outcome::Cancelled, None)),
        ] {
            assert_eq!(without_fields(&error), expected, "{error:?}");
        }
    }

    #[test]
    fn cookies_that_came_one_by_one_are_one_field_in_their_order() {
        for (sent, joined) in [(&[][..], None), (&["a=1"], Some("a=1")), (&["a=1", "b=2"], Some("a=1; b=2"))]
        {
            let mut fields = HeaderMap::new();
            sent.iter().for_each(|&cookie| _ = fields.append(COOKIE, HeaderValue::from_static(cookie)));
            join_cookies(&mut fields);
            let all: Vec<_> = fields.get_all(COOKIE).iter().map(|cookie| cookie.to_str().unwrap()).collect();
            assert_eq!(all, Vec::from_iter(joined), "{sent:?}");
        }
    }
}
