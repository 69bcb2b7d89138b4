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
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(MOST).min(MOST);
    if getrlimit(Resource::Nofile).current.is_some_and(|current| current < wanted) {
        // If it fails, the limit stays as it was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
    limit()
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
    fn the_limit_is_raised_as_far_as_it_goes() {
        let allowed = getrlimit(Resource::Nofile).maximum.unwrap_or(MOST).min(MOST);
        assert!(raise() as u64 >= allowed);
        assert_eq!(raise(), limit());
    }
}
