//! Codes of 32 bits as QUIC carries them.

use mendpath::VarInt;

/// H3_NO_ERROR (RFC 9114 section 8.1).
#[cfg(feature = "http3")]
pub(crate) const NO_ERROR: VarInt = VarInt::from_u32(0x100);

/// How the codes of a session's streams, and that of its end, are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codes {
    /// As they are.
    Raw,
    /// In the range that HTTP/3 sets aside for WebTransport (draft-ietf-webtrans-http3 section
    /// 4.4).
    #[cfg(feature = "http3")]
    Http3,
}

impl Codes {
    pub(crate) fn encode(self, code: u32) -> VarInt {
        match self {
            Self::Raw => VarInt::from_u32(code),
            #[cfg(feature = "http3")]
            Self::Http3 => VarInt::saturating(web_transport_proto::error_to_http3(code)),
        }
    }

    /// `None` for what no session of this kind sends.
    pub(crate) fn decode(self, code: VarInt) -> Option<u32> {
        match self {
            Self::Raw => u32::try_from(code.into_inner()).ok(),
            #[cfg(feature = "http3")]
            Self::Http3 => web_transport_proto::error_from_http3(code.into_inner()),
        }
    }

    /// The same of the code that a connection was closed with. Over HTTP/3, one closed without an
    /// error, or with the last handle, ends its session as code 0 does.
    pub(crate) fn decode_end(self, code: VarInt) -> Option<u32> {
        #[cfg(feature = "http3")]
        if self == Self::Http3 && [0, NO_ERROR.into_inner()].contains(&code.into_inner()) {
            return Some(0);
        }
        self.decode(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 4.4 of the draft: every thirty-first code of the range is reserved.
    #[test]
    fn codes_come_back_as_they_were() {
        for code in [0, 1, 29, 30, 31, 255, 0x7fff_ffff, u32::MAX] {
            assert_eq!(Codes::Raw.decode(Codes::Raw.encode(code)), Some(code));
            #[cfg(feature = "http3")]
            assert_eq!(Codes::Http3.decode(Codes::Http3.encode(code)), Some(code));
        }
        assert_eq!(Codes::Raw.decode(VarInt::saturating(1 << 32)), None);
        #[cfg(feature = "http3")]
        {
            assert_eq!(Codes::Http3.encode(0), VarInt::saturating(0x52e4_a40f_a8db));
            assert_eq!(Codes::Http3.decode(VarInt::from_u32(0x10c)), None, "H3_REQUEST_CANCELLED");
            for (code, end) in [(0, Some(0)), (0x100, Some(0)), (0x102, None)] {
                assert_eq!(Codes::Http3.decode_end(VarInt::from_u32(code)), end);
            }
        }
    }
}
