//! Invitations, as a user pastes them.

use mendpath_cli::{invitation::Invitation, target::Target};

/// Any text.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    match text.parse::<Invitation>() {
        Ok(invitation) => {
            let written = invitation.to_string();
            assert_eq!(written.parse().as_ref(), Ok(&invitation));
            assert!(invitation.server.port != 0);
        }
        Err(error) => {
            // What is between the scheme and the `@` may be a token: no message repeats it.
            let token = text.trim().strip_prefix("mendpath://").and_then(|rest| rest.split_once('@'));
            if let Some((token, rest)) = token.filter(|(token, _)| token.len() > 40) {
                assert!(rest.contains(token) || !error.to_string().contains(token));
            }
        }
    }
    if let Ok(target) = text.parse::<Target>() {
        assert_eq!(target.to_string().parse(), Ok(target));
    }
}
