//! What a command tells its user when it cannot do its work: one line that says what was tried,
//! what went wrong and what to do next.

use std::fmt;

use rustix::io::Errno;

/// Who can put it right, which decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The work failed: exit code 1.
    Failed,
    /// The command line cannot mean anything useful: exit code 2.
    Usage,
    /// A signal came before the end: this exit code.
    Stopped(u8),
}

/// A failure in the three parts every message has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    kind: FailureKind,
    tried: String,
    wrong: String,
    next: String,
}

impl Failure {
    /// Work that failed. `tried` and `wrong` are clauses without a full stop, `next` is an
    /// imperative sentence without one.
    pub fn new(tried: impl Into<String>, wrong: impl fmt::Display, next: impl Into<String>) -> Self {
        Self { kind: FailureKind::Failed, tried: tried.into(), wrong: wrong.to_string(), next: next.into() }
    }

    /// A command line that contradicts itself or asks for what does not exist.
    pub fn usage(tried: impl Into<String>, wrong: impl fmt::Display, next: impl Into<String>) -> Self {
        Self { kind: FailureKind::Usage, ..Self::new(tried, wrong, next) }
    }

    /// Work that a signal ended, for which `code` stands.
    pub fn stopped(
        tried: impl Into<String>,
        wrong: impl fmt::Display,
        next: impl Into<String>,
        code: u8,
    ) -> Self {
        Self { kind: FailureKind::Stopped(code), ..Self::new(tried, wrong, next) }
    }

    /// What was tried, what went wrong, what to do next.
    pub fn parts(&self) -> (&str, &str, &str) {
        (&self.tried, &self.wrong, &self.next)
    }

    /// 1 for failed work, 2 for wrong usage, 128 and the signal's number if one came before the end.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            FailureKind::Failed => 1,
            FailureKind::Usage => 2,
            FailureKind::Stopped(code) => code,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}. {}.", self.tried, self.wrong, self.next)
    }
}

impl std::error::Error for Failure {}

/// What an operating system error means, in words: `address already in use` instead of
/// `Address already in use (os error 98)`.
pub fn io_reason(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::AddrInUse => "another program uses that address".into(),
        ErrorKind::AddrNotAvailable => "this machine does not have that address".into(),
        ErrorKind::PermissionDenied => "permission denied".into(),
        ErrorKind::NotFound => "there is no such file or directory".into(),
        ErrorKind::AlreadyExists => "it exists already".into(),
        ErrorKind::StorageFull => "the disk is full".into(),
        ErrorKind::NotADirectory => "there is a file in the place of a directory".into(),
        ErrorKind::IsADirectory => "it is a directory".into(),
        _ => {
            let text = error.to_string();
            match text.split_once(" (os error") {
                Some((words, _)) => words.to_lowercase(),
                None => text,
            }
        }
    }
}

/// What to do where an address cannot be listened on that `option` names.
pub fn listen_advice(error: &std::io::Error, option: &str) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::AddrInUse => format!("Stop it or choose another address with {option}"),
        ErrorKind::AddrNotAvailable => format!("Choose an address of this machine with {option}"),
        ErrorKind::PermissionDenied => {
            format!("Choose a port above 1023 with {option}, or give the program CAP_NET_BIND_SERVICE")
        }
        _ if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => {
            "Raise the limit of open files (`ulimit -n`)".into()
        }
        _ => format!("Choose another address with {option}"),
    }
}

/// Why the directory `path` could not be made, in words: systems say of a file that is in its place
/// that it exists already.
pub fn directory_reason(path: &std::path::Path, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AlreadyExists if !path.is_dir() => {
            io_reason(&std::io::ErrorKind::NotADirectory.into())
        }
        _ => io_reason(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_with_three_parts() {
        let failure = Failure::new(
            "cannot listen on 127.0.0.1:1080 for SOCKS5",
            io_reason(&std::io::ErrorKind::AddrInUse.into()),
            "Stop it or choose another port with --socks5",
        );
        let text = failure.to_string();
        assert_eq!(
            text,
            "cannot listen on 127.0.0.1:1080 for SOCKS5: another program uses that address. \
             Stop it or choose another port with --socks5."
        );
        assert!(!text.contains('\n'));
        assert_eq!(failure.exit_code(), 1);
        assert_eq!(Failure::usage("a", "b", "c").exit_code(), 2);
    }

    /// Systems say "Is a directory", which is no sentence behind a file's name.
    #[test]
    fn a_directory_in_the_place_of_a_file_is_told_in_words() {
        assert_eq!(io_reason(&Errno::ISDIR.into()), "it is a directory");
        assert_eq!(io_reason(&Errno::NOTDIR.into()), "there is a file in the place of a directory");
    }

    /// Only where another program has the address there is something to stop.
    #[test]
    fn what_to_do_about_an_address_follows_from_what_is_wrong_with_it() {
        let advice = |error: Errno| listen_advice(&error.into(), "--listen");
        assert_eq!(advice(Errno::ADDRINUSE), "Stop it or choose another address with --listen");
        assert_eq!(advice(Errno::ADDRNOTAVAIL), "Choose an address of this machine with --listen");
        assert!(advice(Errno::ACCESS).starts_with("Choose a port above 1023 with --listen"));
        assert_eq!(advice(Errno::MFILE), "Raise the limit of open files (`ulimit -n`)");
        assert_eq!(advice(Errno::AFNOSUPPORT), "Choose another address with --listen");
    }

    #[test]
    fn system_errors_lose_their_numbers() {
        assert!(!io_reason(&std::io::Error::from_raw_os_error(113)).contains("os error"));
    }
}
