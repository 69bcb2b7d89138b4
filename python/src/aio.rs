//! The transport for asyncio.
//!
//! Sockets and connections run on threads of tokio that never touch Python: no lock of the
//! interpreter is taken there, so that neither waits for the other, and an interpreter that ends
//! takes nothing down. What asyncio waits for is polled from its own thread. A poll that finds
//! nothing leaves a waker that puts a key into a list and, if the list was empty, a byte into a
//! socket pair that the event loop watches: one wake-up for all that has become ready meanwhile.

mod bridge;
mod config;
mod connection;
mod endpoint;
mod errors;
mod reader;
mod runtime;
mod updates;
mod writer;

pub(crate) use bridge::{Bridge, Operation, Ring};
pub(crate) use config::{NativeClientConfig, NativeIdentity, NativeServerConfig};
pub(crate) use connection::NativeConnection;
pub(crate) use endpoint::NativeEndpoint;
pub(crate) use reader::NativeReader;
pub(crate) use runtime::forked;
pub(crate) use writer::NativeWriter;
