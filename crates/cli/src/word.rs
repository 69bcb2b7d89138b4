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

/// Shows and reads a type of such values: those of its `ALL`.
macro_rules! words {
    ($type:ty) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad($crate::word::of(&Self::ALL, self))
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $crate::word::read(&Self::ALL, text)
            }
        }
    };
}

pub(crate) use words;

#[cfg(test)]
mod tests {
    use crate::console::LogFormat;

    #[test]
    fn what_is_shown_is_read_and_nothing_else() {
        for format in [LogFormat::Text, LogFormat::Json] {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        let refusal = "there is no `yaml`: use one of text, json".to_owned();
        assert_eq!("yaml".parse::<LogFormat>(), Err(refusal));
        assert_eq!(format!("{:6}|", LogFormat::Text), "text  |");
    }
}
