//! What a controller is made with.

/// What a controller needs to know when its path is made. Build it with `..Config::default()`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Initial window in packets of [`max_datagram_size`](Self::max_datagram_size). Default 10 (RFC
    /// 9002 section 7.2). Its second limit of 14,720 bytes, which only binds with datagrams above
    /// 1,472 bytes, is not applied here, but to what a larger size adds later
    /// ([`Controller::on_mtu`](crate::Controller::on_mtu)).
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_window_is_never_below_the_minimum() {
        let config = Config { initial_window_packets: 1, ..Config::default() };
        assert_eq!(config.initial_window(), config.minimum_window());
    }
}
