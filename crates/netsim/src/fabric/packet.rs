//! What travels, and the names of what it travels through.

/// A host, numbered from 0.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostId(pub u32);

/// A switch or router, numbered from 0.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SwitchId(pub u32);

/// A link of the topology, in the order in which they were added.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u32);

/// One direction of a link: `2 x link` from its first end to its second, `2 x link + 1` back.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortId(pub u32);

impl LinkId {
    /// The port from the link's first end to its second.
    pub const fn forward(self) -> PortId {
        PortId(2 * self.0)
    }

    /// The port from the link's second end to its first.
    pub const fn backward(self) -> PortId {
        PortId(2 * self.0 + 1)
    }
}

/// An end of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Node {
    /// A host.
    Host(HostId),
    /// A switch.
    Switch(SwitchId),
}

/// The ECN field of a packet (RFC 3168).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub enum Ecn {
    /// The transport does not understand marks: a port never marks the packet.
    #[default]
    NotCapable,
    /// A port may mark the packet.
    Capable,
    /// A port has marked the packet.
    Marked,
}

/// What failures and balancers may tell packets apart by.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// Carries data.
    #[default]
    Data,
    /// Carries data of a short flow, as the sender says. Only balancers tell it from
    /// [`Class::Data`].
    ShortData,
    /// Carries acknowledgements or control only. Loss that is set to data packets spares it.
    Control,
    /// Carries data whose receiver makes use of the header alone: a port that trims
    /// ([`Trim`](super::Trim)) may take its payload.
    Trimmable,
    /// What is left of a [`Class::Trimmable`] packet, or control of the transport that sends those:
    /// a port that trims sends it first. Loss that is set to data packets spares it.
    Header,
}

/// A packet: what the network looks at, and a body that only hosts understand.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Packet<B> {
    /// Where it comes from.
    pub src: HostId,
    /// Where it goes.
    pub dst: HostId,
    /// Stands for the ports of the five-tuple: equal labels between the same hosts hash to the same
    /// path.
    pub label: u32,
    /// Size on the wire, in bytes.
    pub size: u32,
    /// ECN field.
    pub ecn: Ecn,
    /// What it carries.
    pub class: Class,
    /// The protocol's part.
    pub body: B,
}

/// What the network looks at of a packet. It waits apart from the body, so that a hop touches
/// little memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) src: HostId,
    pub(super) dst: HostId,
    pub(super) label: u32,
    pub(super) size: u32,
    pub(super) ecn: Ecn,
    pub(super) class: Class,
    /// It will not arrive.
    pub(super) lost: bool,
}

impl Head {
    /// The packet again.
    #[inline]
    pub(super) fn with<B>(self, body: B) -> Packet<B> {
        let Self { src, dst, label, size, ecn, class, .. } = self;
        Packet { src, dst, label, size, ecn, class, body }
    }
}

impl<B> Packet<B> {
    /// Its head, and its body.
    #[inline]
    pub(super) fn split(self) -> (Head, B) {
        let Self { src, dst, label, size, ecn, class, body } = self;
        (Head { src, dst, label, size, ecn, class, lost: false }, body)
    }
}
