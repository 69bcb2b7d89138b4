//! The name under which a file from elsewhere is stored.

/// Bytes of a name; file systems take 255, and a suffix must fit.
const MAX_NAME: usize = 200;

/// A name without directories, control characters and a leading dot, for a name that a stranger
/// chose; `None` if nothing is left.
pub fn safe_name(sent: &str) -> Option<String> {
    let last = sent.rsplit(['/', '\\']).next().unwrap_or_default();
    let clean: String = last.chars().filter(|c| !c.is_control() && !is_unseen(*c)).collect();
    let clean = clean.trim();
    if clean.trim_matches('.').is_empty() {
        return None;
    }
    // A file that hides itself, or that a shell reads at its start, is nobody's wish.
    let visible = match clean.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => clean.to_owned(),
    };
    let end = (0..=MAX_NAME.min(visible.len())).rev().find(|&i| visible.is_char_boundary(i))?;
    Some(visible[..end].to_owned())
}

/// Characters that turn the order of others around, so that `photo[RLO]gpj.exe` looks like a picture, or
/// that end a line.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stranger_cannot_choose_the_place() {
        let safe = |name| safe_name(name).unwrap_or_default();
        assert_eq!(safe("photo.jpg"), "photo.jpg");
        assert_eq!(safe("/etc/passwd"), "passwd");
        assert_eq!(safe("..\\..\\boot.ini"), "boot.ini");
        assert_eq!(safe(".ssh/authorized_keys"), "authorized_keys");
        assert_eq!(safe(".bashrc"), "_bashrc");
        assert_eq!(safe("a\x1b[2Jb\n"), "a[2Jb");
        assert_eq!(safe("photo\u{202e}gpj.exe\u{2066}\u{2028}"), "photogpj.exe", "as it is, not as it looks");
        for nothing in ["", "/", "..", "a/..", "\n", " . "] {
            assert_eq!(safe_name(nothing), None, "{nothing:?}");
        }
    }

    proptest! {
        #[test]
        fn any_name_becomes_harmless(sent in ".{0,300}") {
            if let Some(name) = safe_name(&sent) {
                prop_assert!(!name.is_empty() && name.len() <= MAX_NAME);
                prop_assert!(!name.contains(['/', '\\', '\0', '\n']) && !name.starts_with('.'));
                prop_assert_eq!(std::path::Path::new(&name).file_name().and_then(|n| n.to_str()), Some(name.as_str()));
            }
        }
    }
}
