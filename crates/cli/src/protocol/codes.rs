//! Enums whose variants stand for numbers of the protocol, declared once.

/// Declares an enum of numbers, and how to find the variant of a number.
macro_rules! codes {
    (
        $(#[$doc:meta])*
        pub enum $name:ident: $number:ty { $($(#[$variant_doc:meta])* $variant:ident = $value:literal,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The number it stands for.
            pub const fn number(self) -> $number {
                match self { $(Self::$variant => $value,)* }
            }

            /// The one with this number.
            pub const fn from_number(number: $number) -> Option<Self> {
                match number {
                    $($value => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

pub(super) use codes;
