//! The list of controllers, and their names.

use core::{fmt, str::FromStr};

/// Gives every controller to the macro `$to`, one line each: its type, which the variant of
/// [`ControllerKind`] is called as, and its name.
macro_rules! controllers {
    ($to:ident) => {
        $to! {
            /// CUBIC that asks whether a loss is congestion, `auto`.
            Auto = "auto",
            /// RFC 9438, `cubic`.
            Cubic = "cubic",
            /// RFC 9002 section 7, `newreno`.
            NewReno = "newreno",
            /// CTCP section 4.3, `ctcp`.
            Ctcp = "ctcp",
            /// CTCP section 4.3 without what `ctcp` mends of it, `ctcp-printed`.
            CtcpPrinted = "ctcp-printed",
            /// RFC 6356, `lia`: coupled over the paths.
            Lia = "lia",
            /// Khalili et al., `olia`: coupled over the paths.
            Olia = "olia",
            /// Peng et al., `balia`: coupled over the paths.
            Balia = "balia",
            /// RFC 8257, `dctcp`: for data centres only.
            Dctcp = "dctcp",
        }
    };
}
pub(crate) use controllers;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)+) => {
        /// The controllers there are.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum ControllerKind {
            $($(#[$doc])* $kind,)+
        }

        impl ControllerKind {
            /// Every controller, in the order in which help texts list them.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// The name that users type.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }
        }
    };
}
controllers!(kinds);

impl fmt::Display for ControllerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ControllerKind {
    type Err = UnknownController;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.iter().find(|kind| kind.name().eq_ignore_ascii_case(name));
        known.copied().ok_or_else(|| UnknownController { name: name.to_owned() })
    }
}

/// A name that is no controller's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownController {
    /// What was asked for.
    pub name: String,
}

impl fmt::Display for UnknownController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a congestion controller; there are", self.name)?;
        for (i, kind) in ControllerKind::ALL.iter().enumerate() {
            write!(f, "{} {kind}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownController {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_list_the_names() {
        let error = "vegas".parse::<ControllerKind>().unwrap_err().to_string();
        assert!(
            error.starts_with("`vegas` is not a congestion controller; there are auto, cubic, newreno"),
            "{error}"
        );
        for kind in ControllerKind::ALL {
            assert!(error.contains(kind.name()));
        }
    }
}
