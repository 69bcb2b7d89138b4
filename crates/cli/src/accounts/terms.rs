//! What an account may do, and for how long.

use std::{
    net::IpAddr,
    time::{Duration, SystemTime},
};

use ipnet::IpNet;
use units::{BitRate, Bytes};

/// The terms of an invitation; the default ones have no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// From then on it is over.
    pub expires: Option<SystemTime>,
    /// What may pass in both directions together.
    pub quota: Option<Bytes>,
    /// How fast it may pass, in each direction.
    pub rate: Option<BitRate>,
    /// Where it may connect to, of what the server permits; everywhere if empty.
    pub allow: Vec<IpNet>,
}

/// Why an account may not be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Its operator took it back.
    Revoked,
    /// Its time is over.
    Expired,
    /// Its quota is used up.
    UsedUp,
}

impl Over {
    /// The word for tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Revoked => "revoked",
            Self::Expired => "expired",
            Self::UsedUp => "used-up",
        }
    }
}

impl Terms {
    /// Whether these terms are over at `now`, with `used` bytes; `None` while they hold.
    pub fn over(&self, used: u64, now: SystemTime) -> Option<Over> {
        if self.expires.is_some_and(|expires| expires <= now) {
            return Some(Over::Expired);
        }
        self.quota.is_some_and(|quota| quota.get() <= used).then_some(Over::UsedUp)
    }

    /// Whether an account with these terms may connect to `ip`. An address that is an IPv4 one in
    /// another form is judged as that.
    pub fn allows(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.allow.is_empty() || self.allow.iter().any(|net| net.contains(&ip))
    }
}

/// When something ends that was said to end at `text`: after a time from `now` (`30d`, `12h`), or
/// at a moment (`2027-01-31`, `2027-01-31T12:00:00Z`).
///
/// # Errors
/// What may stand there.
pub fn parse_expiry(text: &str, now: SystemTime) -> Result<SystemTime, String> {
    let moment = || {
        let at_midnight = format!("{text}T00:00:00Z");
        humantime::parse_rfc3339(text).or_else(|_| humantime::parse_rfc3339(&at_midnight)).ok()
    };
    let after = humantime::parse_duration(text).ok().filter(|time| *time <= LONGEST);
    let expires = after.and_then(|time| now.checked_add(time)).or_else(moment);
    match expires {
        Some(expires) if expires > now => Ok(expires),
        Some(_) => Err(format!("`{text}` is past")),
        None => Err(format!("`{text}` is neither a time (`30d`, `12h`) nor a date (`2027-01-31`)")),
    }
}

/// A thousand years: what can be written as a date.
const LONGEST: Duration = Duration::from_secs(1_000 * 365 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn terms_end_at_their_time_and_with_their_last_byte() {
        let terms = Terms { expires: Some(at(100)), quota: Some(Bytes(50)), ..Terms::default() };
        assert_eq!(terms.over(49, at(99)), None);
        assert_eq!(terms.over(49, at(100)), Some(Over::Expired));
        assert_eq!(terms.over(50, at(99)), Some(Over::UsedUp));
        assert_eq!(Terms::default().over(u64::MAX, at(u32::MAX.into())), None);
    }

    #[test]
    fn addresses_are_judged_by_their_network() {
        let allow = ["192.0.2.0/24", "2001:db8::/32"].map(|net| net.parse().unwrap()).to_vec();
        let terms = Terms { allow, ..Terms::default() };
        let allows = |ip: &str| terms.allows(ip.parse().unwrap());
        assert!(allows("192.0.2.9") && allows("2001:db8::9") && allows("::ffff:192.0.2.9"));
        assert!(!allows("192.0.3.9") && !allows("2001:db9::9") && !allows("::ffff:192.0.3.9"));
        assert!(Terms::default().allows("192.0.3.9".parse().unwrap()));
    }

    #[test]
    fn an_end_is_a_time_or_a_date_to_come() {
        let now = at(1_800_000_000);
        let expiry = |text: &str| parse_expiry(text, now);
        assert_eq!(expiry("30d"), Ok(at(1_800_000_000 + 30 * 86_400)));
        assert_eq!(expiry("1h 30m"), Ok(at(1_800_000_000 + 5_400)));
        assert_eq!(expiry("2027-02-01"), Ok(at(1_801_440_000)));
        assert_eq!(expiry("2027-02-01T00:00:10Z"), Ok(at(1_801_440_010)));
        assert!(expiry("2026-01-01").unwrap_err().contains("is past"));
        assert!(expiry("0s").unwrap_err().contains("is past"));
        for bad in ["", "soon", "30", "-1d", "99999999999y", "9999999999999999999d"] {
            assert!(expiry(bad).unwrap_err().contains("neither a time"), "{bad}");
        }
    }
}
