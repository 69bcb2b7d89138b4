//! Values that users write as one word of a few.

/// The value of `all` that is called `text`.
///
/// # Errors
/// A message that lists what exists.
pub(crate) fn read<T: Copy>(all: &[(T, &str)], text: &str) -> Result<T, String> {
    let found = all.iter().find(|(_, word)| *word == text).map(|(value, _)| *value);
    found.ok_or_else(|| unknown(text, all.iter().map(|(_, word)| *word)))
}

/// What `value` is called, which is among `all`.
pub(crate) fn of<T: PartialEq>(all: &[(T, &'static str)], value: &T) -> &'static str {
    all.iter().find(|(known, _)| known == value).map_or("", |(_, word)| *word)
}

/// What is said of a word that is none of `words`.
pub(crate) fn unknown<'a>(text: &str, words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.collect();
    format!("there is no `{text}`: use one of {}", words.join(", "))
}
