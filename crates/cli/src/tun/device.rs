//! The device as tasks use it.

use std::{io, os::fd::OwnedFd};

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
};
use tokio::io::unix::AsyncFd;
use tracing::debug;

/// A TUN device, of which each read and each write is one IP packet.
pub(super) struct Device(AsyncFd<OwnedFd>);

impl Device {
    /// Takes a descriptor, from whatever namespace.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub(super) fn new(device: OwnedFd) -> io::Result<Self> {
        fcntl_setfl(&device, fcntl_getfl(&device)? | OFlags::NONBLOCK)?;
        #[allow(deprecated, reason = "its successor is unsafe; an owned descriptor keeps what that asks for")]
        AsyncFd::new(device).map(Self)
    }

    /// Reads one packet, and returns its length.
    ///
    /// # Errors
    /// When the device is gone.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.0.readable().await?;
            match ready.try_io(|device| Ok(rustix::io::read(device, &mut *buffer)?)) {
                Ok(read) => return read,
                Err(_would_block) => {}
            }
        }
    }

    /// Writes a packet; the kernel may lose it, as any link may.
    pub(super) fn write(&self, packet: &[u8]) {
        loop {
            match rustix::io::write(self.0.get_ref(), packet) {
                Err(Errno::INTR) => {}
                Err(error) => return debug!(%error, bytes = packet.len(), "the device takes no packet"),
                Ok(_) => return,
            }
        }
    }
}
