//! What the machine is, and who else uses it while something is measured.

use std::{fs, path::Path};

use nix::sys::resource::{UsageWho, getrusage};

use crate::report::Machine;

/// In which `/proc/stat` counts (`USER_HZ`, 100 on all common architectures).
const TICKS_PER_SECOND: f64 = 100.0;

/// Looks at the machine from its start on.
pub(super) struct Watch {
    load: f64,
    used: Option<Used>,
}

/// Processor time in seconds since some moment.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Used {
    /// Of all processors, idle or not.
    all: f64,
    /// What programs, the kernel for them, and other guests had. Interrupts are not in it: the
    /// packets of the lab cause most of them.
    busy: f64,
    /// What this program and those that it started and waited for had.
    own: f64,
}

impl Watch {
    pub(super) fn start() -> Self {
        Self { load: load(), used: used() }
    }

    /// What there is to say at the end, when all programs of the lab have ended.
    pub(super) fn finish(self) -> Machine {
        let text = |file: &str| fs::read_to_string(file).unwrap_or_default();
        Machine {
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            processor: processor(&text("/proc/cpuinfo")),
            memory_bytes: memory(&text("/proc/meminfo")).unwrap_or(0),
            load_before: self.load,
            load_after: load(),
            others_share: self.used.zip(used()).and_then(|(from, to)| others(from, to)),
        }
    }
}

fn load() -> f64 {
    let text = fs::read_to_string(Path::new("/proc/loadavg")).unwrap_or_default();
    text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

fn used() -> Option<Used> {
    let (all, busy) = ticks(&fs::read_to_string("/proc/stat").ok()?)?;
    let own = |who| {
        let usage = getrusage(who).ok()?;
        let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        Some(seconds(usage.user_time()) + seconds(usage.system_time()))
    };
    let own = own(UsageWho::RUSAGE_SELF)? + own(UsageWho::RUSAGE_CHILDREN)?;
    Some(Used { all: all / TICKS_PER_SECOND, busy: busy / TICKS_PER_SECOND, own })
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
fn ticks(stat: &str) -> Option<(f64, f64)> {
    let words = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let values: Vec<f64> = words.take(8).map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, .., steal] = values[..] else { return None };
    (values.len() == 8).then(|| (values.iter().sum(), user + nice + system + steal))
}

/// The part of others in what was used between the two; `None` if no time has passed.
fn others(from: Used, to: Used) -> Option<f64> {
    let all = to.all - from.all;
    let others = (to.busy - from.busy) - (to.own - from.own);
    (all > 0.0).then(|| (others / all).clamp(0.0, 1.0))
}

/// The first processor's name: `model name`, or on ARM boards what stands for it.
fn processor(cpuinfo: &str) -> String {
    let of = |wanted: &str| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == wanted).then(|| value.trim().to_owned())
        })
    };
    ["model name", "Model", "Hardware", "cpu model"].into_iter().find_map(of).unwrap_or_default()
}

/// `MemTotal`, in bytes.
fn memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_understood() {
        let stat = "cpu  100 20 30 800 10 5 15 20 0 0\ncpu0 1 2 3 4\n";
        assert_eq!(ticks(stat), Some((1_000.0, 170.0)));
        assert_eq!(ticks("intr 5"), None);
        assert_eq!(ticks("cpu  1 2 3"), None);
        assert_eq!(processor("processor : 0\nmodel name\t: A CPU @ 2 GHz\n"), "A CPU @ 2 GHz");
        assert_eq!(processor("BogoMIPS : 1\n"), "");
        assert_eq!(memory("MemFree: 1 kB\nMemTotal:        2048 kB\n"), Some(2_097_152));
    }

    #[test]
    fn what_the_lab_used_is_not_others() {
        let from = Used { all: 100.0, busy: 50.0, own: 10.0 };
        let to = Used { all: 120.0, busy: 65.0, own: 20.0 };
        assert_eq!(others(from, to), Some(0.25));
        // Clocks differ a little.
        assert_eq!(others(from, Used { busy: 59.9, ..to }), Some(0.0));
        assert_eq!(others(from, from), None);
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let machine = Watch::start().finish();
        assert!(machine.cpus > 0 && machine.memory_bytes > 0 && !machine.kernel.is_empty());
    }
}
