//! Kernel settings of a fresh namespace.

use std::{fs, io};

use crate::LabError;

/// Largest TCP buffers: more than any path of a plan holds.
const BUFFERS: &str = "4096 131072 33554432";

/// Prepares the calling thread's namespace. What the kernel does not have is not needed.
pub(super) fn prepare(tcp_metrics: bool) -> Result<(), LabError> {
    let metrics = if tcp_metrics { "0" } else { "1" };
    let settings = [
        // Nothing but what contenders send: no router solicitations.
        ("ipv6/conf/all/disable_ipv6", "1"),
        ("ipv6/conf/default/disable_ipv6", "1"),
        // Packets to one address arrive over several devices.
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/default/rp_filter", "0"),
        ("ipv4/tcp_no_metrics_save", metrics),
        ("ipv4/tcp_rmem", BUFFERS),
        ("ipv4/tcp_wmem", BUFFERS),
        ("mptcp/enabled", "1"),
    ];
    for (name, value) in settings {
        match fs::write(format!("/proc/sys/net/{name}"), value) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(LabError::system(format!("set net/{name} to {value}"))(error));
            }
            _ => {}
        }
    }
    Ok(())
}
