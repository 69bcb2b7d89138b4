//! An account as `invite list` and `invite show` print it.

use std::time::SystemTime;

use serde::Serialize;
use units::{BitRate, Bytes};

use crate::accounts::Record;

pub(super) const HEADINGS: [&str; 8] =
    ["name", "status", "used", "quota", "rate", "expires", "last used", "allowed"];

/// `docs/json.md` describes the fields.
#[derive(Serialize)]
pub(super) struct AccountRow {
    name: String,
    status: &'static str,
    created: String,
    expires: Option<String>,
    revoked: Option<String>,
    quota_bytes: Option<u64>,
    rate_bits_per_second: Option<u64>,
    allow: Vec<String>,
    up_bytes: u64,
    down_bytes: u64,
    last_used: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Shown {
    #[serde(flatten)]
    pub(super) account: AccountRow,
    pub(super) invitation: String,
}

impl AccountRow {
    pub(super) fn new(record: &Record, now: SystemTime) -> Self {
        let terms = &record.terms;
        Self {
            name: record.name.to_string(),
            status: record.over(now).map_or("active", |over| over.name()),
            created: moment(record.created),
            expires: terms.expires.map(moment),
            revoked: record.revoked.map(moment),
            quota_bytes: terms.quota.map(Bytes::get),
            rate_bits_per_second: terms.rate.map(BitRate::bits_per_second),
            allow: terms.allow.iter().map(ToString::to_string).collect(),
            up_bytes: record.usage.up,
            down_bytes: record.usage.down,
            last_used: record.seen.map(moment),
        }
    }

    /// What stands below [`HEADINGS`].
    pub(super) fn cells(self) -> [String; 8] {
        let none = || "-".to_owned();
        [
            self.name,
            self.status.to_owned(),
            Bytes(self.up_bytes + self.down_bytes).to_string(),
            self.quota_bytes.map_or_else(none, |quota| Bytes(quota).to_string()),
            self.rate_bits_per_second.map_or_else(none, |rate| BitRate(rate).to_string()),
            self.expires.unwrap_or_else(|| "never".to_owned()),
            self.last_used.unwrap_or_else(|| "never".to_owned()),
            if self.allow.is_empty() { "any".to_owned() } else { self.allow.join(" ") },
        ]
    }
}

fn moment(moment: SystemTime) -> String {
    humantime::format_rfc3339_seconds(moment).to_string()
}
