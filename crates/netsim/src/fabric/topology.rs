//! Topologies: plain data, one file each.
//!
//! | file             | what                                                   | from                     |
//! |------------------|--------------------------------------------------------|--------------------------|
//! | [`dumbbell`]     | pairs of hosts over one bottleneck                     |                          |
//! | [`parallel_paths`] | two racks with several links between them            | FUSO section VI-A        |
//! | [`ten_routers`]  | CoFUSO's simulation, in both wirings of COF-A5         | CoFUSO section 6.2       |
//! | [`leaf_spine`]   | every leaf to every spine                              |                          |
//! | [`fat_tree`]     | three layers in pods                                   | FUSO section VI-C        |

pub mod dumbbell;
pub mod fat_tree;
pub mod leaf_spine;
pub mod parallel_paths;
pub mod ten_routers;

use thiserror::Error;

use super::{HostId, Line, LinkId, Node, SwitchId};

pub use dumbbell::Dumbbell;
pub use fat_tree::FatTree;
pub use leaf_spine::LeafSpine;
pub use parallel_paths::ParallelPaths;
pub use ten_routers::{TenRouters, Wiring};

/// Why a topology cannot be built.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum TopologyError {
    /// A link names a host that does not exist.
    #[error("link {link} names host {host}, but there are {hosts}")]
    UnknownHost {
        /// The link's number.
        link: u32,
        /// The host named.
        host: u32,
        /// How many there are.
        hosts: u32,
    },
    /// A link names a switch that does not exist.
    #[error("link {link} names switch {switch}, but there are {switches}")]
    UnknownSwitch {
        /// The link's number.
        link: u32,
        /// The switch named.
        switch: u32,
        /// How many there are.
        switches: u32,
    },
    /// A host must have exactly one link, to a switch.
    #[error("host {host} has {links} links to switches; it must have exactly one")]
    HostLinks {
        /// The host.
        host: u32,
        /// How many it has.
        links: u32,
    },
    /// Two hosts are joined directly.
    #[error("link {link} joins two hosts")]
    NoSwitch {
        /// The link's number.
        link: u32,
    },
    /// A failure names a link that does not exist.
    #[error("a failure names link {link}, but there are {links}")]
    UnknownLink {
        /// The link named.
        link: u32,
        /// How many there are.
        links: u32,
    },
    /// More ports than event numbers.
    #[error("{links} links are too many; at most 2^30")]
    TooManyLinks {
        /// How many there are.
        links: usize,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Link {
    ends: (Node, Node),
    lines: (Line, Line),
    level: u8,
}

/// Hosts, switches and the links between them.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Topology {
    hosts: u32,
    switches: u32,
    links: Vec<Link>,
}

impl Topology {
    /// `hosts` hosts and `switches` switches without links.
    pub fn new(hosts: u32, switches: u32) -> Self {
        Self { hosts, switches, links: Vec::new() }
    }

    /// Joins two nodes by a link with the same `line` in both directions. `level` is where the link
    /// is: 0 between a host and its switch, then upwards.
    pub fn link(&mut self, a: Node, b: Node, line: Line, level: u8) -> LinkId {
        self.link_with(a, b, (line, line), level)
    }

    /// Joins two nodes by a link with different lines there and back.
    pub fn link_with(&mut self, a: Node, b: Node, lines: (Line, Line), level: u8) -> LinkId {
        self.links.push(Link { ends: (a, b), lines, level });
        LinkId(self.links.len() as u32 - 1)
    }

    /// Joins `host` to `switch`: `up` from the host, `down` to it. Level 0.
    pub fn attach(&mut self, host: u32, switch: u32, up: Line, down: Line) -> LinkId {
        self.link_with(Node::Host(HostId(host)), Node::Switch(SwitchId(switch)), (up, down), 0)
    }

    /// Joins two switches with the same line in both directions.
    pub fn join(&mut self, a: u32, b: u32, line: Line, level: u8) -> LinkId {
        self.link(Node::Switch(SwitchId(a)), Node::Switch(SwitchId(b)), line, level)
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// How many switches there are.
    pub fn switches(&self) -> u32 {
        self.switches
    }

    /// How many links there are.
    pub fn links(&self) -> usize {
        self.links.len()
    }

    /// The links of a level.
    pub fn links_at(&self, level: u8) -> impl Iterator<Item = LinkId> + '_ {
        (0..).zip(&self.links).filter(move |(_, link)| link.level == level).map(|(i, _)| LinkId(i))
    }

    /// The ends of every link, in order.
    pub fn ends(&self) -> impl Iterator<Item = (LinkId, (Node, Node))> + '_ {
        (0..).zip(&self.links).map(|(i, link)| (LinkId(i), link.ends))
    }

    /// The lines of a link, from its first end to its second and back, unless it is another topology's.
    pub fn lines(&self, link: LinkId) -> Option<(Line, Line)> {
        self.links.get(link.0 as usize).map(|link| link.lines)
    }

    /// For every port, in order, its line and the node that it leads to.
    pub(super) fn ports(&self) -> impl Iterator<Item = (&Line, Node)> {
        self.links.iter().flat_map(|link| [(&link.lines.0, link.ends.1), (&link.lines.1, link.ends.0)])
    }

    /// Checks that every host hangs on exactly one switch and that every link's ends exist.
    ///
    /// # Errors
    /// The first link or host that is wrong.
    pub fn check(&self) -> Result<(), TopologyError> {
        if self.links.len() >= 1 << 30 {
            return Err(TopologyError::TooManyLinks { links: self.links.len() });
        }
        let mut attached = vec![0; self.hosts as usize];
        for (link, ends) in self.ends() {
            if matches!(ends, (Node::Host(_), Node::Host(_))) {
                return Err(TopologyError::NoSwitch { link: link.0 });
            }
            for end in [ends.0, ends.1] {
                self.check_end(link, end, &mut attached)?;
            }
        }
        let wrong = (0..).zip(attached).find(|(_, links)| *links != 1);
        wrong.map_or(Ok(()), |(host, links)| Err(TopologyError::HostLinks { host, links }))
    }

    fn check_end(&self, link: LinkId, end: Node, attached: &mut [u32]) -> Result<(), TopologyError> {
        match end {
            Node::Host(host) => match attached.get_mut(host.0 as usize) {
                Some(links) => *links += 1,
                None => {
                    let (link, host, hosts) = (link.0, host.0, self.hosts);
                    return Err(TopologyError::UnknownHost { link, host, hosts });
                }
            },
            Node::Switch(switch) if switch.0 >= self.switches => {
                let (link, switch, switches) = (link.0, switch.0, self.switches);
                return Err(TopologyError::UnknownSwitch { link, switch, switches });
            }
            Node::Switch(_) => {}
        }
        Ok(())
    }
}
