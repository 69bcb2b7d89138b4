//! What it means which sizes of packets pass.

use std::io::ErrorKind;

use super::Finding;
use crate::probe::{Outcome, SIZES, words};

/// What the outcomes mean.
pub(super) fn judge(check: String, outcomes: [Outcome; 3], path: &str) -> Finding {
    let passes = SIZES.iter().zip(outcomes).filter(|(_, outcome)| *outcome == Outcome::Passes);
    let largest = passes.map(|(size, _)| *size).max();
    let stopped = SIZES.iter().zip(outcomes).find(|(_, outcome)| *outcome != Outcome::Passes);
    let (Some((size, outcome)), least) = (stopped, SIZES[0]) else {
        return Finding::ok(check, format_args!("packets of {} bytes pass", SIZES[2]));
    };
    let words = words(outcome);
    let found = format!("packets of {size} bytes {words}");
    match (largest, outcome) {
        (None, Outcome::Refused) => {
            Finding::problem(check, found, "Start `mendpath server` there, or check the port")
        }
        (None, Outcome::Silence) => Finding::problem(
            check,
            found,
            "Open the server's UDP port in every firewall, here, there and at the hosting provider; some networks let no UDP out",
        ),
        (None, Outcome::Fails(ErrorKind::PermissionDenied)) => {
            Finding::problem(check, found, "Let UDP out in this machine's own firewall (nft list ruleset)")
        }
        (None, Outcome::Fails(_)) => {
            Finding::problem(check, found, format_args!("Check the routes of {path} (ip route)"))
        }
        (None, _) => Finding::problem(
            check,
            found,
            format_args!(
                "QUIC needs {least}: raise the MTU of {path} or of what lies on its way to 1280 or more"
            ),
        ),
        (Some(passes), _) => Finding::warning(
            check,
            format_args!("{found}; those of {passes} pass"),
            "It works, with smaller packets: a tunnel or a low MTU lies on the way",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn outcomes_have_words_of_their_own() {
        use Outcome::{Fails, Passes, Refused, Silence, TooLargeHere, TooLargeThere};
        for (outcomes, verdict, words) in [
            ([Passes, Passes, Passes], Verdict::Ok, "1450 bytes pass"),
            ([Passes, Passes, Silence], Verdict::Warning, "1450 bytes get no answer"),
            ([Passes, TooLargeThere, TooLargeThere], Verdict::Warning, "those of 1200 pass"),
            ([TooLargeHere; 3], Verdict::Problem, "too large for the interface"),
            ([Silence; 3], Verdict::Problem, "no answer"),
            ([Refused; 3], Verdict::Problem, "nothing listens"),
            ([Fails(ErrorKind::PermissionDenied); 3], Verdict::Problem, "permission denied"),
            ([Fails(ErrorKind::NetworkUnreachable); 3], Verdict::Problem, "cannot be sent"),
        ] {
            let finding = judge("mtu".into(), outcomes, "wlan0");
            assert_eq!(finding.verdict, verdict, "{finding:?}");
            assert!(finding.found.contains(words), "{finding:?}");
        }
    }
}
