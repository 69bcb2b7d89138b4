//! What a process has used, by the kernel's account.

use std::{fs, time::Duration};

use super::Outcome;

/// Length of the kernel's unit of CPU time (`USER_HZ`) in `/proc`.
const TICK: Duration = Duration::from_millis(10);

/// What a process has used so far, or in a while.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// CPU time, of the program and of the kernel for it.
    pub cpu: Duration,
    /// Times that one of its threads waited for something.
    pub sleeps: u64,
}

impl Usage {
    /// Of the process with this id.
    ///
    /// # Errors
    /// If there is none.
    pub fn of(process: u32) -> Outcome<Self> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        // Fields 14 and 15; the second field may hold spaces.
        let (_, fields) = stat.rsplit_once(')').ok_or("a strange /proc/PID/stat")?;
        let ticks: u64 = fields.split_whitespace().skip(11).take(2).flat_map(str::parse::<u64>).sum();
        let mut sleeps = 0;
        for thread in fs::read_dir(format!("/proc/{process}/task"))? {
            // A thread may have ended meanwhile.
            let status = fs::read_to_string(thread?.path().join("status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            sleeps += line.and_then(|line| line.trim().parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(Self { cpu: TICK * u32::try_from(ticks)?, sleeps })
    }

    /// What was used since `before`.
    pub fn since(self, before: Self) -> Self {
        Self { cpu: self.cpu - before.cpu, sleeps: self.sleeps.saturating_sub(before.sleeps) }
    }
}
