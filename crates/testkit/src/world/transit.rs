//! What becomes of datagrams between hosts: limits of size, marks, translators and faults, before and
//! after the links that the network models.

use std::net::SocketAddr;

use netsim::network::Arrival;
use proto::{Ecn, NetworkPath, Transmit};

use super::{IP_UDP_HEADERS, Late, Packet, World};
use crate::{
    faults::{Armed, Fate},
    scenario::EcnTreatment,
};

/// Where replayed packets come from.
const STRANGER: ([u8; 4], u16) = ([192, 0, 2, 66], 6_666);

impl World {
    /// Lets no datagram of more than `mtu` bytes of UDP payload pass between two addresses.
    pub fn set_mtu(&mut self, a: SocketAddr, b: SocketAddr, mtu: u16) {
        self.mtus.insert((a, b), usize::from(mtu));
        self.mtus.insert((b, a), usize::from(mtu));
    }

    /// Lets two hosts know that their own links towards each other carry datagrams of up to `mtu`
    /// bytes of UDP payload; the network between them may carry less.
    pub fn set_local_mtu(&mut self, a: SocketAddr, b: SocketAddr, mtu: u16) {
        self.local_mtus.insert((a, b), mtu);
        self.local_mtus.insert((b, a), mtu);
    }

    /// Lets the network between two addresses meddle with marks, in both directions, or leave them
    /// alone.
    pub fn set_ecn_treatment(
        &mut self,
        a: SocketAddr,
        b: SocketAddr,
        treatment: impl Into<Option<EcnTreatment>>,
    ) {
        let treatment = treatment.into();
        for way in [(a, b), (b, a)] {
            match treatment {
                Some(treatment) => _ = self.ecn.insert(way, treatment),
                None => _ = self.ecn.remove(&way),
            }
        }
    }

    /// Lets something happen to packets between two addresses that are sent from now on.
    pub fn arm(&mut self, from: SocketAddr, to: SocketAddr, armed: Armed) {
        self.faults.arm(from, to, armed);
    }

    /// Damages such a share of the packets between two addresses, both ways, from now on.
    pub fn corrupt(&mut self, a: SocketAddr, b: SocketAddr, share: f64) {
        self.faults.corrupt(a, b, share);
        self.faults.corrupt(b, a, share);
    }

    /// Takes back every fault that waits for its packets.
    pub fn disarm(&mut self) {
        self.faults.clear();
    }

    /// Packets that faults still wait for.
    pub fn faults_left(&self) -> u64 {
        self.faults.left()
    }

    /// A translator gives `address` another port: from now on its packets, those under way
    /// included, come from there, and what is sent to the one before is lost. Returns the new
    /// address.
    pub fn rebind(&mut self, address: SocketAddr) -> SocketAddr {
        let before = self.outside.get(&address).copied();
        let mut after = before.unwrap_or(address);
        after.set_port(after.port() + 1);
        if let Some(before) = before {
            self.inside.remove(&before);
        }
        self.outside.insert(address, after);
        self.inside.insert(after, address);
        after
    }

    /// The address that others see.
    pub fn seen_as(&self, address: SocketAddr) -> SocketAddr {
        self.outside.get(&address).copied().unwrap_or(address)
    }

    /// Hands a packet to its host, or keeps it while that stands still.
    pub(super) fn arrive(&mut self, arrival: Arrival<SocketAddr, Packet>) {
        let Some(&host) = self.addresses.get(&arrival.to) else { return };
        let asleep_until = self.hosts[host.0].asleep_until;
        if asleep_until > self.now() {
            self.late.push(asleep_until, Late::Deliver(arrival));
        } else {
            self.deliver(host, arrival);
        }
    }

    pub(super) fn send(&mut self, transmit: &Transmit, bytes: &[u8]) {
        let NetworkPath { local: from, remote } = transmit.path;
        let to = self.inside.get(&remote).copied().unwrap_or(remote);
        let unreachable = to == remote && self.outside.contains_key(&to);
        let mtu = self.mtus.get(&(from, to)).copied().unwrap_or(usize::MAX);
        for datagram in bytes.chunks(transmit.segment_size.unwrap_or(transmit.size).max(1)) {
            if datagram.len() > mtu || unreachable {
                self.net.trace(datagram.len() as u64);
                continue;
            }
            let ecn = match (self.ecn.get(&(from, to)), transmit.ecn) {
                (Some(EcnTreatment::Drop), Some(_)) => continue,
                (Some(EcnTreatment::Bleach), _) | (_, None) => None,
                (Some(EcnTreatment::MarkAll), Some(_)) => Some(Ecn::Ce),
                (None, mark) => mark,
            };
            let mut packet = Packet { bytes: datagram.to_vec(), ecn };
            match self.faults.hit(from, to, &mut packet.bytes) {
                Some(fate) => self.send_with_fate(from, to, packet, fate),
                None => self.enter_link(from, to, packet),
            }
        }
    }

    fn send_with_fate(&mut self, from: SocketAddr, to: SocketAddr, packet: Packet, fate: Fate) {
        let now = self.now();
        self.net.trace(packet.bytes.len() as u64);
        for after in fate.copies {
            self.late.push(now + after, Late::Send { from, to, packet: packet.clone() });
        }
        for after in fate.replays {
            // Past every link: the attacker is fast.
            let size = packet.bytes.len() as u64 + IP_UDP_HEADERS;
            let copy = Arrival { from: STRANGER.into(), to, packet: packet.clone(), size, ce: false };
            self.late.push(now + after, Late::Deliver(copy));
        }
        match fate.late {
            _ if fate.dropped => {}
            Some(after) => self.late.push(now + after, Late::Send { from, to, packet }),
            None => self.enter_link(from, to, packet),
        }
    }

    pub(super) fn enter_link(&mut self, from: SocketAddr, to: SocketAddr, packet: Packet) {
        let size = packet.bytes.len() as u64 + IP_UDP_HEADERS;
        self.net.send(from, to, packet, size);
    }
}
