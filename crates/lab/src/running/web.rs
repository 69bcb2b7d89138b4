//! A web server as a contender: `mendpath serve`, or another as its adapter says.

use super::{
    ADMIN, Admin, Programs, Starter,
    mendpath::{INSTALL, schemes, words},
};
use crate::{
    Contender, Entry, LabError, Web,
    adapter::fill,
    bed::{SERVER, TestBed},
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
                bed.use_congestion("cubic")?;
                (self.serve(bed, site, &schemes(contender))?, Web::H3, Some(ADMIN))
            }
            Contender::Mendpath { entry: Entry::ServeTcp, congestion, .. } => {
                bed.use_congestion(congestion.as_deref().unwrap_or("cubic"))?;
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
        bed.use_congestion(adapter.congestion.as_deref().unwrap_or("cubic"))?;
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

fn wrong(contender: &Contender, reason: &str) -> LabError {
    LabError::Contender { contender: contender.to_string(), reason: reason.to_owned() }
}
