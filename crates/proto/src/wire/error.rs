//! Why a connection or a path ends: transport error codes (RFC 9000 section 20.1) and the error
//! that carries one.

use std::borrow::Cow;

use core::fmt;

use super::varint::VarInt;

/// A transport error code, 62 bits, as it stands in CONNECTION_CLOSE and PATH_ABANDON.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransportErrorCode(pub VarInt);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $constructor:ident;)*) => {
        impl TransportErrorCode {
            $($(#[$doc])* pub const $name: Self = Self(VarInt::from_u32($value));)*

            /// The code's name in its specification, `None` for codes that have none here.
            pub const fn name(self) -> Option<&'static str> {
                match self.0.into_inner() {
                    $($value => Some(stringify!($name)),)*
                    0x100..=0x1ff => Some("CRYPTO_ERROR"),
                    _ => None,
                }
            }
        }

        impl TransportError {
            $(
                #[doc = concat!("A [`TransportErrorCode::", stringify!($name), "`] that no particular frame caused.")]
                pub fn $constructor(reason: impl Into<Cow<'static, str>>) -> Self {
                    Self::new(TransportErrorCode::$name, reason)
                }
            )*
        }
    };
}

codes! {
    /// The connection or path ends without any error.
    NO_ERROR = 0x00, no_error;
    /// The endpoint met a fault of its own and cannot go on.
    INTERNAL_ERROR = 0x01, internal_error;
    /// The server accepts no new connection now.
    CONNECTION_REFUSED = 0x02, connection_refused;
    /// The peer sent more data than it was allowed to.
    FLOW_CONTROL_ERROR = 0x03, flow_control_error;
    /// The peer used a stream beyond the advertised limit.
    STREAM_LIMIT_ERROR = 0x04, stream_limit_error;
    /// A frame arrived for a stream whose state does not permit it.
    STREAM_STATE_ERROR = 0x05, stream_state_error;
    /// The final size of a stream was contradicted.
    FINAL_SIZE_ERROR = 0x06, final_size_error;
    /// A frame was badly formatted.
    FRAME_ENCODING_ERROR = 0x07, frame_encoding_error;
    /// Transport parameters were malformed, out of range, missing or forbidden.
    TRANSPORT_PARAMETER_ERROR = 0x08, transport_parameter_error;
    /// The peer provided more connection ids than the limit allows.
    CONNECTION_ID_LIMIT_ERROR = 0x09, connection_id_limit_error;
    /// The peer broke a rule that has no code of its own.
    PROTOCOL_VIOLATION = 0x0a, protocol_violation;
    /// A client's Initial carried a token the server does not accept.
    INVALID_TOKEN = 0x0b, invalid_token;
    /// The application or its protocol closed the connection (sent in place of the application's
    /// code during the handshake).
    APPLICATION_ERROR = 0x0c, application_error;
    /// CRYPTO data exceeded what the receiver buffers.
    CRYPTO_BUFFER_EXCEEDED = 0x0d, crypto_buffer_exceeded;
    /// Key updates were done wrongly.
    KEY_UPDATE_ERROR = 0x0e, key_update_error;
    /// The confidentiality or integrity limit of the AEAD has been reached.
    AEAD_LIMIT_REACHED = 0x0f, aead_limit_reached;
    /// No path works any more.
    NO_VIABLE_PATH = 0x10, no_viable_path;
    /// The application asked for the path to be abandoned (draft-ietf-quic-multipath-21
    /// section 4.2.1).
    APPLICATION_ABANDON_PATH = 0x3e, application_abandon_path;
    /// The endpoint lacks the resources to keep the path (draft-ietf-quic-multipath-21
    /// section 4.2.1).
    PATH_RESOURCE_LIMIT_REACHED = 0x3e75, path_resource_limit_reached;
    /// The path is unstable or performs poorly (draft-ietf-quic-multipath-21 section 4.2.1).
    PATH_UNSTABLE_OR_POOR = 0x3e76, path_unstable_or_poor;
    /// No connection id is available for the path (draft-ietf-quic-multipath-21 section 4.2.1).
    NO_CID_AVAILABLE_FOR_PATH = 0x3e77, no_cid_available_for_path;
}

impl TransportErrorCode {
    /// CRYPTO_ERROR: the TLS alert `alert`, as 0x100 + alert (RFC 9001 section 4.8).
    pub const fn crypto(alert: u8) -> Self {
        Self(VarInt::from_u32(0x100 | alert as u32))
    }

    /// The TLS alert inside a CRYPTO_ERROR.
    pub const fn tls_alert(self) -> Option<u8> {
        match self.0.into_inner() {
            code @ 0x100..=0x1ff => Some(code as u8),
            _ => None,
        }
    }
}

impl fmt::Display for TransportErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.tls_alert()) {
            (Some(name), Some(alert)) => write!(f, "{name} (TLS alert {alert})"),
            (Some(name), None) => f.write_str(name),
            (None, _) => write!(f, "transport error {:#x}", self.0),
        }
    }
}

impl fmt::Debug for TransportErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An error that closes the connection with a CONNECTION_CLOSE of type 0x1c.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportError {
    /// What the peer is told.
    pub code: TransportErrorCode,
    /// The type of the frame that caused it, if one did.
    pub frame: Option<u64>,
    /// For people; it is sent along.
    pub reason: Cow<'static, str>,
}

impl TransportError {
    /// An error that no particular frame caused.
    pub fn new(code: TransportErrorCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code, frame: None, reason: reason.into() }
    }

    /// A CRYPTO_ERROR for a TLS alert.
    pub fn crypto(alert: u8, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(TransportErrorCode::crypto(alert), reason)
    }

    /// The same error, blamed on a frame of type `frame_type`.
    #[must_use]
    pub fn in_frame(self, frame_type: u64) -> Self {
        Self { frame: Some(frame_type), ..self }
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if let Some(frame) = self.frame {
            write!(f, " in frame {frame:#x}")?;
        }
        if self.reason.is_empty() { Ok(()) } else { write!(f, ": {}", self.reason) }
    }
}

impl std::error::Error for TransportError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_explain_themselves() {
        let error = TransportError::frame_encoding_error("stream offset too large").in_frame(0x0e);
        assert_eq!(error.to_string(), "FRAME_ENCODING_ERROR in frame 0xe: stream offset too large");
        assert_eq!(TransportError::crypto(120, "").to_string(), "CRYPTO_ERROR (TLS alert 120)");
        assert_eq!(TransportErrorCode(VarInt::from_u32(0x77)).to_string(), "transport error 0x77");
        assert_eq!(TransportErrorCode(VarInt::from_u32(0x200)).tls_alert(), None);
    }
}
