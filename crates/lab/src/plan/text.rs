//! Values that are written as text.

use std::{fmt::Display, str::FromStr};

use serde::{Deserialize, Deserializer, de::Error};

/// A value that parses from text.
pub(super) fn text<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(from: D) -> Result<T, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

/// The same, if there.
pub(super) fn maybe<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    text(from).map(Some)
}

/// A list of values that parse from text.
pub(super) fn texts<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
}

/// A list of pairs.
pub(super) fn pairs<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    from: D,
) -> Result<Vec<[T; 2]>, D::Error> {
    let parse = |text: &String| text.parse().map_err(D::Error::custom);
    let pairs = Vec::<[String; 2]>::deserialize(from)?;
    pairs.iter().map(|[a, b]| Ok([parse(a)?, parse(b)?])).collect()
}
