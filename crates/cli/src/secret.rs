//! Where secrets come from: a file, standard input, the environment, the service manager, or, least
//! of all, the command line, which every user of the machine can read for as long as the program runs.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use crate::{
    console::say,
    failure::{Failure, io_reason},
};

/// The longest secret, in bytes; an invitation has some 150.
const MAX_LENGTH: u64 = 4_096;

/// The places where one secret may be.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// What it is, with its article.
    pub what: &'static str,
    /// What stands on the command line; `-` for standard input.
    pub argument: Option<&'a str>,
    /// The file named there; `-` for standard input.
    pub file: Option<&'a Path>,
    /// The option that names it.
    pub file_option: &'static str,
    /// The environment variable that is looked at when the command line says nothing.
    pub variable: &'static str,
}

/// A secret, and whether others can see it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// One line without its end.
    pub text: String,
    /// It stands on the command line.
    is_exposed: bool,
}

impl<'a> Places<'a> {
    /// Whether it is to be read from standard input, which holds only one.
    pub fn is_stdin(&self) -> bool {
        self.argument == Some("-") || self.file == Some(Path::new("-"))
    }

    /// Whether it can be read only once: from standard input, or what is no file, as a pipe, at which a second
    /// reader may wait for ever.
    pub fn is_read_once(&self) -> bool {
        let is_no_file = |path: &Path| fs::metadata(path).is_ok_and(|found| !found.is_file());
        self.is_stdin() || self.file.is_some_and(is_no_file)
    }

    /// Reads it; `None` if it is nowhere.
    ///
    /// # Errors
    /// When it cannot be read, is not one line, or others can read the file.
    pub fn read(&self) -> Result<Option<Secret>, Failure> {
        let hidden = |text| Secret { text, is_exposed: false };
        if self.is_stdin() {
            return self.read_stdin().map(hidden).map(Some);
        }
        if let Some(file) = self.file {
            return self.read_file(file).map(hidden).map(Some);
        }
        if let Some(text) = self.argument {
            return Ok(Some(Secret { text: text.trim().to_owned(), is_exposed: true }));
        }
        let text = std::env::var(self.variable).unwrap_or_default().trim().to_owned();
        if !text.is_empty() {
            return Ok(Some(hidden(text)));
        }
        let directory = std::env::var_os("CREDENTIALS_DIRECTORY");
        let text = directory.map_or(Ok(None), |directory| self.read_credential(Path::new(&directory)));
        text.map(|text| text.map(hidden))
    }

    /// What the service manager hands over (systemd's `LoadCredential`) in a directory, under the
    /// variable's name in small letters and without its beginning: `invitation`. It keeps others away
    /// by itself.
    fn read_credential(&self, directory: &Path) -> Result<Option<String>, Failure> {
        let name = self.variable.trim_start_matches("MENDPATH_").to_lowercase().replace('_', "-");
        let path = directory.join(name);
        let unreadable = |why: String| {
            let tried = format!("cannot read {} from {}", self.what, path.display());
            Failure::usage(tried, why, "Check the service's LoadCredential")
        };
        match File::open(&path).and_then(beginning) {
            Ok(text) => one_line(&text).map(Some).map_err(|why| unreadable(why.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(io_reason(&error))),
        }
    }

    /// Tells the user if others can see it, once it is certain that it is one.
    pub fn warn_of(&self, secret: &Secret) {
        if secret.is_exposed {
            say(format_args!(
                "warning: other users of this machine can read {} on the command line; better is {} FILE, or the variable {}",
                self.what, self.file_option, self.variable
            ));
        }
    }

    fn read_stdin(&self) -> Result<String, Failure> {
        let mut line = String::new();
        let read = BufReader::new(io::stdin().lock().take(MAX_LENGTH)).read_line(&mut line);
        let unreadable = |why: String| {
            let cure = format!("Give one line there, or name a file with {}", self.file_option);
            Failure::usage(format!("cannot read {} from standard input", self.what), why, cure)
        };
        read.map_err(|error| unreadable(io_reason(&error)))?;
        one_line(&line).map_err(|why| unreadable(why.to_owned()))
    }

    fn read_file(&self, path: &Path) -> Result<String, Failure> {
        let unreadable = |why: String| {
            let cure = format!("Name a file that holds it as its only line with {}", self.file_option);
            Failure::usage(format!("cannot read {} from {}", self.what, path.display()), why, cure)
        };
        let opened = File::open(path).and_then(|file| file.metadata().map(|metadata| (file, metadata)));
        let (file, metadata) = opened.map_err(|error| unreadable(io_reason(&error)))?;
        self.check_mode(path, &metadata)?;
        let text = beginning(file).map_err(|error| unreadable(io_reason(&error)))?;
        one_line(&text).map_err(|why| unreadable(why.to_owned()))
    }

    /// As with the server's keys: what others may read may be known to them. A pipe has nobody else
    /// at its end.
    fn check_mode(&self, path: &Path, metadata: &fs::Metadata) -> Result<(), Failure> {
        let mode = metadata.permissions().mode();
        if !metadata.is_file() || mode & 0o077 == 0 {
            return Ok(());
        }
        Err(Failure::usage(
            format!("refusing to read {} from {}", self.what, path.display()),
            format!("its mode {:03o} opens it to other users", mode & 0o777),
            format!("Run: chmod 600 {}", path.display()),
        ))
    }
}

/// As much of a file as a secret may have: a device may have no end.
fn beginning(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(MAX_LENGTH).read_to_string(&mut text)?;
    Ok(text)
}

/// The only line of `text`, without what surrounds it.
fn one_line(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    match text {
        "" => Err("there is nothing"),
        _ if text.len() as u64 >= MAX_LENGTH - 1 => Err("it is too long"),
        _ if text.contains(['\n', '\r', '\0']) => Err("there is more than one line"),
        _ => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(file: &Path) -> Places<'_> {
        let (file_option, variable) = ("--secret-file", "MENDPATH_NO_SUCH_VARIABLE");
        Places { what: "the secret", argument: None, file: Some(file), file_option, variable }
    }

    fn with_mode(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_private_file_with_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        for text in ["word", "word\n", " word \r\n\n"] {
            with_mode(&path, text, 0o600);
            assert_eq!(places(&path).read().unwrap().unwrap().text, "word", "{text:?}");
        }
        let error = || places(&path).read().err().unwrap().to_string();
        for (text, why) in
            [("", "nothing"), ("one\ntwo\n", "more than one line"), (&"x".repeat(5_000), "too long")]
        {
            with_mode(&path, text, 0o600);
            assert!(error().contains(why) && !error().contains("one\ntwo"), "{}", error());
        }
        for mode in [0o640, 0o604, 0o660, 0o601] {
            with_mode(&path, "word", mode);
            assert!(error().contains("chmod 600") && !error().contains("word"), "{}", error());
        }
        fs::remove_file(&path).unwrap();
        assert!(error().contains("no such file"), "{}", error());
    }

    /// What is not there may come, and reading says that it is not.
    #[test]
    fn what_is_no_file_is_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        assert!(!places(&file).is_read_once());
        with_mode(&file, "word", 0o600);
        assert!(!places(&file).is_read_once());
        for other in ["-", "/dev/null"] {
            assert!(places(Path::new(other)).is_read_once(), "{other}");
        }
        assert!(!Places { file: None, ..places(Path::new("")) }.is_read_once());
    }

    #[test]
    fn a_credential_is_read_as_far_as_it_may_be_long() {
        let dir = tempfile::tempdir().unwrap();
        let places = places(Path::new(""));
        let read = || places.read_credential(dir.path()).map_err(|failure| failure.to_string());
        assert_eq!(read(), Ok(None));
        let path = dir.path().join("no-such-variable");
        fs::write(&path, "word\n").unwrap();
        assert_eq!(read(), Ok(Some("word".to_owned())));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(read().unwrap_err().contains("no-such-variable: it is too long. Check the service's"));
    }

    #[test]
    fn nowhere_is_none() {
        let places = Places { file: None, ..places(Path::new("")) };
        assert!(places.read().unwrap().is_none());
        let places = Places { argument: Some("word"), ..places };
        assert!(places.read().unwrap().unwrap().is_exposed);
    }
}
