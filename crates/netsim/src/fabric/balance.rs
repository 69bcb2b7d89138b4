//! Which of several equally short ways a switch sends a packet.

use std::fmt;

use units::Instant;

use super::{Class, HostId, SwitchId};
use crate::{Rng, Seed};

/// What a balancer may look at.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// The time.
    pub now: Instant,
    /// Where the packet comes from.
    pub src: HostId,
    /// Where it goes.
    pub dst: HostId,
    /// The packet's label.
    pub label: u32,
    /// Its size in bytes.
    pub size: u32,
    /// What it carries.
    pub class: Class,
    /// Bytes waiting at each candidate port, in the order of the topology's links. At least two.
    pub waiting: &'a [u64],
}

impl Choice<'_> {
    /// The candidate that ECMP takes with this key.
    pub fn flow_hash(&self, key: u64) -> usize {
        flow_hash(key, self.src, self.dst, self.label, self.waiting.len())
    }
}

/// A scheme of one's own: one object per switch.
pub trait Balancer: Send {
    /// Index of the candidate to take; taken modulo their count.
    fn choose(&mut self, choice: &Choice<'_>) -> usize;
}

/// How every switch of a fabric chooses.
#[derive(Clone, Copy, Default)]
pub enum Balancing {
    /// ECMP: by a hash over source, destination and label, keyed per switch.
    #[default]
    FlowHash,
    /// Random packet spraying: uniformly at random, per packet.
    Spray,
    /// What this function makes for each switch.
    Custom(fn(SwitchId, Seed) -> Box<dyn Balancer>),
}

impl fmt::Debug for Balancing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FlowHash => "FlowHash",
            Self::Spray => "Spray",
            Self::Custom(_) => "Custom",
        })
    }
}

/// One switch's state.
pub(super) enum Chooser {
    FlowHash(u64),
    Spray(Rng),
    Custom(Box<dyn Balancer>),
}

impl fmt::Debug for Chooser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Chooser")
    }
}

impl Chooser {
    pub(super) fn new(balancing: Balancing, switch: SwitchId, seed: Seed) -> Self {
        let own = seed.child("switch", u64::from(switch.0));
        match balancing {
            Balancing::FlowHash => Self::FlowHash(own.0),
            Balancing::Spray => Self::Spray(Rng::new(own)),
            Balancing::Custom(make) => Self::Custom(make(switch, own)),
        }
    }
}

/// A place in `0..count`, the same for the same flow.
#[inline]
pub(super) fn flow_hash(key: u64, src: HostId, dst: HostId, label: u32, count: usize) -> usize {
    let mixed = (key ^ (u64::from(src.0) << 32 | u64::from(dst.0))).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29) ^ u64::from(label)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (((mixed >> 32) * count as u64) >> 32) as usize
}
