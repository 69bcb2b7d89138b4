//! `mendpath doctor`: tries what usually goes wrong, and says what to do.
//!
//! Each check is one [`Finding`]. What can be judged without asking the system is a function of its
//! own, so that tests can show it what no test machine has.

pub(crate) mod client;
mod machine;
pub(crate) mod server;
mod sizes;

use std::fmt::Display;

use serde::Serialize;

use crate::console::in_colour;

/// The `schema` of the JSON.
const SCHEMA: &str = "mendpath-doctor/1";

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// As it should be.
    Ok,
    /// It works, but could work better, or could not be examined.
    Warning,
    /// It does not work.
    Problem,
}

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What was examined: a few small words, and the path if there are several.
    pub(crate) check: String,
    pub(crate) verdict: Verdict,
    /// A clause without a full stop.
    pub(crate) found: String,
    /// What to do: an imperative sentence without a full stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cure: Option<String>,
}

impl Finding {
    /// As it should be.
    pub(crate) fn ok(check: impl Display, found: impl Display) -> Self {
        Self { check: check.to_string(), verdict: Verdict::Ok, found: found.to_string(), cure: None }
    }

    /// It could be better.
    pub(crate) fn warning(check: impl Display, found: impl Display, cure: impl Display) -> Self {
        Self { verdict: Verdict::Warning, cure: Some(cure.to_string()), ..Self::ok(check, found) }
    }

    /// It does not work.
    pub(crate) fn problem(check: impl Display, found: impl Display, cure: impl Display) -> Self {
        Self { verdict: Verdict::Problem, ..Self::warning(check, found, cure) }
    }
}

/// Everything that was found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    schema: &'static str,
    /// `client` or `server`.
    side: &'static str,
    problems: usize,
    warnings: usize,
    checks: Vec<Finding>,
}

impl Report {
    /// In this order.
    pub(crate) fn new(side: &'static str, checks: Vec<Finding>) -> Self {
        let count = |verdict| checks.iter().filter(|finding| finding.verdict == verdict).count();
        let (problems, warnings) = (count(Verdict::Problem), count(Verdict::Warning));
        Self { schema: SCHEMA, side, problems, warnings, checks }
    }

    /// 1 if something does not work.
    pub(crate) fn exit_code(&self) -> u8 {
        u8::from(self.problems > 0)
    }

    /// A line for each check, and one for all; in colour on a terminal that has some.
    pub(crate) fn text(&self) -> String {
        self.lines(in_colour(&std::io::stdout()))
    }

    fn lines(&self, colour: bool) -> String {
        let width = self.checks.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
        let line = |Finding { check, verdict, found, cure }: &Finding| {
            let (word, code) = match verdict {
                Verdict::Ok => ("ok     ", "32"),
                Verdict::Warning => ("warning", "33"),
                Verdict::Problem => ("problem", "31"),
            };
            let word = if colour { format!("\x1b[{code}m{word}\x1b[0m") } else { word.to_owned() };
            let cure = cure.as_ref().map(|cure| format!(". {cure}")).unwrap_or_default();
            format!("{word}  {check:width$}  {found}{cure}\n")
        };
        let many = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        let all: String = self.checks.iter().map(line).collect();
        format!("{all}\n{}, {}\n", many(self.problems, "problem"), many(self.warnings, "warning"))
    }

    /// One object.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain keys") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_aligned_and_in_colour_only_if_wanted() {
        let checks = vec![
            Finding::ok("name", "found"),
            Finding::warning("udp wlan0", "slow", "Wait"),
            Finding::problem("udp", "blocked", "Open it"),
        ];
        let report = Report::new("client", checks);
        assert_eq!(
            report.lines(false),
            "ok       name       found\nwarning  udp wlan0  slow. Wait\nproblem  udp        blocked. Open it\n\n1 problem, 1 warning\n"
        );
        assert!(report.lines(true).starts_with("\x1b[32mok     \x1b[0m  name"));
        assert_eq!((report.exit_code(), Report::new("client", Vec::new()).exit_code()), (1, 0));
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!((&json["schema"], &json["problems"]), (&SCHEMA.into(), &1.into()));
        assert_eq!(
            json["checks"][0],
            serde_json::json!({"check": "name", "verdict": "ok", "found": "found"})
        );
    }
}
