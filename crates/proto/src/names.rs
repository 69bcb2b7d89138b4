//! Names that users type, of whatever is in a registry.

use core::fmt;

/// A name that is not in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    what: &'static str,
    name: String,
    known: String,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} `{}`; there are: {}", self.what, self.name, self.known)
    }
}

impl std::error::Error for UnknownName {}

/// The one of `all` that is called `name`; the error lists them.
pub(crate) fn by_name<T: Copy>(
    what: &'static str,
    all: &[T],
    name_of: impl Fn(T) -> &'static str,
    name: &str,
) -> Result<T, UnknownName> {
    all.iter().copied().find(|kind| name_of(*kind) == name).ok_or_else(|| UnknownName {
        what,
        name: name.to_owned(),
        known: all.iter().map(|kind| name_of(*kind)).collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use crate::RecoveryKind;

    #[test]
    fn names_round_trip_and_errors_list_them() {
        for kind in RecoveryKind::ALL {
            assert_eq!(kind.name().parse(), Ok(*kind));
        }
        let error = "fussy".parse::<RecoveryKind>().unwrap_err().to_string();
        let names: Vec<_> = RecoveryKind::ALL.iter().map(|kind| kind.name()).collect();
        let known = names.join(", ");
        assert_eq!(error, format!("unknown recovery scheme `fussy`; there are: {known}"));
        assert!(known.starts_with("none, proactive, fuso, "), "{known}");
    }
}
