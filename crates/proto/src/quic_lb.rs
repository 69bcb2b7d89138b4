//! Connection ids that load balancers can read: QUIC-LB (draft-ietf-quic-load-balancers-21).
//!
//! A balancer in front of several servers sees packets of one connection come from several
//! addresses: of its paths, and after a migration. It finds the server all the same if each
//! connection id that the server issues holds the server's id:
//!
//! ```text
//! First Octet (8)        3 bits: the configuration; 5 bits: the length of the rest, or random
//! Server ID (8..120)
//! Nonce (32..144)
//! ```
//!
//! With a key, everything after the first octet is encrypted, so that nobody but the balancers can
//! tell which server a connection id leads to, nor that two of them lead to the same: as one block
//! of AES if it has 16 bytes, else by a Feistel network of four rounds (section 5.4).
//!
//! # Departures
//! - Nonces are a counter that has gone through a permutation of our own, with or without a key:
//!   they never repeat while the endpoint lives, and follow no pattern that could be observed.
//! - An endpoint has one configuration for all its life. A new one, with other rotation bits, comes
//!   with a new process while the old one drains.

use core::fmt;

use aes::{
    Aes128,
    cipher::{BlockDecrypt as _, BlockEncrypt as _, KeyInit as _, generic_array::GenericArray},
};

use crate::wire::ConnectionId;

/// The longest server id and nonce together: a connection id has 20 bytes in QUIC version 1.
const MAX_PLAINTEXT: usize = ConnectionId::MAX_LEN - 1;
const BLOCK: usize = 16;
/// The length that is encrypted as one block.
const SINGLE_PASS: usize = BLOCK;

/// A configuration of QUIC-LB, as a server has it.
#[derive(Clone)]
pub struct QuicLb {
    rotation: u8,
    server_id: Bytes,
    nonce_len: usize,
    cipher: Option<Aes128>,
    encodes_length: bool,
}

/// A configuration that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuicLbError {
    /// The configuration's number is none from 0 to 6 (section 3.1).
    #[error("the configuration's number is {0}: it is from 0 to 6")]
    Rotation(u8),
    /// The server id is empty or too long.
    #[error("the server id has {0} bytes: it has 1 to 15")]
    ServerId(usize),
    /// The nonce is too short, or too long beside the server id.
    #[error(
        "the nonce has {nonce} bytes: it has at least 4, and at most 19 together with the server id's {server_id}"
    )]
    Nonce {
        /// Bytes of the nonce.
        nonce: usize,
        /// Bytes of the server id.
        server_id: usize,
    },
}

impl QuicLb {
    /// Bytes of a key (AES-128).
    pub const KEY_LEN: usize = 16;
    /// The most bytes that a server id has.
    pub const MAX_SERVER_ID: usize = 15;

    /// The configuration number `rotation` (0 to 6), for the server `server_id` (1 to 15 bytes),
    /// with nonces of `nonce_len` bytes (at least 4, and with the server id at most 19). All
    /// servers behind one balancer have different ids, and all else in common.
    ///
    /// Without [`with_key`](Self::with_key), everybody who sees packets can tell which server they
    /// are for, and that two paths lead to the same.
    ///
    /// # Errors
    /// What cannot be.
    pub fn new(rotation: u8, server_id: &[u8], nonce_len: usize) -> Result<Self, QuicLbError> {
        if rotation > 6 {
            return Err(QuicLbError::Rotation(rotation));
        }
        if !(1..=Self::MAX_SERVER_ID).contains(&server_id.len()) {
            return Err(QuicLbError::ServerId(server_id.len()));
        }
        if nonce_len < 4 || server_id.len() + nonce_len > MAX_PLAINTEXT {
            return Err(QuicLbError::Nonce { nonce: nonce_len, server_id: server_id.len() });
        }
        let server_id = Bytes::new(server_id);
        Ok(Self { rotation, server_id, nonce_len, cipher: None, encodes_length: true })
    }

    /// Encrypts connection ids with this key, which the balancers have, too.
    #[must_use]
    pub fn with_key(mut self, key: &[u8; Self::KEY_LEN]) -> Self {
        self.cipher = Some(cipher(key));
        self
    }

    /// Whether the first octet tells the length of connection ids, which some network hardware
    /// wants; else these bits are random. It does unless told otherwise.
    #[must_use]
    pub fn encode_length(mut self, encode: bool) -> Self {
        self.encodes_length = encode;
        self
    }

    /// Bytes of a connection id: 6 to 20.
    pub fn cid_len(&self) -> usize {
        1 + self.plaintext_len()
    }

    /// Bytes of a nonce.
    pub fn nonce_len(&self) -> usize {
        self.nonce_len
    }

    /// The connection id with this nonce; `random` fills the first octet where it does not tell the
    /// length.
    ///
    /// # Panics
    /// If the nonce has another length than [`nonce_len`](Self::nonce_len).
    pub fn encode(&self, nonce: &[u8], random: u8) -> ConnectionId {
        assert_eq!(nonce.len(), self.nonce_len, "the configuration's length");
        let len = self.plaintext_len();
        let low = if self.encodes_length { len as u8 } else { random & 0x1f };
        let mut id = [0; ConnectionId::MAX_LEN];
        id[0] = self.rotation << 5 | low;
        let plaintext = &mut id[1..=len];
        let (server_id, rest) = plaintext.split_at_mut(self.server_id.len());
        server_id.copy_from_slice(&self.server_id);
        rest.copy_from_slice(nonce);
        match &self.cipher {
            Some(cipher) if len == SINGLE_PASS => encrypt_block(cipher, plaintext),
            Some(cipher) => feistel(cipher, plaintext, Direction::Encrypt),
            None => {}
        }
        ConnectionId::new(&id[..=len]).expect("at most 20 bytes")
    }

    /// The id of the server that a connection id leads to, which need not exist. `None` if it is of
    /// another configuration or too short. What comes after the nonce does not matter.
    pub fn server_id(&self, cid: &[u8]) -> Option<ServerId> {
        let (first, rest) = cid.split_first()?;
        if first >> 5 != self.rotation {
            return None;
        }
        let mut plaintext = Bytes::new(rest.get(..self.plaintext_len())?);
        match &self.cipher {
            Some(cipher) if plaintext.len() == SINGLE_PASS => decrypt_block(cipher, &mut plaintext),
            Some(cipher) => feistel(cipher, &mut plaintext, Direction::Decrypt),
            None => {}
        }
        Some(ServerId(Bytes::new(&plaintext[..self.server_id.len()])))
    }

    /// Whether a connection id leads to this server.
    pub fn is_ours(&self, cid: &[u8]) -> bool {
        self.server_id(cid).is_some_and(|found| *found.0 == *self.server_id)
    }

    fn plaintext_len(&self) -> usize {
        self.server_id.len() + self.nonce_len
    }
}

impl fmt::Debug for QuicLb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicLb")
            .field("rotation", &self.rotation)
            .field("server_id", &ServerId(self.server_id))
            .field("nonce_len", &self.nonce_len)
            .field("encrypted", &self.cipher.is_some())
            .finish_non_exhaustive()
    }
}

/// The id of a server behind a balancer: 1 to 15 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(Bytes);

impl core::ops::Deref for ServerId {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Few bytes, inline; zero beyond `len`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Bytes {
    bytes: [u8; MAX_PLAINTEXT],
    len: u8,
}

impl Bytes {
    fn new(from: &[u8]) -> Self {
        let mut bytes = [0; MAX_PLAINTEXT];
        bytes[..from.len()].copy_from_slice(from);
        Self { bytes, len: from.len() as u8 }
    }
}

impl core::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl core::ops::DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..usize::from(self.len)]
    }
}

pub(crate) fn cipher(key: &[u8; QuicLb::KEY_LEN]) -> Aes128 {
    Aes128::new(GenericArray::from_slice(key))
}

fn encrypt_block(cipher: &Aes128, block: &mut [u8]) {
    cipher.encrypt_block(GenericArray::from_mut_slice(block));
}

fn decrypt_block(cipher: &Aes128, block: &mut [u8]) {
    cipher.decrypt_block(GenericArray::from_mut_slice(block));
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Encrypt,
    Decrypt,
}

/// The four passes of section 5.4.2, forwards or backwards; 2 to 19 bytes.
fn feistel(cipher: &Aes128, text: &mut [u8], direction: Direction) {
    let (len, half) = (text.len(), text.len().div_ceil(2));
    let odd = len % 2 == 1;
    let (mut left, mut right) = (Half::new(&text[..half]), Half::new(&text[len - half..]));
    if odd {
        // The byte in the middle belongs to both, four bits to each.
        left.clear_last_bits();
        right.clear_first_bits();
    }
    let passes = match direction {
        Direction::Encrypt => [1, 2, 3, 4],
        Direction::Decrypt => [4, 3, 2, 1],
    };
    for pass in passes {
        if pass % 2 == 1 {
            right.mix(cipher, &left, len as u8, pass);
            if odd {
                right.clear_first_bits();
            }
        } else {
            left.mix(cipher, &right, len as u8, pass);
            if odd {
                left.clear_last_bits();
            }
        }
    }
    text[..half].copy_from_slice(&left.bytes[..half]);
    if odd {
        text[half - 1] |= right.bytes[0];
        text[half..].copy_from_slice(&right.bytes[1..half]);
    } else {
        text[half..].copy_from_slice(&right.bytes[..half]);
    }
}

/// One half of a text; zero beyond `len`.
struct Half {
    bytes: [u8; BLOCK],
    len: usize,
}

impl Half {
    fn new(from: &[u8]) -> Self {
        let mut bytes = [0; BLOCK];
        bytes[..from.len()].copy_from_slice(from);
        Self { bytes, len: from.len() }
    }

    /// `expand`, AES, `truncate` and XOR of the draft.
    fn mix(&mut self, cipher: &Aes128, other: &Self, text_len: u8, pass: u8) {
        let mut expanded = other.bytes;
        [expanded[BLOCK - 2], expanded[BLOCK - 1]] = [text_len, pass];
        encrypt_block(cipher, &mut expanded);
        self.bytes.iter_mut().zip(expanded).take(self.len).for_each(|(byte, mask)| *byte ^= mask);
    }

    fn clear_first_bits(&mut self) {
        self.bytes[0] &= 0x0f;
    }

    fn clear_last_bits(&mut self) {
        self.bytes[self.len - 1] &= 0xf0;
    }
}

/// Nonces that never repeat and follow no pattern: a counter behind a permutation that only this
/// endpoint knows.
#[derive(Clone)]
pub(crate) struct Nonces {
    permutation: Aes128,
    next: u64,
}

impl Nonces {
    pub(crate) fn new(key: &[u8; QuicLb::KEY_LEN]) -> Self {
        Self { permutation: cipher(key), next: 0 }
    }

    /// The next nonce: after 2^32 of four bytes they begin anew, when connections of the first are
    /// long gone.
    pub(crate) fn fill(&mut self, nonce: &mut [u8]) {
        let counter = self.next.to_be_bytes();
        self.next = self.next.wrapping_add(1);
        let n = nonce.len().min(counter.len());
        nonce.fill(0);
        let at = nonce.len() - n;
        nonce[at..].copy_from_slice(&counter[counter.len() - n..]);
        feistel(&self.permutation, nonce, Direction::Encrypt);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        assert_eq!(text.len() % 2, 0, "whole bytes: {text}");
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    const KEY: &str = "8f95f09245765f80256934e50c66207f";

    /// Appendix B of the draft. Its rotation bits are those of the connection ids: of the last one
    /// the table's column says 3, and its first octet 0.
    #[test]
    fn the_drafts_encrypted_vectors() {
        let key = hex(KEY).try_into().unwrap();
        for (rotation, server_id, nonce, cid) in [
            (0, "ed793a", "ee080dbf", "0720b1d07b359d3c"),
            (1, "ed793a51d49b8f5fab65", "ee080dbf48", "2fcc381bc74cb4fbad2823a3d1f8fed2"),
            (2, "ed793a51d49b8f5f", "ee080dbf48c0d1e5", "504dd2d05a7b0de9b2b9907afb5ecf8cc3"),
            (0, "ed793a51d49b8f5fab", "ee080dbf48c0d1e55d", "125779c9cc86beb3a3a4a3ca96fce4bfe0cdbc"),
        ] {
            let (server_id, nonce) = (hex(server_id), hex(nonce));
            let config = QuicLb::new(rotation, &server_id, nonce.len()).unwrap().with_key(&key);
            assert_eq!(config.encode(&nonce, 0).to_vec(), hex(cid), "{cid}");
            assert_eq!(*config.server_id(&hex(cid)).unwrap(), *server_id, "{cid}");
        }
    }

    /// The second one of the appendix has a nonce of nine digits and a connection id that is not
    /// made of its parts: with a zero before the nonce, and in its place, it is.
    #[test]
    fn the_drafts_plain_vectors() {
        for (rotation, server_id, nonce, cid) in [
            (0, "c4605e", "4504cc4f", "07c4605e4504cc4f"),
            (1, "350d28b420", "03487d970b", "2a350d28b42003487d970b"),
        ] {
            let (server_id, nonce) = (hex(server_id), hex(nonce));
            let config = QuicLb::new(rotation, &server_id, nonce.len()).unwrap();
            assert_eq!(config.encode(&nonce, 0).to_vec(), hex(cid), "{cid}");
            assert!(config.is_ours(&hex(cid)), "{cid}");
        }
    }

    /// Section 5.4.2.2: `expand(0x06, 0x02, 0xaaba3c)`.
    #[test]
    fn a_round_encrypts_what_the_draft_says() {
        let key = hex(KEY).try_into().unwrap();
        let mut expected = hex("aaba3c00000000000000000000000602");
        encrypt_block(&cipher(&key), &mut expected);
        let mut half = Half::new(&[0; 3]);
        half.mix(&cipher(&key), &Half::new(&hex("aaba3c")), 6, 2);
        assert_eq!(half.bytes[..3], expected[..3]);
    }

    /// Katran takes the first two bits for a version, and the server's id from after the first
    /// octet: of three bytes in version 2, of four in version 3.
    #[test]
    fn katran_finds_the_id_where_it_looks() {
        for (rotation, id) in [(4, &[1, 2, 3][..]), (5, &[1, 2, 3]), (6, &[1, 2, 3, 4])] {
            let cid = QuicLb::new(rotation, id, 8).unwrap().encode(&[9; 8], 0xff);
            let version = cid[0] >> 6;
            assert_eq!((version, &cid[1..=usize::from(version) + 1]), (id.len() as u8 - 1, id));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let error = |rotation, server_id: usize, nonce| {
            QuicLb::new(rotation, &vec![1; server_id], nonce).unwrap_err()
        };
        assert_eq!(error(7, 1, 8), QuicLbError::Rotation(7), "reserved for servers without one");
        assert_eq!(error(0, 0, 8), QuicLbError::ServerId(0));
        assert_eq!(error(0, 16, 4), QuicLbError::ServerId(16));
        assert_eq!(error(0, 1, 3), QuicLbError::Nonce { nonce: 3, server_id: 1 });
        assert_eq!(error(0, 15, 5), QuicLbError::Nonce { nonce: 5, server_id: 15 });
    }

    #[test]
    fn ids_of_others_are_told_apart() {
        let key = hex(KEY).try_into().unwrap();
        let of = |server_id: &[u8]| QuicLb::new(0, server_id, 6).unwrap().with_key(&key);
        let (ours, theirs) = (of(&[0, 1]), of(&[0, 2]));
        let cid = theirs.encode(&[9; 6], 0);
        assert!(!ours.is_ours(&cid) && theirs.is_ours(&cid));
        assert_eq!(*ours.server_id(&cid).unwrap(), [0, 2]);
        assert_eq!(ours.server_id(&cid[..8]), None, "too short");
        assert_eq!(QuicLb::new(1, &[0, 1], 6).unwrap().server_id(&cid), None, "another configuration");
        assert_eq!(ours.server_id(&[]), None);
        assert!(!format!("{ours:?}").contains("8f95"), "no key in a log");
    }

    #[test]
    fn nonces_do_not_repeat_and_do_not_count() {
        for len in [4, 5, 8, 9, 18] {
            let mut nonces = Nonces::new(&[3; 16]);
            let mut next = || {
                let mut nonce = vec![0; len];
                nonces.fill(&mut nonce);
                nonce
            };
            let first: Vec<_> = (0..1_000).map(|_| next()).collect();
            assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), first.len());
            let starts: BTreeSet<_> = first.iter().map(|nonce| nonce[0]).collect();
            assert!(starts.len() > 200, "{len}: {}", starts.len());
        }
    }

    proptest! {
        #[test]
        fn every_form_reads_back(
            rotation in 0u8..7, server_id in prop::collection::vec(any::<u8>(), 1..16),
            nonce in prop::collection::vec(any::<u8>(), 4..19), key: Option<[u8; 16]>, random: u8, length: bool,
        ) {
            prop_assume!(server_id.len() + nonce.len() <= MAX_PLAINTEXT);
            let mut config = QuicLb::new(rotation, &server_id, nonce.len()).unwrap().encode_length(length);
            if let Some(key) = &key {
                config = config.with_key(key);
            }
            let cid = config.encode(&nonce, random);
            prop_assert_eq!(cid.len(), config.cid_len());
            prop_assert_eq!(cid[0] >> 5, rotation);
            prop_assert_eq!(cid[0] & 0x1f, if length { cid.len() as u8 - 1 } else { random & 0x1f });
            prop_assert_eq!(&*config.server_id(&cid).unwrap(), &*server_id);
            let longer = [&cid, &b"more"[..]].concat();
            prop_assert!(config.is_ours(&longer));
        }

        #[test]
        fn any_bytes_are_read_or_not(bytes in prop::collection::vec(any::<u8>(), 0..40), key: [u8; 16]) {
            for (id, nonce) in [(1, 4), (8, 8), (15, 4), (1, 18)] {
                let config = QuicLb::new(3, &vec![0; id], nonce).unwrap().with_key(&key);
                let found = config.server_id(&bytes);
                prop_assert_eq!(found.is_some(), bytes.len() > id + nonce && bytes[0] >> 5 == 3);
            }
        }
    }
}
