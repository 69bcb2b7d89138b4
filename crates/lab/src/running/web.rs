//! A web server as a contender: `mendpath serve`, or another as its adapter says.

use std::process::Command;

use super::{
    ADMIN, Admin, Programs, Starter,
    mendpath::{INSTALL, schemes, words},
};
use crate::{
    Contender, Entry, LabError, Web,
    adapter::fill,
    bed::{SERVER, TestBed, client_address},
    browser::Site,
    process::Process,
};

/// Browsers ask there without being told.
const PORT: u16 = 443;

impl Starter<'_> {
    /// Starts the server of a page, and says by what it is asked. Whether it listens shows when a
    /// browser asks.
    pub(crate) fn web(
        &self,
        contender: &Contender,
        bed: &TestBed,
        site: &Site,
    ) -> Result<(Programs, Web), LabError> {
        let (process, web, admin) = match contender {
            Contender::Mendpath { entry: Entry::Serve, .. } => {
                use_congestion(bed, "cubic")?;
                (self.serve(bed, site, &schemes(contender))?, Web::H3, Some(ADMIN))
            }
            Contender::Mendpath { entry: Entry::ServeTcp, congestion, .. } => {
                use_congestion(bed, congestion.as_deref().unwrap_or("cubic"))?;
                (self.serve(bed, site, &[])?, Web::H2, None)
            }
            Contender::Peer { name, .. } => {
                let (process, web) = self.web_peer(name, bed, site)?;
                (process, web, None)
            }
            _ => return Err(wrong(contender, "it is no web server")),
        };
        let admin = Admin { client: None, server: admin };
        Ok((Programs { processes: vec![process], admin }, web))
    }

    fn serve(&self, bed: &TestBed, site: &Site, schemes: &[String]) -> Result<Process, LabError> {
        let mut server = words([
            &self.mendpath.display().to_string(),
            "serve",
            &format!("--root={}", site.root.display()),
            &format!("--listen={SERVER}:{PORT}"),
            &format!("--cert={}", site.cert.display()),
            &format!("--key={}", site.key.display()),
            &format!("--admin={ADMIN}"),
        ]);
        server.extend(schemes.iter().cloned());
        Process::start(&bed.server, &server, INSTALL, self.directory)
    }

    fn web_peer(&self, name: &str, bed: &TestBed, site: &Site) -> Result<(Process, Web), LabError> {
        let adapter = self.adapter(name)?;
        let no_server = || LabError::Contender {
            contender: name.to_owned(),
            reason: "its adapter is of no web server".to_owned(),
        };
        let web = adapter.web.ok_or_else(no_server)?;
        use_congestion(bed, adapter.congestion.as_deref().unwrap_or("cubic"))?;
        let directory = self.directory.sub_directory()?;
        let values = [
            ("server_ip", SERVER.to_string()),
            ("port", PORT.to_string()),
            ("dir", directory.display().to_string()),
            ("root", site.root.display().to_string()),
            ("cert", site.cert.display().to_string()),
            ("key", site.key.display().to_string()),
        ];
        adapter.write_files(&directory, &values)?;
        let words = fill(&adapter.server, &values);
        Ok((Process::start(&bed.server, &words, &adapter.install, self.directory)?, web))
    }
}

/// Lets TCP of the server's side use this congestion controller towards every path. The kernel lets a
/// namespace have few of them as its default, but any for a route.
fn use_congestion(bed: &TestBed, name: &str) -> Result<(), LabError> {
    for path in 0..bed.paths.len() {
        let [a, b, c, _] = client_address(path).octets();
        let route = format!(
            "route change {a}.{b}.{c}.0/24 dev path{path} proto kernel scope link src {a}.{b}.{c}.1 congctl {name}"
        );
        let changed = bed.server.run(|| Command::new("ip").args(route.split(' ')).output())?;
        let changed = changed.map_err(LabError::system("run `ip` (iproute2)"))?;
        if !changed.status.success() {
            let what = format!("use the congestion controller {name}");
            let reason = String::from_utf8_lossy(&changed.stderr).trim().to_owned();
            return Err(LabError::Netlink { what, reason });
        }
    }
    Ok(())
}

fn wrong(contender: &Contender, reason: &str) -> LabError {
    LabError::Contender { contender: contender.to_string(), reason: reason.to_owned() }
}
