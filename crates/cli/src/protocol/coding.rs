//! How packets of a tunnel are protected against loss.

use super::codes::codes;

codes! {
    /// How packets of a tunnel are protected against loss. A server refuses those that it does not
    /// know.
    #[derive(Default)]
    pub enum Coding: u8 {
        /// Not at all.
        #[default]
        None = 0,
        /// Copies of single packets.
        Slp = 1,
        /// Combinations of packets.
        Htpc = 2,
        /// What the server thinks best.
        Auto = 3,
    }
}
