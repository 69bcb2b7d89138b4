//! A kind of connection: TCP's parameters, and what is built on TCP or takes its place.

use crate::{SchemeKind, Tcp};

/// Everything about a kind of connection.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// TCP's parameters.
    pub tcp: Tcp,
    /// What is built on TCP.
    pub scheme: SchemeKind,
}

impl Profile {
    /// TCP alone.
    pub fn tcp(tcp: Tcp) -> Self {
        Self { tcp, scheme: SchemeKind::None }
    }
}
