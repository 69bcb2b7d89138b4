//! Both ends of a call: `mendpath lab call-server` and, for each call, `mendpath lab call-client`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use units::Duration;

use super::{
    ADMIN, Admin, Programs, START, Starter,
    mendpath::{INSTALL, schemes, words},
};
use crate::{
    CallOutcome, Contender, Entry, LabError,
    bed::{SERVER, TestBed, client_address},
    clock,
    process::Process,
};

/// Where the sender listens.
const PORT: u16 = 4_433;
/// How much longer than the call itself its ends may take, to connect and to find out what became of
/// the last frames.
const PATIENCE: Duration = Duration::from_secs(30);

/// The sender's end, ready for calls; it ends when this is dropped.
pub(crate) struct Caller {
    pub(crate) programs: Programs,
    directory: PathBuf,
    words: Vec<String>,
}

/// A call under way.
pub(crate) struct UnderWay {
    client: Process,
    result: PathBuf,
    cuts: PathBuf,
}

impl Starter<'_> {
    /// Starts the sender of a contender's calls.
    pub(crate) fn caller(&self, contender: &Contender, bed: &TestBed) -> Result<Caller, LabError> {
        let Contender::Mendpath { recovery, entry, .. } = contender else {
            return Err(LabError::Contender {
                contender: contender.to_string(),
                reason: "it makes no calls".to_owned(),
            });
        };
        let protection = match entry {
            Entry::Copies => "copies",
            Entry::Fec => "fec",
            _ => "scheme",
        };
        let mut schemes = schemes(contender);
        if recovery.is_none() && protection != "scheme" {
            schemes.push("--recovery=none".to_owned());
        }
        let directory = self.directory.sub_directory()?;
        let dir = format!("--dir={}", directory.display());
        let mut server = words([
            &self.mendpath.display().to_string(),
            "lab",
            "call-server",
            &format!("--listen=0.0.0.0:{PORT}"),
            &format!("--admin={ADMIN}"),
            &format!("--protection={protection}"),
            &dir,
        ]);
        server.extend(schemes.iter().cloned());
        let mut server = Process::start(&bed.server, &server, INSTALL, self.directory)?;
        let line = clock::poll_until(START, self.cancel, || {
            server.check()?;
            Ok(server.first_line())
        })?;
        line.ok_or_else(|| server.failure("it did not say that it listens"))?;
        let mut client = words([
            &self.mendpath.display().to_string(),
            "lab",
            "call-client",
            &format!("--server={SERVER}:{PORT}"),
            &dir,
        ]);
        client.extend(contender.paths(bed.paths.len()).into_iter().map(|path| {
            let address = client_address(path);
            format!("--from={address}")
        }));
        client.extend(schemes);
        let admin = Admin { client: None, server: Some(ADMIN) };
        Ok(Caller { programs: Programs { processes: vec![server], admin }, directory, words: client })
    }
}

impl Caller {
    /// Makes a call, and waits until its ends are connected and it begins.
    pub(crate) fn begin(
        &self,
        starter: &Starter<'_>,
        bed: &TestBed,
        time: Duration,
        deadline: Duration,
        seed: u64,
    ) -> Result<UnderWay, LabError> {
        let [result, cuts] = ["result", "cuts"].map(|name| self.directory.join(name));
        for file in [&result, &cuts] {
            let _ = fs::remove_file(file);
        }
        let mut words = self.words.clone();
        words.extend([
            format!("--time={time}"),
            format!("--deadline={deadline}"),
            format!("--seed={seed}"),
            format!("--result={}", result.display()),
            format!("--cuts={}", cuts.display()),
        ]);
        let mut client = Process::start(&bed.client, &words, INSTALL, starter.directory)?;
        let begun = clock::poll_until(START, starter.cancel, || {
            client.check()?;
            Ok(client.first_line())
        })?;
        match begun {
            Some(_) => Ok(UnderWay { client, result, cuts }),
            None => Err(client.failure(&format!("it has not begun after {START}"))),
        }
    }
}

impl UnderWay {
    /// Where the receiving end looks for the times of cuts, before it judges.
    pub(crate) fn cuts(&self) -> &Path {
        &self.cuts
    }

    /// Waits for the end of a call that takes so long.
    pub(crate) fn end(mut self, time: Duration, starter: &Starter<'_>) -> Result<CallOutcome, LabError> {
        let ended = clock::poll_until(time + PATIENCE, starter.cancel, || self.client.ended())?;
        let Some(success) = ended else { return Err(self.client.failure("the call does not end")) };
        if !success {
            return Err(self.client.failure("the call failed"));
        }
        let text = fs::read_to_string(&self.result);
        let text = text.map_err(LabError::system(format!("read {}", self.result.display())))?;
        serde_json::from_str(&text)
            .map_err(|error| self.client.failure(&format!("it wrote no outcome of a call: {error}")))
    }
}
