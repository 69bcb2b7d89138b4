//! The device as tasks use it.

mod batch;

use std::{
    io::{self, IoSlice},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
};
use tokio::io::{Interest, unix::AsyncFd};
use tracing::debug;
use tun_rs::{DeviceBuilder, SyncDevice, VIRTIO_NET_HDR_LEN};

pub(crate) use self::batch::{Intake, Outbox};

/// What stands before a packet that the kernel need do nothing about.
const PLAIN: [u8; VIRTIO_NET_HDR_LEN] = [0; VIRTIO_NET_HDR_LEN];

/// What wakes a reader: that there is something to read, or an error and nothing else, which is how the
/// kernel tells that somebody has removed the device.
const NEWS: Interest = Interest::READABLE.add(Interest::ERROR);

fn removed() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "somebody has removed it")
}

/// A TUN device that was made.
pub(crate) enum NewDevice {
    /// Of which each read and each write is one IP packet.
    Packets(OwnedFd),
    /// Through which TCP's segments pass many at a time.
    Segments(SyncDevice),
}

impl NewDevice {
    /// Makes the device `name` in the calling thread's namespace; segments pass it many at a time
    /// if that is wanted and the kernel can.
    ///
    /// # Errors
    /// Without the right to, or when there is one of that name.
    pub(crate) fn make(name: &str, segments: bool) -> io::Result<Self> {
        if segments {
            match DeviceBuilder::new().name(name).with(|it| _ = it.offload(true)).build_sync() {
                Ok(device) => return Ok(Self::Segments(device)),
                Err(error) => debug!(%error, "no device with segmentation offload"),
            }
        }
        Ok(Self::Packets(DeviceBuilder::new().name(name).build_sync()?.as_fd().try_clone_to_owned()?))
    }
}

impl AsFd for NewDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Packets(device) => device.as_fd(),
            Self::Segments(device) => device.as_fd(),
        }
    }
}

impl From<OwnedFd> for NewDevice {
    fn from(device: OwnedFd) -> Self {
        Self::Packets(device)
    }
}

/// A TUN device.
pub(crate) struct Device {
    file: File,
    /// Some kernels refuse segments that were joined here; they are handed over one by one then.
    joins: AtomicBool,
}

enum File {
    Packets(AsyncFd<OwnedFd>),
    Segments(AsyncFd<SyncDevice>),
}

impl Device {
    /// Takes a device, from whatever namespace.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub(crate) fn new(device: NewDevice) -> io::Result<Self> {
        fcntl_setfl(&device, fcntl_getfl(&device)? | OFlags::NONBLOCK)?;
        #[allow(deprecated, reason = "its successor is unsafe; an owned descriptor keeps what that asks for")]
        let file = match device {
            NewDevice::Packets(device) => File::Packets(AsyncFd::new(device)?),
            NewDevice::Segments(device) => File::Segments(AsyncFd::new(device)?),
        };
        Ok(Self { file, joins: AtomicBool::new(true) })
    }

    /// Somewhere to read to.
    pub(crate) fn intake(&self) -> Intake {
        Intake::new(matches!(self.file, File::Segments(_)))
    }

    /// Reads one packet, or the segments that TCP has sent together. Cancel safe.
    ///
    /// # Errors
    /// When the device is gone.
    pub(crate) async fn read(&self, intake: &mut Intake) -> io::Result<()> {
        loop {
            let (news, read) = match &self.file {
                File::Packets(device) => {
                    let mut ready = device.ready(NEWS).await?;
                    (ready.ready(), ready.try_io(|device| intake.read_packet(device.get_ref())))
                }
                File::Segments(device) => {
                    let mut ready = device.ready(NEWS).await?;
                    (ready.ready(), ready.try_io(|device| intake.read_segments(device.get_ref())))
                }
            };
            match read {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) if error.raw_os_error().is_none() => {
                    debug!(%error, "segments that cannot be told apart");
                }
                Ok(Err(error)) if error.raw_os_error() == Some(Errno::BADFD.raw_os_error()) => {
                    return Err(removed());
                }
                Ok(Err(error)) => return Err(error),
                // Waiters are woken a moment before reads fail, and not again.
                Err(_would_block) if news.is_error() => return Err(removed()),
                Err(_would_block) => {}
            }
        }
    }

    /// Writes a packet; the kernel may lose it, as any link may.
    pub(crate) fn write(&self, packet: &[u8]) {
        let write = || match &self.file {
            File::Packets(device) => rustix::io::write(device.get_ref(), packet),
            File::Segments(device) => {
                rustix::io::writev(device.get_ref(), &[IoSlice::new(&PLAIN), IoSlice::new(packet)])
            }
        };
        loop {
            match write() {
                Err(Errno::INTR) => {}
                Err(error) => return debug!(%error, bytes = packet.len(), "the device takes no packet"),
                Ok(_) => return,
            }
        }
    }

    /// Writes all that was gathered, segments of one TCP flow together; then there is nothing in
    /// `outbox`.
    pub(crate) fn write_all(&self, outbox: &mut Outbox) {
        match &self.file {
            File::Segments(device) if self.joins.load(Relaxed) && outbox.len() > 1 => {
                if let Err(error) = outbox.write_joined(device.get_ref()) {
                    debug!(%error, "the device does not take all");
                    if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) {
                        self.joins.store(false, Relaxed);
                    }
                }
            }
            _ => outbox.packets().for_each(|packet| self.write(packet)),
        }
        outbox.clear();
    }
}

#[cfg(test)]
impl NewDevice {
    /// A socket in the place of a device, and its other end.
    pub(crate) fn for_test() -> (Self, std::os::unix::net::UnixDatagram) {
        let (device, other) = std::os::unix::net::UnixDatagram::pair().unwrap();
        (OwnedFd::from(device).into(), other)
    }
}

#[cfg(test)]
impl Device {
    /// The same, taken.
    pub(crate) fn for_test() -> (Self, std::os::unix::net::UnixDatagram) {
        let (device, other) = NewDevice::for_test();
        (Self::new(device).unwrap(), other)
    }
}
