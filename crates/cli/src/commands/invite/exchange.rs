//! `mendpath invite export` and `import`: the accounts of a fleet, from one server to the others.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read},
    path::Path,
    time::SystemTime,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use units::{BitRate, Bytes};

use super::Office;
use crate::{
    accounts::{self, AccountId, LATEST, Name, Record, Terms, Usage},
    console::print,
    console::say,
    failure::{Failure, io_reason},
};

/// The longest list: far more than 100,000 accounts.
const MAX_LIST: u64 = 64 << 20;

/// An account as it travels; `docs/json.md` describes the fields.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    id: String,
    name: String,
    created_ms: u64,
    #[serde(default)]
    expires_ms: Option<u64>,
    #[serde(default)]
    quota_bytes: Option<u64>,
    #[serde(default)]
    rate_bits_per_second: Option<u64>,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    revoked_ms: Option<u64>,
}

impl Office {
    pub(super) fn export(&self) -> Result<(), Failure> {
        for record in self.store.list()? {
            let line = serde_json::to_string(&Line::from(&record)).expect("it has text for keys");
            print(&(line + "\n"))?;
        }
        Ok(())
    }

    pub(super) fn import(&mut self, file: &Path) -> Result<(), Failure> {
        let tried = format!("cannot take over accounts from {}", file.display());
        let wrong = |why: String| {
            Failure::usage(&tried, why, "Give it what `mendpath invite export` prints on another server")
        };
        let from: Box<dyn Read> = if file == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(file).map_err(|error| wrong(io_reason(&error)))?)
        };
        let records = read(from).map_err(wrong)?;
        let ours = self.store.find(&Name::owner())?.id;
        if records
            .iter()
            .any(|record| record.name == Name::owner() && record.revoked.is_none() && record.id != ours)
        {
            return Err(Failure::usage(
                tried,
                "they are of a server with another token-secret: their invitations would open nothing here",
                "Copy token-secret, server-key.pem and reset-key to this server first, and start it again",
            ));
        }
        let differed = self.store.merge(&records)?;
        say(format_args!("{differed} of {} accounts were new here or differed", records.len()));
        Ok(())
    }
}

/// Every line as an account, of which a server has one at least.
fn read(from: impl Read) -> Result<Vec<Record>, String> {
    let lines = BufReader::new(from.take(MAX_LIST)).lines();
    let read = lines.zip(1..).map(|(line, number): (_, usize)| {
        let line = line.map_err(|error| io_reason(&error))?;
        let line: Line = serde_json::from_str(&line).map_err(|error| format!("line {number}: {error}"))?;
        Record::try_from(line).map_err(|why| format!("line {number}: {why}"))
    });
    let records = read.collect::<Result<Vec<_>, String>>()?;
    if records.is_empty() { Err("there is no account in it".into()) } else { Ok(records) }
}

impl From<&Record> for Line {
    fn from(record: &Record) -> Self {
        let Terms { expires, quota, rate, allow } = &record.terms;
        Self {
            id: URL_SAFE_NO_PAD.encode(record.id.0),
            name: record.name.to_string(),
            created_ms: millis(record.created),
            expires_ms: expires.map(millis),
            quota_bytes: quota.map(Bytes::get),
            rate_bits_per_second: rate.map(|rate| rate.bits_per_second()),
            allow: allow.iter().map(ToString::to_string).collect(),
            revoked_ms: record.revoked.map(millis),
        }
    }
}

impl TryFrom<Line> for Record {
    type Error = String;

    fn try_from(line: Line) -> Result<Self, String> {
        let id = URL_SAFE_NO_PAD.decode(&line.id).ok().and_then(|id| id.try_into().ok());
        let allow = line.allow.iter().map(|network| {
            network.parse().map_err(|_| format!("`{}` is no network", network.escape_default()))
        });
        let terms = Terms {
            expires: line.expires_ms.map(moment).transpose()?,
            quota: line.quota_bytes.map(Bytes),
            rate: line.rate_bits_per_second.map(BitRate),
            allow: allow.collect::<Result<_, _>>()?,
        };
        Ok(Self {
            id: AccountId(id.ok_or("its id is not 16 bytes of base64url")?),
            name: line.name.parse().map_err(|error: crate::accounts::NameError| error.to_string())?,
            created: moment(line.created_ms)?,
            terms,
            revoked: line.revoked_ms.map(moment).transpose()?,
            usage: Usage::default(),
            seen: None,
        })
    }
}

fn millis(moment: SystemTime) -> u64 {
    accounts::millis(moment).unsigned_abs()
}

fn moment(millis: u64) -> Result<SystemTime, String> {
    if millis > LATEST {
        return Err(format!("{millis} is no moment"));
    }
    Ok(accounts::moment(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_reads_back() {
        let terms = Terms {
            expires: Some(moment(1_900_000_000_000).unwrap()),
            quota: Some(Bytes(5)),
            rate: Some(BitRate::from_mbps(1)),
            allow: vec!["192.0.2.0/24".parse().unwrap()],
        };
        let created = moment(1_800_000_000_000).unwrap();
        let name: Name = "alice".parse().unwrap();
        let first = Record { created, ..Record::new(AccountId([7; 16]), name.clone(), terms) };
        let gone = Record {
            id: AccountId([8; 16]),
            terms: Terms::default(),
            revoked: Some(created),
            ..first.clone()
        };
        let text: String =
            [&first, &gone].map(|record| serde_json::to_string(&Line::from(record)).unwrap() + "\n").concat();
        assert_eq!(read(text.as_bytes()), Ok(vec![first, gone]));
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let good = r#"{"id":"AAAAAAAAAAAAAAAAAAAAAA","name":"a","created_ms":1}"#;
        assert_eq!(read(good.as_bytes()).unwrap().len(), 1);
        assert_eq!(read("".as_bytes()).unwrap_err(), "there is no account in it");
        let error = |line: String| read(format!("{good}\n{line}").as_bytes()).unwrap_err();
        assert!(error("mendpath://".into()).starts_with("line 2: expected value"));
        assert!(error(good.replace("AAAA\"", "A\"")).contains("16 bytes of base64url"));
        assert!(error(good.replace(r#""a""#, r#""a b""#)).contains("a name has up to 64"));
        assert!(error(good.replace(":1", ":9999999999999999999")).starts_with("line 2: "));
        assert!(error(good.replace(":1", r#":1,"allow":["x\u001b"]"#)).contains("is no network"));
    }
}
