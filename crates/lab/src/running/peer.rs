//! Another program, started as its adapter says.

use std::net::{Ipv4Addr, SocketAddr};

use super::{Admin, Programs, Running, Starter};
use crate::{
    LabError,
    adapter::fill,
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
    let adapter = starter.adapter(name)?;
    if adapter.web.is_some() {
        return Err(LabError::Contender {
            contender: name.to_owned(),
            reason: "it is a web server, for a [[page]] alone".to_owned(),
        });
    }
    if path != bed.first() && !adapter.chooses_path() {
        return Err(LabError::Contender {
            contender: name.to_owned(),
            reason: format!(
                "it does not choose its path, and here the client's is path {}: name it first of the two, or have \
                 its adapter use {{client_ip}}",
                bed.first()
            ),
        });
    }
    bed.use_congestion(adapter.congestion.as_deref().unwrap_or("cubic"))?;
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
    adapter.write_files(&directory, &values)?;
    let start = |namespace, words| {
        Process::start(namespace, &fill(words, &values), &adapter.install, starter.directory)
    };
    let mut processes = vec![start(&bed.server, &adapter.server)?, start(&bed.client, &adapter.client)?];
    starter.wait_for_listener(bed, &mut processes, listen)?;
    let target = Target { addr: listen, transport: Transport::PLAIN, from: Vec::new(), behind: None };
    Ok(Running { target, origin, programs: Programs { processes, admin: Admin::default() } })
}
