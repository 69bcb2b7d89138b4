//! Loads of a page in a browser: the contenders take turns, a load each.

use super::{Lab, field::Counts, named, own_error};
use crate::{
    Contender, LabError, Network, Page, Web,
    bed::TestBed,
    browser::{Browser, Site},
    report::{Kind, Loads, Row},
    running::Programs,
};

/// What the driver says of a load that takes longer than its limit.
const TOO_LATE: &str = "waited in vain";

/// Dropped in this order: browser and server end before their networks.
struct Ends {
    browser: Browser,
    programs: Programs,
    bed: TestBed,
}

impl Lab<'_> {
    pub(super) fn pages(&mut self, network: &Network, page: &Page) -> Result<Vec<Row>, LabError> {
        let site = own_error(Site::new(self.starter.browser, self.starter.directory))?;
        let describe = |site: &Site| {
            format!("loads of a page of {} kB in {} parts", site.payload_bytes / 1_000, site.parts)
        };
        let name = named(&page.name, site.as_ref().map_or_else(|_| "loads of a page".to_owned(), describe));
        let (mut rows, mut all) = (Vec::new(), Vec::new());
        for contender in &network.contenders {
            self.tell(format!("{}: {name}: starting {contender}", network.name));
            let mut row =
                Row { kind: Kind::Page, setup_counted: true, ..self.row(network, &name, contender) };
            let ends = match &site {
                Ok(site) => self.page_ends(network, contender, page, site)?,
                Err(reason) => Err(reason.clone()),
            };
            match ends {
                Ok((ends, web)) => {
                    row.loads = Some(Loads { protocol: web.name().into(), ..Loads::default() });
                    all.push(Some(ends));
                }
                Err(reason) => {
                    row.error = Some(reason);
                    all.push(None);
                }
            }
            rows.push(row);
        }
        let Ok(site) = site else { return Ok(rows) };
        let count = self.options.count.unwrap_or_else(|| page.count(self.options.scale));
        for n in 0..u64::from(count) {
            for (ends, row) in all.iter_mut().zip(&mut rows) {
                let (None, Some(ends)) = (&row.error, ends) else { continue };
                row.error = own_error(self.load(ends, page, &site, n, row))?.err();
                self.count(&format!("{}: {name}: {}", network.name, row.contender));
            }
        }
        rows.iter_mut().for_each(Row::summarise);
        Ok(rows)
    }

    /// A server and a browser that has asked it once.
    fn page_ends(
        &self,
        network: &Network,
        contender: &Contender,
        page: &Page,
        site: &Site,
    ) -> Result<Result<(Ends, Web), String>, LabError> {
        let first = contender.paths(network.paths.len()).first().copied().unwrap_or(0);
        let bed = TestBed::new(&network.paths, first, self.seed(), self.plan.tcp_metrics)?;
        let start = || {
            let (mut programs, web) = self.starter.web(contender, &bed, site)?;
            let (directory, cancel) = (self.starter.directory, self.starter.cancel);
            let browser = Browser::start(&bed.client, site, web, page.limit, directory, cancel);
            // A server that has ended knows better what was wrong.
            programs.check()?;
            Ok((programs, web, browser?))
        };
        let started = own_error(start())?;
        Ok(started.map(|(programs, web, browser)| (Ends { browser, programs, bed }, web)))
    }

    fn load(&self, ends: &mut Ends, page: &Page, site: &Site, n: u64, row: &mut Row) -> Result<(), LabError> {
        let cancel = self.starter.cancel;
        ends.programs.check()?;
        ends.bed.settle(cancel)?;
        ends.bed.reseed(n)?;
        let counts = Counts::of(&ends.bed, &ends.programs)?;
        let loaded = ends.browser.load(cancel)?;
        counts.add_since(&ends.bed, &ends.programs, row)?;
        row.count += 1;
        match loaded {
            Ok(load) => {
                row.times_ms.push(load.load_ms);
                row.payload_bytes += site.payload_bytes;
                if let Some(loads) = &mut row.loads {
                    loads.first_byte_ms.push(load.first_byte_ms);
                    loads.received_bytes.push(load.received_bytes);
                }
                Ok(())
            }
            Err(reason) if reason.contains(TOO_LATE) => {
                row.failed += 1;
                row.times_ms.push(page.limit.as_millis_f64());
                Ok(())
            }
            Err(reason) => Err(LabError::Contender { contender: "a load".to_owned(), reason }),
        }
    }
}
