//! Construction of controllers by their kind.

use crate::{Config, Controller, ControllerKind, kind::controllers};

macro_rules! builders {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)+) => {
        impl ControllerKind {
            /// A controller of this kind for a new path.
            pub fn build(self, config: &Config) -> Box<dyn Controller> {
                match self {
                    $(Self::$kind => Box::new(crate::$kind::new(config)),)+
                }
            }
        }
    };
}
controllers!(builders);

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
}
