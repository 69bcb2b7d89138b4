//! What is built on TCP, one file each (section numbers are those of the papers).
//!
//! | file          | scheme                                   | in the papers                              |
//! |---------------|------------------------------------------|--------------------------------------------|
//! | [`mod@reactive`] | tail loss probe                          | "TLP", "Reactive"                          |
//! | [`corrective`]| TCP-IR: a coded packet per time bin      | "TCP-IR", "Corrective"                     |
//! | [`proactive`] | everything twice on the same path        | "Proactive"                                |
//! | [`repflow`]   | two whole copies of a flow               | "RepFlow"                                  |
//! | [`mptcp`]     | sub-flows by ECMP                        | "MPTCP"                                    |
//! | [`fuso`]      | copies over the best sub-flow            | FUSO sections III-B, III-C                 |
//! | [`fuso_released`] | the same as its authors' kernel does it |                                     |
//! | [`cofuso`]    | parities over the best sub-flow          | CoFUSO section 4                           |
//! | [`slp`]       | duplicates of SYN and PSH packets        | SLP sections II-C1, II-C2                  |
//! | [`xlink`]     | re-injection while little is left to play | XLINK (SIGCOMM 2021)                      |
//! | [`quic_fec`]  | block, window and message codes          | FlEC, draft-michel-quic-fec, CloudBurst    |
//! | [`crate::shims`] | coding layers below TCP               | HTPC                                       |
//! | [`crate::ctcp`]  | coded blocks in place of TCP          | CTCP: a [`Transport`]                      |
//! | [`crate::ndp`]   | packets that receivers ask for, and switches trim | NDP (SIGCOMM 2017): a [`Transport`] |
//!
//! A new scheme is a file with a parameter type and, if it does something on a connection, an
//! implementation of [`Scheme`]; a variant of [`SchemeKind`], and its line in `name` and `build`.

pub mod cofuso;
pub mod corrective;
pub mod fuso;
pub mod fuso_released;
pub mod proactive;
pub mod quic_fec;
pub mod reactive;
pub mod repflow;
pub mod slp;
pub mod xlink;

mod span_decoder;

use std::sync::Arc;

use netsim::Own;

use crate::{
    connection::{Connection, scheme::Scheme},
    shim::Layered,
    shims::ShimKind,
    transport::{Endpoints, Protocol, Transport},
};

pub use crate::connection::mptcp::{self, Mptcp};
pub use cofuso::Cofuso;
pub use corrective::Corrective;
pub use fuso::Fuso;
pub use fuso_released::Released;
pub use proactive::Proactive;
pub use quic_fec::QuicFec;
pub use reactive::reactive;
pub use slp::Slp;
pub use xlink::Xlink;

/// What is built on TCP, with its parameters. The tail loss probe is an option of TCP itself
/// ([`reactive()`]).
#[derive(Clone, Debug, Default)]
pub enum SchemeKind {
    /// Nothing: TCP.
    #[default]
    None,
    /// TCP-IR.
    Corrective(Corrective),
    /// Everything twice.
    Proactive,
    /// Two flows instead of one.
    RepFlow,
    /// Several sub-flows.
    Mptcp(Mptcp),
    /// FUSO.
    Fuso(Fuso),
    /// CoFUSO.
    Cofuso(Cofuso),
    /// Duplicates of packets whose loss would cost a timeout.
    Slp(Slp),
    /// Re-injection while the receiver has little left to play.
    Xlink(Xlink),
    /// Forward error correction at a fixed rate.
    QuicFec(QuicFec),
    /// A coding layer below TCP.
    Shim(ShimKind),
    /// Another transport instead of TCP: CTCP, NDP, or one of your own.
    Transport(Arc<dyn Protocol>),
    /// One of your own on MPTCP: its sub-flows, and what makes the scheme for that many.
    Custom(Mptcp, OwnScheme),
}

/// Makes schemes of one's own, each for a connection with so many sub-flows.
pub type OwnScheme = Own<usize, dyn Scheme>;

impl SchemeKind {
    /// `protocol` instead of TCP.
    pub fn transport(protocol: impl Protocol + 'static) -> Self {
        Self::Transport(Arc::new(protocol))
    }

    /// A scheme of your own on MPTCP; `make` makes it for so many sub-flows.
    pub fn custom(mptcp: Mptcp, make: impl Fn(usize) -> Box<dyn Scheme> + Send + Sync + 'static) -> Self {
        Self::Custom(mptcp, Own::new("custom", make))
    }

    /// The scheme's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "tcp",
            Self::Corrective(_) => "tcp-ir",
            Self::Proactive => "proactive",
            Self::RepFlow => "repflow",
            Self::Mptcp(_) => "mptcp",
            Self::Fuso(_) => "fuso",
            Self::Cofuso(_) => "cofuso",
            Self::Slp(_) => "slp",
            Self::Xlink(_) => "xlink",
            Self::QuicFec(_) => "quic-fec",
            Self::Shim(shim) => shim.name(),
            Self::Transport(protocol) => protocol.name(),
            Self::Custom(..) => "custom",
        }
    }

    /// A connection.
    pub(crate) fn connect(&self, ends: Endpoints) -> Box<dyn Transport> {
        if let Self::Transport(protocol) = self {
            return protocol.connect(ends);
        }
        let tcp = Box::new(Connection::new(ends, self.mptcp(), |subflows| self.build(subflows)));
        match self {
            Self::Shim(shim) => Box::new(Layered::new(tcp, shim.build())),
            _ => tcp,
        }
    }

    /// The scheme's state for a connection with `subflows` sub-flows.
    fn build(&self, subflows: usize) -> Option<Box<dyn Scheme>> {
        match self {
            Self::None | Self::RepFlow | Self::Mptcp(_) | Self::Shim(_) | Self::Transport(_) => None,
            Self::Slp(parameters) => Some(Box::new(slp::State::new(*parameters))),
            Self::Xlink(parameters) => Some(Box::new(xlink::State::new(*parameters))),
            Self::QuicFec(parameters) => Some(Box::new(quic_fec::State::new(*parameters))),
            Self::Corrective(parameters) => Some(Box::new(corrective::State::new(*parameters))),
            Self::Proactive => Some(Box::new(Proactive)),
            Self::Fuso(Fuso { released: Some(released), .. }) => {
                Some(Box::new(fuso_released::State::new(*released, subflows)))
            }
            Self::Fuso(parameters) => Some(Box::new(fuso::State::new(*parameters, subflows))),
            Self::Cofuso(parameters) => Some(Box::new(cofuso::State::new(*parameters, subflows))),
            Self::Custom(_, own) => Some(own.make(subflows)),
        }
    }

    /// The sub-flows, if it has any.
    fn mptcp(&self) -> Option<Mptcp> {
        match self {
            Self::Mptcp(mptcp) | Self::Custom(mptcp, _) => Some(*mptcp),
            Self::Fuso(fuso) => Some(fuso.mptcp),
            Self::Cofuso(cofuso) => Some(cofuso.mptcp),
            Self::Xlink(xlink) => Some(xlink.mptcp),
            Self::QuicFec(fec) => Some(fec.mptcp),
            _ => None,
        }
    }

    /// Complete copies of every flow that are sent.
    pub(crate) fn copies(&self) -> u32 {
        match self {
            Self::RepFlow => repflow::COPIES,
            _ => 1,
        }
    }
}
