//! What is known of the connection ids of one path, and how it is packed.

use super::{
    ACTIVE_CID_LIMIT,
    rows::{Row, list},
};
use crate::wire::{ConnectionId, Reader, ResetToken, TransportError, TransportErrorCode, put_varint};

/// A connection id the peer issued; we put it into packets for the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteCid {
    pub(super) sequence: u64,
    pub(super) cid: ConnectionId,
    /// What the peer's stateless reset for it bears; unknown for a client's first id.
    pub(super) token: Option<ResetToken>,
    /// Some packet may have carried it: it stays with the address that packet went to (RFC 9000
    /// section 9.5), and from then on its token counts (section 10.3.1).
    pub(super) used: bool,
}

/// The same as it is kept: its token follows from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct IssuedCid {
    pub(super) sequence: u64,
    pub(super) cid: ConnectionId,
}

#[derive(Debug, Default)]
pub(super) struct LocalPathCids {
    pub(super) issued: Vec<IssuedCid>,
    pub(super) next_sequence: u64,
    /// The peer is asked to give up those below.
    pub(super) retire_prior_to: u64,
}

#[derive(Debug, Default)]
pub(super) struct RemotePathCids {
    /// The first one is in use.
    pub(super) known: Vec<RemoteCid>,
    pub(super) retire_prior_to: u64,
    pub(super) largest_sequence: Option<u64>,
    /// Which of the latest we have given up: bit n is for the largest sequence number less n.
    pub(super) given_up: u32,
    /// Packets go to the first one.
    pub(super) in_use: bool,
}

impl LocalPathCids {
    /// How many the peer may keep.
    pub(super) fn wanted(&self) -> u64 {
        self.issued.iter().filter(|c| c.sequence >= self.retire_prior_to).count() as u64
    }
}

impl Row for LocalPathCids {
    fn pack(&self, out: &mut Vec<u8>) {
        out.push(self.issued.len() as u8);
        for issued in &self.issued {
            put_cid(out, &issued.cid);
            put_varint(out, issued.sequence);
        }
        put_varint(out, self.next_sequence);
        put_varint(out, self.retire_prior_to);
    }

    fn unpack(packed: &mut Reader<'_>) -> Option<Self> {
        let count = packed.u8().ok()?;
        let mut issued = || {
            let cid = ConnectionId::new(packed.u8_prefixed().ok()?)?;
            Some(IssuedCid { sequence: packed.varint().ok()?, cid })
        };
        let issued = list(count.into(), &mut issued)?;
        let (next_sequence, retire_prior_to) = (packed.varint().ok()?, packed.varint().ok()?);
        Some(Self { issued, next_sequence, retire_prior_to })
    }
}

impl RemoteCid {
    const HAS_TOKEN: u8 = 1 << 5;
    const USED: u8 = 1 << 6;

    fn pack(&self, out: &mut Vec<u8>) {
        let token = if self.token.is_some() { Self::HAS_TOKEN } else { 0 };
        let used = if self.used { Self::USED } else { 0 };
        out.push(self.cid.len() as u8 | token | used);
        out.extend_from_slice(&self.cid);
        put_varint(out, self.sequence);
        out.extend(self.token.iter().flat_map(|token| token.0));
    }

    fn unpack(packed: &mut Reader<'_>) -> Option<Self> {
        let flags = packed.u8().ok()?;
        let len = flags & !(Self::HAS_TOKEN | Self::USED);
        let cid = ConnectionId::new(packed.bytes(len.into()).ok()?)?;
        let sequence = packed.varint().ok()?;
        let has_token = flags & Self::HAS_TOKEN != 0;
        let token = if has_token { Some(ResetToken(packed.array().ok()?)) } else { None };
        Some(Self { sequence, cid, token, used: flags & Self::USED != 0 })
    }
}

impl RemotePathCids {
    const HAS_LARGEST: u8 = 1 << 4;
    /// The largest sequence number is that of the last one known.
    const LARGEST_IS_LAST: u8 = 1 << 5;
    const IN_USE: u8 = 1 << 6;
    const HAS_GIVEN_UP: u8 = 1 << 7;
}

impl Row for RemotePathCids {
    fn pack(&self, out: &mut Vec<u8>) {
        let last = self.known.last().map(|cid| cid.sequence);
        let largest = match self.largest_sequence {
            None => 0,
            Some(_) if self.largest_sequence == last => Self::LARGEST_IS_LAST,
            Some(_) => Self::HAS_LARGEST,
        };
        let in_use = if self.in_use { Self::IN_USE } else { 0 };
        debug_assert!(self.known.len() < usize::from(Self::HAS_LARGEST), "the peer may issue a few");
        let given_up = if self.given_up == 0 { 0 } else { Self::HAS_GIVEN_UP };
        out.push(self.known.len() as u8 | largest | in_use | given_up);
        self.known.iter().for_each(|cid| cid.pack(out));
        put_varint(out, self.retire_prior_to);
        if largest == Self::HAS_LARGEST {
            put_varint(out, self.largest_sequence.unwrap_or(0));
        }
        if self.given_up != 0 {
            put_varint(out, self.given_up.into());
        }
    }

    fn unpack(packed: &mut Reader<'_>) -> Option<Self> {
        let flags = packed.u8().ok()?;
        let known = list((flags % Self::HAS_LARGEST).into(), || RemoteCid::unpack(packed))?;
        let retire_prior_to = packed.varint().ok()?;
        let largest_sequence = match (flags & Self::HAS_LARGEST, flags & Self::LARGEST_IS_LAST) {
            (0, 0) => None,
            (0, _) => known.last().map(|cid| cid.sequence),
            _ => Some(packed.varint().ok()?),
        };
        let given_up = match flags & Self::HAS_GIVEN_UP {
            0 => 0,
            _ => u32::try_from(packed.varint().ok()?).ok()?,
        };
        let in_use = flags & Self::IN_USE != 0;
        Some(Self { known, retire_prior_to, largest_sequence, given_up, in_use })
    }
}

impl RemotePathCids {
    /// See [`CidRegistry::on_new`](super::CidRegistry::on_new).
    pub(super) fn on_new(
        &mut self,
        sequence: u64,
        retire_prior_to: u64,
        cid: ConnectionId,
        token: ResetToken,
    ) -> Result<Vec<u64>, TransportError> {
        if self.came_before(sequence, cid, token)? {
            return Ok(Vec::new());
        }
        self.retire_prior_to = self.retire_prior_to.max(retire_prior_to);
        let mut retired: Vec<u64> = Vec::new();
        let floor = self.retire_prior_to;
        let before = self.known.first().map(|c| c.cid);
        self.known.retain(|c| {
            let keep = c.sequence >= floor;
            if !keep {
                retired.push(c.sequence);
            }
            keep
        });
        let seen_before = self.largest_sequence.is_some_and(|largest| sequence <= largest);
        if sequence < floor
            || (seen_before && sequence + ACTIVE_CID_LIMIT * 4 < self.largest_sequence.unwrap_or(0))
        {
            retired.push(sequence);
        } else {
            self.known.push(RemoteCid { sequence, cid, token: Some(token), used: false });
        }
        // The one in use is gone: another takes over, best one that no packet has carried.
        if self.in_use && self.known.first().map(|c| c.cid) != before {
            let unused = self.known.iter().position(|c| !c.used).unwrap_or(0);
            self.known.swap(0, unused);
            self.known.iter_mut().take(1).for_each(|c| c.used = true);
        }
        self.note_issued(sequence);
        if self.known.len() as u64 > ACTIVE_CID_LIMIT {
            return Err(TransportError::new(
                TransportErrorCode::CONNECTION_ID_LIMIT_ERROR,
                "more connection ids than active_connection_id_limit",
            ));
        }
        Ok(retired)
    }

    /// Whether the frame comes again, which is no mistake (RFC 9000 section 19.15).
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION if it contradicts what came before.
    fn came_before(
        &self,
        sequence: u64,
        cid: ConnectionId,
        token: ResetToken,
    ) -> Result<bool, TransportError> {
        let violation = |reason| Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason));
        if self.known.first().is_some_and(|c| c.cid.is_empty()) {
            return violation("another connection id from a peer that chose an empty one");
        }
        let Some(same) = self.known.iter().find(|c| c.sequence == sequence || c.cid == cid) else {
            // The peer has been told of one that was given up.
            return Ok(self.has_given_up(sequence));
        };
        if same.sequence != sequence || same.cid != cid || same.token.is_some_and(|t| t != token) {
            return violation("a connection id was issued twice with different content");
        }
        Ok(true)
    }

    /// The peer has issued sequence numbers up to this one, if not further.
    fn note_issued(&mut self, sequence: u64) {
        let largest = self.largest_sequence.unwrap_or(sequence).max(sequence);
        let further = largest - self.largest_sequence.unwrap_or(largest);
        self.given_up = u32::try_from(further).ok().and_then(|n| self.given_up.checked_shl(n)).unwrap_or(0);
        self.largest_sequence = Some(largest);
    }

    /// Forgets one, and returns its sequence number.
    pub(super) fn give_up(&mut self, cid: &ConnectionId) -> Option<u64> {
        let at = self.known.iter().position(|c| c.cid == *cid && !c.cid.is_empty())?;
        let sequence = self.known.remove(at).sequence;
        self.given_up |= self.bit(sequence);
        Some(sequence)
    }

    fn has_given_up(&self, sequence: u64) -> bool {
        self.given_up & self.bit(sequence) != 0
    }

    /// Of a sequence number in [`given_up`](Self::given_up); none if it is new, or too old to be taken.
    fn bit(&self, sequence: u64) -> u32 {
        let behind = self.largest_sequence.and_then(|largest| largest.checked_sub(sequence));
        behind.and_then(|n| 1_u32.checked_shl(u32::try_from(n).ok()?)).unwrap_or(0)
    }
}

/// Whether a row of [`LocalPathCids`] has a connection id.
pub(super) fn has_issued(mut row: Reader<'_>, cid: &ConnectionId) -> bool {
    let count = row.u8().unwrap_or(0);
    (0..count).any(|_| {
        let found = row.u8_prefixed().is_ok_and(|issued| *issued == **cid);
        _ = row.varint();
        found
    })
}

fn put_cid(out: &mut Vec<u8>, cid: &ConnectionId) {
    out.push(cid.len() as u8);
    out.extend_from_slice(cid);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(n: u8, token: bool, used: bool) -> RemoteCid {
        let cid = ConnectionId::new(&vec![n; usize::from(n) % 21]).unwrap();
        let token = token.then_some(ResetToken([n; 16]));
        RemoteCid { sequence: u64::from(n) << 40, cid, token, used }
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let known = vec![remote(20, true, true), remote(0, false, true), remote(8, true, false)];
        let last = known.last().map(|cid| cid.sequence);
        for largest_sequence in [None, last, Some(7)] {
            for (in_use, given_up) in [(true, 0), (false, 1 << 31)] {
                let known = known.clone();
                let cids = RemotePathCids { known, retire_prior_to: 3, largest_sequence, given_up, in_use };
                let mut packed = Vec::new();
                cids.pack(&mut packed);
                let unpacked = RemotePathCids::unpack(&mut Reader::new(&packed)).unwrap();
                assert_eq!(format!("{unpacked:?}"), format!("{cids:?}"));
                assert!(RemotePathCids::unpack(&mut Reader::new(&packed[..packed.len() - 1])).is_none());
            }
        }
    }

    #[test]
    fn an_issued_one_is_found_where_it_lies() {
        let cid = |n: u8| ConnectionId::new(&[n; 8]).unwrap();
        let issued = (0..3).map(|n| IssuedCid { sequence: n.into(), cid: cid(n) }).collect();
        let cids = LocalPathCids { issued, next_sequence: 3, retire_prior_to: 1 };
        let mut packed = Vec::new();
        cids.pack(&mut packed);
        let found = [0, 2, 3].map(|n| has_issued(Reader::new(&packed), &cid(n)));
        assert_eq!(found, [true, true, false]);
        let unpacked = LocalPathCids::unpack(&mut Reader::new(&packed)).unwrap();
        assert_eq!(format!("{unpacked:?}"), format!("{cids:?}"));
    }
}
