//! Attacks by a peer that completes the handshake, has the keys and sends what it likes, or by
//! strangers who only start handshakes.
//!
//! Each test states the bound that it checks: heap memory at its peak (measured by the allocator),
//! work (packets sent in answer, timers), bytes sent per byte received, or the code with which the
//! connection is closed. docs/security.md lists them.

mod acks;
mod datagrams;
mod handshake;
mod paths;
mod repair;
mod siege;
mod strangers;
mod streams;
