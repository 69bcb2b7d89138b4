//! Another program, started as its adapter says.

use std::net::{Ipv4Addr, SocketAddr};

use super::{Admin, Running, Starter};
use crate::{
    LabError,
    adapter::{fill, fill_in},
    bed::{SERVER, TestBed, client_address},
    fetch::Target,
    origin::Transport,
    process::Process,
};

pub(super) fn start(
    starter: &Starter<'_>,
    name: &str,
    path: usize,
    bed: &TestBed,
    slot: u16,
) -> Result<Running, LabError> {
    let adapter = starter.adapters.get(name).ok_or_else(|| LabError::Contender {
        contender: name.to_owned(),
        reason: format!(
            "there is no adapter of this name; there are {}, and --adapter takes a file",
            starter.adapters.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
        ),
    })?;
    let (origin, listen) = if adapter.tunnel {
        let origin = starter.origin_behind_tunnel(bed)?;
        let addr = origin.addr;
        bed.hide_behind()?;
        (origin, addr)
    } else {
        (starter.origin_behind(bed)?, SocketAddr::from((Ipv4Addr::LOCALHOST, 8_000 + slot)))
    };
    let directory = starter.directory.sub_directory()?;
    let values = [
        ("server_ip", SERVER.to_string()),
        ("client_ip", client_address(path).to_string()),
        ("port", (29_900 + slot).to_string()),
        ("origin_ip", origin.addr.ip().to_string()),
        ("origin_port", origin.addr.port().to_string()),
        ("listen_port", listen.port().to_string()),
        ("device", format!("path{path}")),
        ("dir", directory.display().to_string()),
    ];
    for (name, content) in &adapter.files {
        let file = directory.join(name);
        let written = std::fs::write(&file, fill_in(content, &values));
        written.map_err(LabError::system(format!("write {}", file.display())))?;
    }
    let start = |namespace, words| {
        Process::start(namespace, &fill(words, &values), &adapter.install, starter.directory)
    };
    let mut processes = vec![start(&bed.server, &adapter.server)?, start(&bed.client, &adapter.client)?];
    starter.wait_for_listener(bed, &mut processes, listen)?;
    let target = Target { addr: listen, transport: Transport::PLAIN, from: Vec::new(), behind: None };
    Ok(Running { target, origin, processes, admin: Admin::default() })
}
