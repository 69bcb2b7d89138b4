//! Stateless resets (RFC 9000 section 10.3): telling a peer that its connection is gone, for
//! instance because we were restarted.

use rand_chacha::rand_core::RngCore;
use ring::hmac;

use crate::{cids, wire::ConnectionId};

/// Packets up to this size get no reset: it would have to be smaller still, and then shows what it
/// is (section 10.3.3).
const LARGEST_UNANSWERED: usize = 42;
/// A reset is up to this much longer than need be, so that its size tells nothing.
const MAX_EXTRA: usize = 32;
/// Tokens are at the end.
const TOKEN_LEN: usize = 16;

/// Writes a reset for a packet of `trigger` bytes to `dcid`: it looks like a packet with a short
/// header and is always smaller than what it answers, so that two endpoints that know nothing of
/// each other fall silent. False if such a packet gets none.
pub(super) fn write(
    rng: &mut impl RngCore,
    key: &hmac::Key,
    dcid: &ConnectionId,
    trigger: usize,
    out: &mut Vec<u8>,
) -> bool {
    if trigger <= LARGEST_UNANSWERED {
        return false;
    }
    let most = trigger - 1;
    let extra = (most - LARGEST_UNANSWERED).min(MAX_EXTRA);
    let size = LARGEST_UNANSWERED + rng.next_u32() as usize % (extra + 1);
    out.clear();
    out.resize(size - TOKEN_LEN, 0);
    rng.fill_bytes(out);
    // A short header with the fixed bit; all else is random.
    out[0] = 0x40 | out[0] & 0x3f;
    out.extend_from_slice(&cids::reset_token(key, dcid).0);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::{ChaCha12Rng, rand_core::SeedableRng as _};

    #[test]
    fn smaller_than_its_trigger_and_like_any_short_packet() {
        let mut rng = ChaCha12Rng::from_seed([1; 32]);
        let key = hmac::Key::new(hmac::HMAC_SHA256, &[2; 32]);
        let dcid = ConnectionId::new(&[3; 8]).unwrap();
        let mut out = Vec::new();
        for trigger in 0..1_500 {
            if !write(&mut rng, &key, &dcid, trigger, &mut out) {
                assert!(trigger <= 42);
                continue;
            }
            assert!(out.len() < trigger && out.len() >= 42 && out.len() <= 74, "{} for {trigger}", out.len());
            assert_eq!(out[0] & 0xc0, 0x40);
            assert_eq!(out[out.len() - 16..], cids::reset_token(&key, &dcid).0);
        }
    }

    #[test]
    fn two_endpoints_that_reset_each_other_fall_silent() {
        let mut rng = ChaCha12Rng::from_seed([1; 32]);
        let key = hmac::Key::new(hmac::HMAC_SHA256, &[2; 32]);
        let dcid = ConnectionId::new(&[3; 8]).unwrap();
        let (mut out, mut size, mut answers) = (Vec::new(), 1_452, 0);
        while write(&mut rng, &key, &dcid, size, &mut out) {
            (size, answers) = (out.len(), answers + 1);
        }
        assert!(answers <= 33, "{answers}");
    }
}
