//! Layers between TCP and IP, one file each, and how the switches below them spread packets (HTPC,
//! and REPS of today).
//!
//! | file           | layer                                                        | switches                         |
//! |----------------|--------------------------------------------------------------|----------------------------------|
//! | [`corrective`] | one coded packet per window                                  | random packet spraying           |
//! | [`caps`]       | short flows coded, long ones not                             | short sprayed, long by flow hash while there are short ones |
//! | [`htpc`]       | redundancy that fades with the bytes that a flow has sent    | random packet spraying           |
//! | [`reps`]       | an entropy per packet, used again if it met no queue         | flow hash                        |
//!
//! "ECMP" and "RPS" of the paper are TCP without a layer over [`Balancing::FlowHash`] and
//! [`Balancing::Spray`].
//!
//! Those of HTPC are the same [`coding layer`](coding_layer) with another
//! [`Rule`](coding_layer::Rule). A new
//! one is a file with its parameters and its rule, a variant of [`ShimKind`], and its lines below.

pub mod caps;
pub mod coding_layer;
pub mod corrective;
pub mod header;
pub mod htpc;
pub mod reps;

mod order;
mod unit_decoder;

use netsim::fabric::Balancing;

use crate::shim::Shim;

pub use caps::Caps;
pub use corrective::PerWindow;
pub use htpc::Htpc;

use coding_layer::CodingLayer;

/// A layer with its parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ShimKind {
    /// One coded packet per window.
    Corrective(PerWindow),
    /// Short flows coded.
    Caps(Caps),
    /// HTPC.
    Htpc(Htpc),
    /// Spraying by entropies that met no queue.
    Reps,
}

impl ShimKind {
    /// The layer's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Corrective(_) => "corrective",
            Self::Caps(_) => "caps",
            Self::Htpc(_) => "htpc",
            Self::Reps => "reps",
        }
    }

    /// How the switches must be set for it.
    pub fn balancing(&self) -> Balancing {
        match self {
            Self::Corrective(_) | Self::Htpc(_) => Balancing::Spray,
            Self::Caps(_) => caps::balancing(),
            Self::Reps => Balancing::FlowHash,
        }
    }

    /// The layer's state for a connection.
    pub(crate) fn build(&self) -> Box<dyn Shim> {
        match *self {
            Self::Corrective(parameters) => Box::new(CodingLayer::new(parameters.common, parameters)),
            Self::Caps(parameters) => {
                Box::new(CodingLayer::new(parameters.common, caps::State::new(parameters)))
            }
            Self::Htpc(parameters) => {
                Box::new(CodingLayer::new(parameters.common, htpc::State::new(parameters)))
            }
            Self::Reps => Box::new(reps::Reps::new()),
        }
    }
}
