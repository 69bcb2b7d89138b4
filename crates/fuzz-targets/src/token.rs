//! Address validation tokens: only what was sealed opens, and only where, when and for what it was
//! meant.

use std::net::SocketAddr;

use proto::{ConnectionId, fuzzing::Tokens};
use units::{Duration, Instant};

use crate::input::Input;

/// What a token is good for.
#[derive(Clone, Debug, PartialEq)]
struct Meant {
    remote: SocketAddr,
    destination: ConnectionId,
}

/// Any script.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let tokens = Tokens::default();
    while !input.is_empty() {
        let (meant, original) = (meant(&mut input), id(&mut input));
        let issued = Instant::from_nanos(input.number());
        let retry = input.flag();
        let nonce = [input.u8(); 12];
        let token =
            tokens.seal(issued, nonce, meant.remote, retry.then_some((&original, &meant.destination)));
        let shown = changed(&token, &mut input);
        let now = issued + Duration::from_millis(input.number());
        let at = if input.flag() { meant.clone() } else { self::meant(&mut input) };
        let age = now - issued;

        let opened = tokens.open_retry(now, &shown, at.remote, &at.destination);
        let good = retry && shown == token && at == meant && age <= Duration::from_secs(15);
        assert_eq!(opened, good.then_some(original), "a Retry token");
        let good = !retry
            && shown == token
            && at.remote.ip() == meant.remote.ip()
            && age <= Duration::from_secs(24 * 3_600);
        assert_eq!(tokens.open_new_token(now, &shown, at.remote), good, "a token of NEW_TOKEN");
    }
}

fn meant(input: &mut Input<'_>) -> Meant {
    let (ip, port) = (input.u8(), u16::from(input.u8()));
    let remote = match ip & 1 {
        0 => SocketAddr::from(([192, 0, 2, ip], port)),
        _ => SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(ip)], port)),
    };
    Meant { remote, destination: id(input) }
}

fn id(input: &mut Input<'_>) -> ConnectionId {
    let byte = input.u8();
    ConnectionId::new(&[byte; 20][..input.below(21)]).expect("at most 20 bytes")
}

/// The token, or something else.
fn changed(token: &[u8], input: &mut Input<'_>) -> Vec<u8> {
    let mut shown = token.to_vec();
    match input.below(5) {
        0 => {
            let at = input.below(shown.len());
            shown[at] ^= input.u8();
        }
        1 => shown.truncate(input.below(shown.len())),
        2 => shown.extend_from_slice(input.bytes(1 + input.clone().below(40))),
        3 => shown = input.bytes(input.clone().below(90)).to_vec(),
        _ => {}
    }
    shown
}
