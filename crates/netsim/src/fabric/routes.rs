//! Shortest paths: for every switch and every rack, the ports that lead closer.

use std::collections::VecDeque;

use super::{Node, PortId, Topology};

/// Where a switch sends what is for a certain rack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// Over this port.
    Port(u32),
    /// Over one of the ports of a group.
    Group(u32),
    /// There is no way.
    Nowhere,
}

/// The forwarding tables of all switches. A *rack* is a switch with hosts; hosts of a rack share
/// one row entry per switch.
#[derive(Debug)]
pub(super) struct Routes {
    racks: usize,
    /// Rack number of each host.
    rack_of: Vec<u32>,
    /// Port from its switch down to each host.
    down: Vec<u32>,
    /// Rack number of each switch, `u32::MAX` without hosts.
    rack_of_switch: Vec<u32>,
    /// By switch, then by rack.
    table: Vec<Next>,
    groups: Vec<Vec<PortId>>,
}

impl Routes {
    pub(super) fn new(topology: &Topology) -> Self {
        let neighbours = neighbours(topology);
        let switches = topology.switches() as usize;
        let mut routes = Self {
            racks: 0,
            rack_of: vec![u32::MAX; topology.hosts() as usize],
            down: vec![u32::MAX; topology.hosts() as usize],
            rack_of_switch: vec![u32::MAX; switches],
            table: Vec::new(),
            groups: Vec::new(),
        };
        let rack_switches = routes.place_hosts(topology);
        routes.racks = rack_switches.len();
        routes.table = vec![Next::Nowhere; switches * routes.racks];
        let mut known = std::collections::BTreeMap::new();
        for (rack, home) in rack_switches.iter().enumerate() {
            let distance = distances(&neighbours, *home);
            for switch in 0..switches {
                let closer = |(_, next): &&(PortId, usize)| distance[*next] < distance[switch];
                let ports: Vec<PortId> =
                    neighbours[switch].iter().filter(closer).map(|(port, _)| *port).collect();
                routes.table[switch * routes.racks + rack] = match ports.as_slice() {
                    [] => Next::Nowhere,
                    [only] => Next::Port(only.0),
                    _ => Next::Group(*known.entry(ports.clone()).or_insert_with(|| {
                        routes.groups.push(ports);
                        routes.groups.len() as u32 - 1
                    })),
                };
            }
        }
        routes
    }

    /// Gives racks their numbers and hosts their racks; the racks' switches.
    fn place_hosts(&mut self, topology: &Topology) -> Vec<usize> {
        let mut rack_switches = Vec::new();
        for (link, ends) in topology.ends() {
            let (host, switch, down) = match ends {
                (Node::Host(host), Node::Switch(switch)) => (host, switch, link.backward()),
                (Node::Switch(switch), Node::Host(host)) => (host, switch, link.forward()),
                _ => continue,
            };
            let rack = &mut self.rack_of_switch[switch.0 as usize];
            if *rack == u32::MAX {
                *rack = rack_switches.len() as u32;
                rack_switches.push(switch.0 as usize);
            }
            self.rack_of[host.0 as usize] = *rack;
            self.down[host.0 as usize] = down.0;
        }
        rack_switches
    }

    /// Where `switch` sends what is for `host`.
    #[inline]
    pub(super) fn next(&self, switch: u32, host: u32) -> Next {
        let Some(&rack) = self.rack_of.get(host as usize) else { return Next::Nowhere };
        if self.rack_of_switch[switch as usize] == rack {
            return Next::Port(self.down[host as usize]);
        }
        self.table[switch as usize * self.racks + rack as usize]
    }

    /// The ports of a group, at least two.
    #[inline]
    pub(super) fn group(&self, group: u32) -> &[PortId] {
        &self.groups[group as usize]
    }
}

/// For each switch, its ports to other switches and where they lead.
fn neighbours(topology: &Topology) -> Vec<Vec<(PortId, usize)>> {
    let mut neighbours = vec![Vec::new(); topology.switches() as usize];
    for (link, ends) in topology.ends() {
        if let (Node::Switch(a), Node::Switch(b)) = ends {
            neighbours[a.0 as usize].push((link.forward(), b.0 as usize));
            neighbours[b.0 as usize].push((link.backward(), a.0 as usize));
        }
    }
    neighbours
}

/// Hops from every switch to `home`; `u32::MAX` where there is no way.
fn distances(neighbours: &[Vec<(PortId, usize)>], home: usize) -> Vec<u32> {
    let mut distance = vec![u32::MAX; neighbours.len()];
    distance[home] = 0;
    let mut todo = VecDeque::from([home]);
    while let Some(switch) = todo.pop_front() {
        for (_, next) in &neighbours[switch] {
            if distance[*next] == u32::MAX {
                distance[*next] = distance[switch] + 1;
                todo.push_back(*next);
            }
        }
    }
    distance
}
