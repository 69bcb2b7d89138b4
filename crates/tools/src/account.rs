//! The kernel's account of a process (Linux, proc(5)).

use std::{
    fs,
    io::{Error, Result},
    path::PathBuf,
    time::Duration,
};

use units::Bytes;

/// The kernel's unit of CPU time for programs (`USER_HZ`), the same on every architecture.
const TICK: Duration = Duration::from_millis(10);

/// What the kernel knows of a process. Everything fails once the process is gone.
#[derive(Clone, Debug)]
pub struct Account {
    folder: PathBuf,
}

impl Account {
    /// Of this process.
    pub fn own() -> Self {
        Self { folder: "/proc/self".into() }
    }

    /// Of the process with this id.
    pub fn of(process: u32) -> Self {
        Self { folder: format!("/proc/{process}").into() }
    }

    /// CPU time so far, of the program and of the kernel for it, in steps of 10 ms.
    pub fn cpu(&self) -> Result<Duration> {
        let stat = self.read("stat")?;
        // The name in parentheses may hold anything; utime and stime are the 12th and 13th fields
        // after it.
        let (_, fields) = stat.rsplit_once(')').ok_or_else(strange)?;
        let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
        Ok(TICK * ticks.sum::<std::result::Result<u32, _>>().map_err(Error::other)?)
    }

    /// A field of its status that is an amount of memory: `VmRSS` what is resident, `VmHWM` the most
    /// that ever was.
    pub fn memory(&self, field: &str) -> Result<Bytes> {
        let status = self.read("status")?;
        let kib = value(&status, field)?.strip_suffix("kB").ok_or_else(strange)?;
        Ok(Bytes(kib.trim().parse::<u64>().map_err(Error::other)? * 1_024))
    }

    /// Threads that it has.
    pub fn threads(&self) -> Result<u64> {
        count(&self.read("status")?, "Threads")
    }

    /// Times that one of its threads, of those that are there, has waited for something.
    pub fn sleeps(&self) -> Result<u64> {
        let mut sleeps = 0;
        for thread in fs::read_dir(self.folder.join("task"))? {
            // A thread may have ended meanwhile.
            let Ok(status) = fs::read_to_string(thread?.path().join("status")) else { continue };
            sleeps += count(&status, "voluntary_ctxt_switches")?;
        }
        Ok(sleeps)
    }

    /// Descriptors that it has open.
    pub fn descriptors(&self) -> Result<usize> {
        Ok(fs::read_dir(self.folder.join("fd"))?.count())
    }

    fn read(&self, file: &str) -> Result<String> {
        fs::read_to_string(self.folder.join(file))
    }
}

/// What a status says of a field.
fn value<'a>(status: &'a str, field: &str) -> Result<&'a str> {
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.map(str::trim).ok_or_else(|| Error::other(format!("the kernel does not say {field}")))
}

fn count(status: &str, field: &str) -> Result<u64> {
    value(status, field)?.parse().map_err(Error::other)
}

fn strange() -> Error {
    Error::other("a file of /proc has another form than it should")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn this_process_has_used_something() {
        let own = Account::own();
        assert!(own.memory("VmHWM").unwrap().get() > 100_000);
        assert!(own.threads().unwrap() >= 1 && own.descriptors().unwrap() >= 3);
        let before = own.cpu().unwrap();
        let mut turns = 0_u64;
        while own.cpu().unwrap() == before {
            turns += 1;
        }
        assert!(turns > 0 && own.cpu().unwrap() > before, "it has just worked for a tick");
    }

    #[test]
    fn a_process_that_waits_has_slept() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let account = Account::of(child.id());
        // It waits for its input, sooner or later.
        while account.sleeps().unwrap() == 0 {
            std::thread::yield_now();
        }
        assert_eq!(account.threads().unwrap(), 1);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(account.cpu().is_err() && account.memory("VmRSS").is_err(), "it is gone");
    }

    #[test]
    fn a_name_may_end_like_another() {
        let status = "nonvoluntary_ctxt_switches:\t7\nvoluntary_ctxt_switches:\t3\nVmRSS:\t  12 kB\n";
        assert_eq!(count(status, "voluntary_ctxt_switches").unwrap(), 3);
        assert!(count(status, "Threads").is_err() && count(status, "VmRSS").is_err());
    }
}
