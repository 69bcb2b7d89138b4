//! The transport settings that the commands share, and the words in which its errors reach the
//! user.

use std::{path::Path, str::FromStr, sync::Arc, time::Duration};

use mendpath::{
    ConnectionError, ControllerKind, QlogDirectory, RecoveryKind, RepairConfig, SchedulerKind,
    TransportConfig, TransportError, TransportErrorCode, VarInt,
};

use crate::{
    failure::{Failure, directory_reason},
    protocol::CloseCode,
    target::Target,
    word,
};

/// The longest that a client may wait for an answer (`--give-up`), in seconds. A server waits as long: of
/// both sides' idle timeouts the shorter one counts (RFC 9000 section 10.1).
pub const LONGEST_GIVE_UP: u64 = 600;

/// Most repair symbols of one block, if the user says nothing: what the transport has (`RepairConfig`).
pub const REPAIR_SYMBOLS: u8 = 3;

/// What a user may choose about the transport.
#[derive(Clone, Debug)]
pub struct Choice {
    /// How lost packets are mended.
    pub recovery: RecoveryKind,
    /// How fast each path sends.
    pub congestion: ControllerKind,
    /// Which path carries the next packet.
    pub scheduler: SchedulerKind,
    /// Most repair symbols of one block, 1 to 32.
    pub repair_symbols: u8,
    /// Where traces of connections go, if anywhere.
    pub qlog: Option<QlogDirectory>,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            recovery: RecoveryKind::default(),
            congestion: ControllerKind::Auto,
            scheduler: SchedulerKind::default(),
            repair_symbols: REPAIR_SYMBOLS,
            qlog: None,
        }
    }
}

impl Choice {
    /// The transport's configuration for a proxy connection.
    pub fn config(&self, idle: Duration, streams: u64) -> TransportConfig {
        TransportConfig {
            recovery: self.recovery,
            controller: self.congestion,
            scheduler: self.scheduler,
            repair: RepairConfig { m_max: self.repair_symbols, ..RepairConfig::default() },
            observe: self.qlog.clone().map(|directory| Arc::new(directory) as _),
            max_idle_timeout: idle,
            max_concurrent_bidi: streams,
            max_concurrent_uni: 0,
            ..TransportConfig::default()
        }
    }
}

/// Reads the value of `--recovery`.
///
/// # Errors
/// A message that lists what exists.
pub fn parse_recovery(text: &str) -> Result<RecoveryKind, String> {
    parse(text, RecoveryKind::ALL.iter().map(|kind| kind.name()))
}

/// Reads the value of `--congestion`.
///
/// # Errors
/// A message that lists what exists.
pub fn parse_congestion(text: &str) -> Result<ControllerKind, String> {
    parse(text, ControllerKind::ALL.iter().map(|kind| kind.name()))
}

/// Reads the value of `--scheduler`.
///
/// # Errors
/// A message that lists what exists.
pub fn parse_scheduler(text: &str) -> Result<SchedulerKind, String> {
    parse(text, SchedulerKind::ALL.iter().map(|kind| kind.name()))
}

/// Reads the value of `--qlog`: a directory, which is created if it is not there.
///
/// # Errors
/// A message that names it.
pub fn parse_qlog(text: &str) -> Result<QlogDirectory, String> {
    QlogDirectory::new(text).map_err(|error| {
        let reason = directory_reason(Path::new(text), &error);
        format!("no traces can be written to `{text}`: {reason}")
    })
}

fn parse<T: FromStr>(text: &str, exist: impl Iterator<Item = &'static str>) -> Result<T, String> {
    text.parse().map_err(|_| word::unknown(text, exist))
}

/// What a failed or ended connection means to whoever runs the client, and whether trying again
/// could help.
pub fn explain(error: &ConnectionError, server: &Target) -> (Failure, Retry) {
    let tried = format!("cannot use the server {server}");
    let (wrong, next, retry) = match error {
        ConnectionError::TimedOut => (
            "it does not answer".to_owned(),
            "Check that it runs there and that its UDP port is open in every firewall",
            Retry::Useful,
        ),
        ConnectionError::ApplicationClosed { code, reason }
            if CloseCode::from_code(*code) == Some(CloseCode::Unavailable) && !reason.is_empty() =>
        {
            (
                format!("it takes nobody in at the moment ({})", words(reason)),
                "Try again later",
                Retry::Useful,
            )
        }
        ConnectionError::ApplicationClosed { code, .. } => explain_close(*code),
        ConnectionError::TransportError(error) if is_tls_alert(error.code) => (
            "it does not hold the key that the invitation names".to_owned(),
            "Ask its operator for the present invitation; if that has not changed, somebody else answers in its place",
            Retry::Unproven,
        ),
        ConnectionError::TransportError(TransportError { code, .. })
        | ConnectionError::ConnectionClosed { code, .. }
            if *code == NO_APPLICATION_PROTOCOL =>
        {
            (
                "what answers there is not a mendpath server, or one of another version".to_owned(),
                "Check the address, and that both sides run the same version",
                Retry::Unproven,
            )
        }
        ConnectionError::ConnectionClosed { code: TransportErrorCode::CONNECTION_REFUSED, reason } => {
            let reason = words(reason.as_bytes());
            (format!("it takes nobody in at the moment ({reason})"), "Try again later", Retry::Soon)
        }
        ConnectionError::ConnectionClosed { code: TransportErrorCode::APPLICATION_ERROR, .. } => (
            "it closed the connection before it could say why: it is about to stop, or has too much to do"
                .to_owned(),
            "Try again later",
            Retry::Useful,
        ),
        ConnectionError::VersionMismatch => (
            "what answers there does not speak QUIC version 1".to_owned(),
            "Check the address and port of the invitation",
            Retry::Unproven,
        ),
        ConnectionError::Reset => (
            "it has been started again and knows nothing of the connection".to_owned(),
            "Try again",
            Retry::Useful,
        ),
        other => (other.to_string(), "Try again; with -v the log says more", Retry::Useful),
    };
    (Failure::new(tried, wrong, next), retry)
}

/// What a server says ends up on a terminal: no control characters.
fn words(reason: &[u8]) -> String {
    String::from_utf8_lossy(reason).chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Whether another attempt may end differently, the least hope first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// Only the user can change the outcome.
    Useless,
    /// Only the server's operator can change the outcome. Who was told to wait for the server waits
    /// for that, too.
    OnceInvited,
    /// What was heard proves nothing, and may come from somebody on the way: it may end differently by
    /// another way, or in another network.
    Unproven,
    /// It may.
    Useful,
    /// It may, and within a moment.
    Soon,
}

impl Retry {
    /// Whether to try again, with or without `--wait`.
    pub fn is_worth_it(self, wait: bool) -> bool {
        match self {
            Self::Soon | Self::Useful => true,
            Self::Unproven | Self::OnceInvited => wait,
            Self::Useless => false,
        }
    }

    /// The same for who was connected before, or has tried in vain already.
    pub fn is_worth_another(self, wait: bool) -> bool {
        self == Self::Unproven || self.is_worth_it(wait)
    }
}

/// CRYPTO_ERROR with the alert no_application_protocol (RFC 9001 section 8.1).
const NO_APPLICATION_PROTOCOL: TransportErrorCode = TransportErrorCode::crypto(120);

/// CRYPTO_ERROR (RFC 9000 section 20.1) other than a missing application protocol.
fn is_tls_alert(code: TransportErrorCode) -> bool {
    code.tls_alert().is_some() && code != NO_APPLICATION_PROTOCOL
}

fn explain_close(code: VarInt) -> (String, &'static str, Retry) {
    let (wrong, next, retry) = match CloseCode::from_code(code) {
        Some(CloseCode::TokenRefused) => (
            "it refused the token of the invitation",
            "Ask its operator for a new invitation",
            Retry::Useless,
        ),
        Some(CloseCode::Version) => (
            "it speaks another version of the proxy protocol",
            "Install the same version on both sides",
            Retry::Useless,
        ),
        Some(CloseCode::WrongService) => (
            "it offers another service than the one wanted",
            "Use invitations of `mendpath server` with `client`, and those of `mendpath receive` with `send`",
            Retry::Useless,
        ),
        Some(CloseCode::Unavailable) => {
            ("it has as many clients as it takes, or is about to stop", "Try again later", Retry::Useful)
        }
        Some(CloseCode::Revoked) => (
            "its operator revoked the invitation",
            "Ask its operator for a new invitation",
            Retry::OnceInvited,
        ),
        Some(CloseCode::Expired) => (
            "the invitation has expired",
            "Ask its operator for more time or a new invitation",
            Retry::OnceInvited,
        ),
        Some(CloseCode::UsedUp) => (
            "what the invitation allows to pass is used up",
            "Ask its operator for more, or a new invitation",
            Retry::OnceInvited,
        ),
        Some(CloseCode::HelloTimeout) => ("the token did not reach it in time", "Try again", Retry::Useful),
        Some(CloseCode::Done) => ("it said goodbye", "Start it again", Retry::Useful),
        _ => ("it broke the proxy protocol", "Install the same version on both sides", Retry::Useful),
    };
    (wrong.to_owned(), next, retry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planned_values_are_told_from_typing_errors() {
        assert_eq!(parse_recovery("fuso"), Ok(RecoveryKind::Fuso));
        assert_eq!(parse_recovery("slp"), Ok(RecoveryKind::Slp));
        assert_eq!(parse_recovery("auto"), Ok(RecoveryKind::default()));
        assert_eq!(parse_congestion("newreno"), Ok(ControllerKind::NewReno));
        assert!(parse_recovery("fusion").unwrap_err().contains("there is no `fusion`"));
        assert!(parse_congestion("lias").unwrap_err().contains("there is no `lias`: use one of"));
    }

    #[test]
    fn a_block_has_as_many_repair_symbols_as_is_said() {
        let symbols = |choice: Choice| choice.config(Duration::ZERO, 1).repair.m_max;
        assert_eq!(symbols(Choice::default()), RepairConfig::default().m_max);
        assert_eq!(symbols(Choice { repair_symbols: 1, ..Choice::default() }), 1);
    }

    #[test]
    fn every_end_has_a_line_of_its_own() {
        let server: Target = "192.0.2.1:4433".parse().unwrap();
        let closed = |code| ConnectionError::ApplicationClosed { code, reason: vec![] };
        let (token, retry) = explain(&closed(CloseCode::TokenRefused.into()), &server);
        assert!(token.to_string().contains("refused the token"), "{token}");
        assert_eq!(retry, Retry::Useless);
        for (code, words) in [
            (CloseCode::Revoked, "its operator revoked the invitation. Ask"),
            (CloseCode::Expired, "the invitation has expired. Ask"),
            (CloseCode::UsedUp, "what the invitation allows to pass is used up. Ask"),
        ] {
            let (told, retry) = explain(&closed(code.into()), &server);
            assert!(told.to_string().contains(words), "{told}");
            assert!(retry.is_worth_it(true) && !retry.is_worth_it(false));
        }
        let alert = ConnectionError::TransportError(TransportError::crypto(49, ""));
        let (pin, retry) = explain(&alert, &server);
        assert!(pin.to_string().contains("does not hold the key"), "{pin}");
        assert_eq!(retry, Retry::Unproven, "somebody else may answer in its place for a while");
        assert!(!retry.is_worth_it(false) && retry.is_worth_it(true) && retry.is_worth_another(false));
        let (dead, retry) = explain(&ConnectionError::TimedOut, &server);
        assert!(dead.to_string().contains("192.0.2.1:4433: it does not answer. Check"), "{dead}");
        assert_eq!(retry, Retry::Useful);
        let refused = |code, reason: &str| {
            explain(&ConnectionError::ConnectionClosed { code, reason: reason.into() }, &server)
        };
        let (busy, retry) = refused(TransportErrorCode::CONNECTION_REFUSED, "too many\x1b[2J clients");
        assert!(busy.to_string().contains("nobody in at the moment (too many[2J clients). Try"), "{busy}");
        assert_eq!(retry, Retry::Soon);
        let (hidden, retry) = refused(TransportErrorCode::APPLICATION_ERROR, "");
        assert!(hidden.to_string().contains("before it could say why"), "{hidden}");
        assert_eq!(retry, Retry::Useful);
        assert_eq!(explain(&ConnectionError::Reset, &server).1, Retry::Useful, "a restarted server is back");
        for code in 0..12u8 {
            assert!(!explain(&closed(code.into()), &server).0.to_string().contains('\n'));
        }
    }
}
