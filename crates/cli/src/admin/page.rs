//! The page: one file without anything from outside, and what a browser may do with it.

use std::sync::LazyLock;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper::header::HeaderValue;
use ring::digest;

const SHELL: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPTS: [&str; 4] = [
    include_str!("page/words.js"),
    include_str!("page/charts.js"),
    include_str!("page/tables.js"),
    include_str!("page/main.js"),
];

/// The page as it is sent.
pub(super) static PAGE: LazyLock<String> =
    LazyLock::new(|| SHELL.replace("/*style*/", STYLE).replace("/*script*/", &script()));

/// It may run its own script and style, and ask this server; nothing else, and nobody may frame it.
pub(super) static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(&script()),
        hash(STYLE),
    );
    HeaderValue::try_from(policy).expect("hashes are plain text")
});

/// What else keeps others' pages away from this one.
pub(super) const PROTECTION: [(&str, &str); 3] = [
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
];

fn script() -> String {
    SCRIPTS.concat()
}

/// As a policy names an inline script or style.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(digest::digest(&digest::SHA256, text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_from_outside_and_all_is_in_place() {
        for foreign in
            ["http://", "https://", "//cdn", "@import", "url(", "/*style*/", "/*script*/", "import("]
        {
            assert!(!PAGE.contains(foreign), "{foreign}");
        }
        assert!(PAGE.contains("new EventSource(\"events\")"));
        let policy = POLICY.to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    }
}
