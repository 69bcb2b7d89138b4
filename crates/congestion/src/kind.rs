//! The registry of controllers: names, configuration, construction.

use core::{fmt, str::FromStr};

use crate::{Auto, Balia, Controller, Ctcp, Cubic, Dctcp, Lia, NewReno, Olia};

/// What a controller needs to know when its path is made. Build it with `..Config::default()`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Initial window in packets of [`max_datagram_size`](Self::max_datagram_size). Default 10 (RFC
    /// 9002 section 7.2; its second limit of 14,720 bytes is not applied, as it would only bind
    /// with datagrams above 1,472 bytes).
    pub initial_window_packets: u64,
    /// Smallest window in packets. Default 2 (RFC 9002 section 7.2).
    pub minimum_window_packets: u64,
    /// The path's maximum datagram size in bytes of UDP payload. Default 1,200.
    pub max_datagram_size: u64,
    /// Whether `cubic` leaves its first slow start by HyStart++ (RFC 9406). Default off; without
    /// effect on [`CubicRules::Linux`], which has a HyStart of its own.
    pub hystart: bool,
    /// The rules of `cubic` where specification and kernel differ. Default RFC 9438.
    pub cubic_rules: CubicRules,
}

/// What `cubic` does where RFC 9438 and Linux (6.18 and before) differ. The kernel's rules are for
/// simulations of it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum CubicRules {
    /// The Reno-friendly estimate grows by a segment per round trip from where the last reduction
    /// began (section 4.3).
    #[default]
    Rfc9438,
    /// The estimate grows by 3 (1 - beta) / (1 + beta) segments throughout, as in RFC 8312
    /// section 4.2; the window grows by at least a twentieth per round trip until the first
    /// reduction after a start or a timeout; reductions are in whole segments, rounded down before
    /// and after; the first slow start ends by the original HyStart.
    Linux,
}

impl Config {
    /// The default with another maximum datagram size, in bytes of UDP payload.
    pub fn with_max_datagram_size(max_datagram_size: u64) -> Self {
        Self { max_datagram_size, ..Self::default() }
    }

    /// Initial window in bytes.
    pub fn initial_window(&self) -> u64 {
        self.initial_window_packets.max(self.minimum_window_packets).saturating_mul(self.max_datagram_size)
    }

    /// Smallest window in bytes.
    pub fn minimum_window(&self) -> u64 {
        self.minimum_window_packets.saturating_mul(self.max_datagram_size)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            initial_window_packets: 10,
            minimum_window_packets: 2,
            max_datagram_size: 1_200,
            hystart: false,
            cubic_rules: CubicRules::Rfc9438,
        }
    }
}

/// Makes [`ControllerKind`]: one line per controller gives its type, which the variant is called as,
/// and its name.
macro_rules! registry {
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

            /// A controller of this kind for a new path.
            pub fn build(self, config: &Config) -> Box<dyn Controller> {
                match self {
                    $(Self::$kind => Box::new($kind::new(config)),)+
                }
            }
        }
    };
}

registry! {
    /// CUBIC that asks whether a loss is congestion, `auto`.
    Auto = "auto",
    /// RFC 9438, `cubic`.
    Cubic = "cubic",
    /// RFC 9002 section 7, `newreno`.
    NewReno = "newreno",
    /// CTCP section 4.3, `ctcp`.
    Ctcp = "ctcp",
    /// RFC 6356, `lia`: coupled over the paths.
    Lia = "lia",
    /// Khalili et al., `olia`: coupled over the paths.
    Olia = "olia",
    /// Peng et al., `balia`: coupled over the paths.
    Balia = "balia",
    /// RFC 8257, `dctcp`: for data centres only.
    Dctcp = "dctcp",
}

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
    fn names_round_trip() {
        for kind in ControllerKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(*kind));
            let controller = kind.build(&Config::default());
            assert_eq!((controller.kind(), controller.name()), (*kind, kind.name()));
            assert_eq!(controller.window(), Config::default().initial_window());
        }
    }

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

    #[test]
    fn initial_window_is_never_below_the_minimum() {
        let config = Config { initial_window_packets: 1, ..Config::default() };
        assert_eq!(config.initial_window(), config.minimum_window());
    }
}
