//! How many files and sockets this process may have open.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use rustix::{
    io::Errno,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use crate::console::say;

/// More is of no use to anybody, and some systems say "unlimited".
const MOST: u64 = 1 << 20;

/// Raises the limit to what the system allows this process, and returns it. The usual first limit,
/// 1,024, is meant for programs that use `select`.
pub fn raise() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if let Some(current) = current {
        let set =
            |limit: &u64| setrlimit(Resource::Nofile, Rlimit { current: Some(*limit), maximum }).is_ok();
        // If none is granted, the limit stays as it was.
        let _ = steps(current, maximum.unwrap_or(MOST).min(MOST)).find(set);
    }
    limit()
}

/// What to ask for above `current`, the most first: macOS says "unlimited", and refuses more than
/// `kern.maxfilesperproc` (setrlimit(2)).
fn steps(current: u64, most: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(most), |limit| Some(limit / 2)).take_while(move |limit| *limit > current)
}

/// With fewer, a browser alone uses them up.
pub(crate) const FEW: usize = 512;

/// Raises the limit as far as it goes, and tells the user of a program that is to carry connections
/// if that is not far.
pub(crate) fn raise_for_connections() {
    if let Some(warning) = warning(raise()) {
        say(warning);
    }
}

fn warning(limit: usize) -> Option<String> {
    (limit < FEW).then(|| {
        format!(
            "warning: only {limit} files may be open at a time, and each connection needs one; raise the limit of open \
             files (`ulimit -n`, LimitNOFILE of the service)"
        )
    })
}

/// The present limit.
pub fn limit() -> usize {
    let current = getrlimit(Resource::Nofile).current.unwrap_or(MOST).min(MOST);
    usize::try_from(current).unwrap_or(usize::MAX)
}

/// Tells the user, once, if `something waits` because no more files may be open.
pub(crate) fn tell_of_shortage(error: &io::Error, something_waits: &str) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let short = matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE));
    if short && !TOLD.swap(true, Relaxed) {
        let most = limit();
        say(format_args!("{something_waits} for one of {most} open files; raise the limit of open files"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_low_for_good_is_told() {
        assert!(warning(64).unwrap().contains("only 64 files may be open at a time"));
        assert_eq!((warning(FEW), warning(1 << 20)), (None, None));
    }

    #[test]
    fn who_is_refused_what_the_system_promises_asks_for_less() {
        let granted = steps(256, MOST).find(|limit| *limit <= 61_440);
        assert_eq!(granted, Some(32_768));
        assert_eq!((steps(1_024, 1_024).next(), steps(256, 256).next()), (None, None));
    }

    #[test]
    fn the_limit_is_raised_as_far_as_it_goes() {
        let allowed = getrlimit(Resource::Nofile).maximum.unwrap_or(MOST).min(MOST);
        assert!(raise() as u64 >= allowed);
        assert_eq!(raise(), limit());
    }
}
