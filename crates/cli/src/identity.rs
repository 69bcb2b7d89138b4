//! Who a server is: its key, its token secret and the key of its stateless resets, kept in the
//! state directory. The certificate is made from the key at every start; clients look at the key
//! alone.
//!
//! Everything is made on first use. The directory has mode 0700 and the files 0600; a file that
//! others may read is refused rather than repaired, because its content may be known already. A
//! file appears under its name complete or not at all, and the first of two servers that start at
//! the same moment wins.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use mendpath::ResetKey;
use ring::rand::SecureRandom as _;
use rustix::process::getuid;

use crate::{
    failure::{Failure, directory_reason, io_reason},
    token::{SECRET_BYTES, TokenSecret},
};

/// The only name in the certificate; clients look at the key instead.
pub const CERTIFICATE_NAME: &str = "mendpath";

const KEY_FILE: &str = "server-key.pem";
const SECRET_FILE: &str = "token-secret";
const RESET_FILE: &str = "reset-key";

/// A server's identity.
#[derive(Debug)]
pub struct Identity {
    /// The key with a certificate of its own; its pin is what clients compare.
    pub server: mendpath::Identity,
    /// What tokens are made from.
    pub tokens: TokenSecret,
    /// With it, a server that is started again tells its old clients at once to connect anew.
    pub reset_key: ResetKey,
}

/// Where state lives unless `--state` says otherwise: `$XDG_STATE_HOME/mendpath`, else
/// `~/.local/state/mendpath`.
///
/// # Errors
/// When neither variable is set.
pub fn default_state_dir() -> Result<PathBuf, Failure> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|base| base.join("mendpath"))
        .ok_or_else(|| {
            Failure::new(
                "cannot find a place for the server's key",
                "HOME is not set",
                "Name a directory with --state DIR",
            )
        })
}

impl Identity {
    /// Reads the identity in `dir`, and makes what is missing.
    ///
    /// # Errors
    /// When the directory or a file cannot be made or read, when a file's mode lets others read it,
    /// or when a file is damaged.
    pub fn load_or_create(dir: &Path) -> Result<Self, Failure> {
        make_private_dir(dir)?;
        let key_file = dir.join(KEY_FILE);
        let key = stored_or_new(&key_file, || {
            let fresh = mendpath::Identity::self_signed([CERTIFICATE_NAME]);
            fresh.expect("the system has random numbers").to_pem()
        })?;
        let server = mendpath::Identity::from_pem(&key, [CERTIFICATE_NAME])
            .map_err(|_| damaged(&key_file, "it holds no private key in PKCS #8 PEM"))?;
        let tokens = TokenSecret::from_bytes(load_secret(&dir.join(SECRET_FILE))?);
        let reset_key = ResetKey::new(load_secret(&dir.join(RESET_FILE))?);
        Ok(Self { server, tokens, reset_key })
    }
}

/// Whether there is an identity in `dir` that can be used; nothing is made.
///
/// # Errors
/// As [`Identity::load_or_create`], for what is there.
pub(crate) fn examine(dir: &Path) -> Result<bool, Failure> {
    let failed = |path: &Path, error: &io::Error| {
        Failure::new(
            format!("cannot read {}", path.display()),
            format!("{}: {}", path.display(), io_reason(error)),
            "Ask as the user that the server runs as, or as root; or name another directory with --state DIR",
        )
    };
    let about = match fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        about => about.map_err(|error| failed(dir, &error))?,
    };
    if !about.is_dir() {
        // In the words of who would make it.
        make_private_dir(dir).map_err(named)?;
    }
    if about.mode() & 0o022 != 0 {
        return Err(named(open_to_others(dir, about.mode(), "chmod 700")));
    }
    let mut any = false;
    for name in [KEY_FILE, SECRET_FILE, RESET_FILE] {
        let path = dir.join(name);
        match read_private(&path) {
            Err(Unreadable::Io(error)) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(Unreadable::Io(error)) => return Err(failed(&path, &error)),
            Err(Unreadable::Mode(mode)) => return Err(named(open_to_others(&path, mode, "chmod 600"))),
            Ok(_) => any = true,
        }
    }
    // Its content is read, and nothing made, now that all are there.
    let complete = [KEY_FILE, SECRET_FILE, RESET_FILE].iter().all(|name| dir.join(name).exists());
    if complete {
        Identity::load_or_create(dir).map_err(named)?;
    }
    Ok(any)
}

/// The same with what was tried among what is wrong, for those who are shown that alone.
fn named(failure: Failure) -> Failure {
    let (tried, wrong, next) = failure.parts();
    Failure::new(tried, format_args!("{tried}: {wrong}"), next)
}

fn load_secret(path: &Path) -> Result<[u8; SECRET_BYTES], Failure> {
    let text = stored_or_new(path, || URL_SAFE_NO_PAD.encode(TokenSecret::generate().as_bytes()) + "\n")?;
    let bytes = URL_SAFE_NO_PAD.decode(text.trim()).ok();
    let bytes: Option<[u8; SECRET_BYTES]> = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| damaged(path, "it is not 32 bytes of base64url"))
}

fn damaged(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::new(
        format!("cannot use {}", path.display()),
        why,
        "Restore it, or delete it for a new one (clients then need the new invitation)",
    )
}

fn make_private_dir(dir: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::new(
            format!("cannot make the state directory {}", dir.display()),
            directory_reason(dir, &error),
            advice(&error, "Name a directory of your own with --state DIR"),
        )
    };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    let mode = fs::metadata(dir).map_err(failed)?.permissions().mode();
    // Others may look into it (as with a directory made by hand), but nobody else may replace the
    // files inside.
    if mode & 0o022 != 0 {
        return Err(open_to_others(dir, mode, "chmod 700"));
    }
    Ok(())
}

/// What to do: `otherwise`, unless there is no room, where it does not matter whose a directory is.
fn advice(error: &io::Error, otherwise: &'static str) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "Make room on the disk, or name a directory on another with --state DIR"
        }
        _ => otherwise,
    }
}

fn open_to_others(path: &Path, mode: u32, cure: &str) -> Failure {
    Failure::new(
        format!("refusing to use {}", path.display()),
        format!("its mode {:03o} opens it to other users", mode & 0o777),
        format!("Run: {cure} {}", path.display()),
    )
}

/// The text of the private file `path`, which is created with `make`'s if it does not exist.
fn stored_or_new(path: &Path, make: impl FnOnce() -> String) -> Result<String, Failure> {
    let failed = |error: io::Error| {
        Failure::new(
            format!("cannot read or write {}", path.display()),
            io_reason(&error),
            advice(&error, "Check who owns the directory, or name another with --state DIR"),
        )
    };
    match read_private(path) {
        Err(Unreadable::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
        Err(Unreadable::Io(error)) => return Err(failed(error)),
        Err(Unreadable::Mode(mode)) => return Err(open_to_others(path, mode, "chmod 600")),
        Ok(text) => return Ok(text),
    }
    create_private(path, make().as_bytes()).map_err(failed)?;
    // Whoever won a race: what is stored counts.
    read_private(path).map_err(|unreadable| match unreadable {
        Unreadable::Io(error) => failed(error),
        Unreadable::Mode(mode) => open_to_others(path, mode, "chmod 600"),
    })
}

enum Unreadable {
    Io(io::Error),
    Mode(u32),
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn read_private(path: &Path) -> Result<String, Unreadable> {
    let file = fs::File::open(path)?;
    // Asked of the open file: the name may point elsewhere a moment later.
    let mode = file.metadata()?.mode();
    if mode & 0o077 != 0 {
        return Err(Unreadable::Mode(mode));
    }
    Ok(plans::whole_text(file)?)
}

/// Creates `path` with mode 0600, complete or not at all. An existing file stays as it is, which is
/// no error.
fn create_private(path: &Path, content: &[u8]) -> io::Result<()> {
    use io::Write as _;
    let mut random = [0; 12];
    ring::rand::SystemRandom::new().fill(&mut random).map_err(|_| io::Error::other("no random numbers"))?;
    let name =
        format!(".{}.{}", path.file_name().unwrap_or_default().display(), URL_SAFE_NO_PAD.encode(random));
    let temporary = path.with_file_name(name);
    let written = (|| {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        hand_over(&file, path);
        file.sync_all()?;
        // Unlike a rename, a link never replaces what another server has just made.
        match fs::hard_link(&temporary, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    })();
    let removed = fs::remove_file(&temporary);
    written.and(removed)
}

/// What root makes in the directory of a server that is another user, as the packaged one is,
/// belongs to that user: the server has to read it. Root that may not give it away keeps it.
pub(crate) fn hand_over(file: &fs::File, path: &Path) {
    let directory = path.parent().and_then(|directory| fs::metadata(directory).ok());
    if let Some(owner) = directory
        && getuid().is_root()
        && owner.uid() != 0
    {
        let _ = fchown(file, Some(owner.uid()), Some(owner.gid()));
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;
    use crate::token::Service;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn made_once_and_private() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("deep/state");
        let first = Identity::load_or_create(&dir).unwrap();
        assert_eq!(mode(&dir), 0o700);
        let mut names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [RESET_FILE, KEY_FILE, SECRET_FILE]);
        for name in names {
            assert_eq!(mode(&dir.join(name)), 0o600);
        }
        let second = Identity::load_or_create(&dir).unwrap();
        assert_eq!(first.server.pin(), second.server.pin());
        assert_eq!(first.reset_key.as_bytes(), second.reset_key.as_bytes());
        assert_ne!(first.reset_key.as_bytes(), first.tokens.as_bytes());
        assert!(
            second.tokens.accepts(Service::Proxy, first.tokens.invitation_token(Service::Proxy).as_bytes())
        );
    }

    #[test]
    fn what_root_makes_belongs_to_the_server() {
        let (dir, owner) = (tempfile::tempdir().unwrap(), (61_234, 61_235));
        // Others than root cannot make such a directory.
        if std::os::unix::fs::chown(dir.path(), Some(owner.0), Some(owner.1)).is_err() {
            return;
        }
        Identity::load_or_create(dir.path()).unwrap();
        for name in [RESET_FILE, KEY_FILE, SECRET_FILE] {
            let made = fs::metadata(dir.path().join(name)).unwrap();
            assert_eq!((made.uid(), made.gid(), made.mode() & 0o777), (owner.0, owner.1, 0o600));
        }
    }

    #[test]
    fn a_readable_secret_is_refused_with_its_cure() {
        for (name, bad) in [(SECRET_FILE, 0o640), (KEY_FILE, 0o604), (RESET_FILE, 0o644)] {
            let dir = tempfile::tempdir().unwrap();
            Identity::load_or_create(dir.path()).unwrap();
            let path = dir.path().join(name);
            fs::set_permissions(&path, fs::Permissions::from_mode(bad)).unwrap();
            let message = Identity::load_or_create(dir.path()).unwrap_err().to_string();
            assert!(message.contains(&format!("chmod 600 {}", path.display())), "{message}");
        }
    }

    #[test]
    fn a_directory_that_others_may_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o770)).unwrap();
        let message = Identity::load_or_create(dir.path()).unwrap_err().to_string();
        assert!(message.contains("chmod 700"), "{message}");
    }

    #[test]
    fn a_file_in_its_place_is_called_that() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("state");
        fs::write(&file, "mine").unwrap();
        for failure in [Identity::load_or_create(&file).unwrap_err(), examine(&file).unwrap_err()] {
            let (_, wrong, next) = failure.parts();
            assert!(wrong.ends_with("there is a file in the place of a directory"), "{failure}");
            assert_eq!(next, "Name a directory of your own with --state DIR");
        }
        assert_eq!(fs::read(&file).unwrap(), b"mine");
    }

    #[test]
    fn who_has_no_room_is_told_to_make_some() {
        for full in [Errno::NOSPC, Errno::DQUOT] {
            assert!(advice(&full.into(), "Look").starts_with("Make room on the disk"), "{full}");
        }
        assert_eq!(advice(&Errno::ACCESS.into(), "Look"), "Look");
    }

    #[test]
    fn damage_is_named() {
        for name in [SECRET_FILE, KEY_FILE, RESET_FILE] {
            let dir = tempfile::tempdir().unwrap();
            Identity::load_or_create(dir.path()).unwrap();
            fs::write(dir.path().join(name), "nonsense").unwrap();
            let message = Identity::load_or_create(dir.path()).unwrap_err().to_string();
            assert!(message.contains(name) && message.contains("delete it"), "{message}");
        }
    }

    #[test]
    fn the_first_writer_wins() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        create_private(&path, b"first").unwrap();
        create_private(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
