//! Paths that change under a connection: addresses, connection ids, datagram sizes.

mod acks;
mod cids;
mod live;
mod mtu;
mod net;
mod rebinding;
