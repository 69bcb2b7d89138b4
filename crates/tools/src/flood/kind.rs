//! What a server is flooded with.

use clap::ValueEnum;

/// A kind of flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Valid first flights from sources that never answer.
    Initials,
    /// First flights again with the token of the Retry, then silence.
    Retry,
    /// Handshakes whose last message never comes, although the server's are acknowledged.
    Handshakes,
    /// Complete connections without a token that stay silent, from one address.
    SilentOne,
    /// The same from many addresses.
    SilentMany,
    /// Connections without a token that open all streams and send all that windows allow.
    Windows,
    /// Packets full of tiny REPAIR frames, from a client with a token.
    Repairs,
    /// The same from clients without a token.
    RepairsUninvited,
    /// Requests for hosts that never answer, from a client with a token.
    Connects,
    /// Requests for names that take for ever to resolve, from a client with a token.
    Dns,
    /// One after the other.
    All,
}

impl Kind {
    /// Every kind of flood.
    pub const ALL: [Self; 10] = [
        Self::Initials,
        Self::Retry,
        Self::Handshakes,
        Self::SilentOne,
        Self::SilentMany,
        Self::Windows,
        Self::Repairs,
        Self::RepairsUninvited,
        Self::Connects,
        Self::Dns,
    ];

    /// As it is typed.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}
