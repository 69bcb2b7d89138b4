//! HTPC's and CAPS's share of redundancy: how many coded packets follow a coding unit.
//!
//! HTPC, "Redundancy adjustment", equations 2 to 5. A flow that has sent little wants its whole
//! unit to arrive without a retransmission; one that has sent much only wants enough packets to
//! arrive that a loss is noticed without a timeout.
//!
//! | paper          | here                                   | unit        |
//! |----------------|----------------------------------------|-------------|
//! | T_s, T_w       | [`Thresholds`]                         | bytes       |
//! | D              | `sent`                                 | bytes       |
//! | w              | [`Thresholds::weight`]                 | none        |
//! | k, w_c         | `unit`                                 | packets     |
//! | T_fr           | [`Parameters::fast_retransmit`]        | packets     |
//! | x              | [`Parameters::wanted`]                 | packets     |
//! | b              | `blocking`                             | probability |
//! | r              | [`Parameters::exact`], [`Redundancy::packets`] | packets |
//!
//! # Departures
//! - r is never negative and a whole number of packets, rounded up (HTPC-A1, HTPC-A3). A flow above
//!   T_w thus gets redundancy only while its unit is smaller than T_fr / (1-b). Other roundings:
//!   [`Rounding`].
//! - r is at most [`Parameters::cap`] times k, by default k: b near 1 would ask for any number
//!   (HTPC-A2).
//! - T_s and T_w are not in the paper: 100 KB, its limit of short flows, and 1 MB (HTPC-A6).
//! - D is what was first sent before the unit began, without redundancy and retransmissions
//!   (HTPC-A7); the caller counts it.
//!
//! # Invariants
//! `0 <= r <= cap k`; without blocking a short flow gets none. More blocking never means less
//! redundancy.

/// Where flows stop to count as short and begin to count as long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// T_s: full weight below, in bytes. Default 100 KB.
    pub short: u64,
    /// T_w: no weight above, in bytes. Default 1 MB.
    pub long: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { short: 100_000, long: 1_000_000 }
    }
}

impl Thresholds {
    /// w (equation 2): 1 for a flow that has `sent` less than T_s bytes, 0 above T_w, linear in
    /// between.
    pub fn weight(&self, sent: u64) -> f64 {
        if sent < self.short {
            1.0
        } else if sent >= self.long {
            0.0
        } else {
            1.0 - (sent - self.short) as f64 / (self.long - self.short) as f64
        }
    }
}

/// How a fraction of a packet becomes packets (HTPC-A3).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// Up: at least one packet whenever something is blocked.
    #[default]
    Up,
    /// Down, as CAPS's code does.
    Down,
    /// Down, and the rest is added to the next unit.
    Carry,
}

/// What is constant of a scheme.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Parameters {
    /// T_s and T_w.
    pub thresholds: Thresholds,
    /// T_fr: the packets that must arrive for a fast retransmission. Default 3.
    pub fast_retransmit: u32,
    /// Most redundancy, as a share of the unit. Default 1.
    pub cap: f64,
    /// What becomes of fractions. Default up.
    pub rounding: Rounding,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { thresholds: Thresholds::default(), fast_retransmit: 3, cap: 1.0, rounding: Rounding::Up }
    }
}

impl Parameters {
    /// x (equation 3): packets that should arrive of a unit of `unit`, at weight `weight`.
    pub fn wanted(&self, unit: u32, weight: f64) -> f64 {
        weight * f64::from(unit) + (1.0 - weight) * f64::from(self.fast_retransmit)
    }

    /// r as the formula gives it (equations 4 and 5): negative where the unit alone is enough,
    /// infinite if everything is blocked.
    pub fn exact(&self, unit: u32, weight: f64, blocking: f64) -> f64 {
        self.wanted(unit, weight) / (1.0 - blocking) - f64::from(unit)
    }
}

/// Turns the formula into packets, unit by unit of one flow.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Redundancy {
    parameters: Parameters,
    carried: f64,
}

impl Redundancy {
    /// Nothing is carried over yet.
    pub fn new(parameters: Parameters) -> Self {
        Self { parameters, carried: 0.0 }
    }

    /// HTPC: coded packets after a unit of `unit` packets of a flow that had `sent` bytes before,
    /// when a share `blocking` of packets is blocked.
    pub fn packets(&mut self, unit: u32, sent: u64, blocking: f64) -> u32 {
        let weight = self.parameters.thresholds.weight(sent);
        let exact = self.parameters.exact(unit, weight, blocking.clamp(0.0, 1.0));
        self.round(unit, exact)
    }

    /// CAPS: flows known to be of `size` bytes, T_s or more, get nothing, shorter ones k / (1-b) -
    /// k whatever they have sent (HTPC, equation 13).
    pub fn packets_if_short(&mut self, unit: u32, size: u64, blocking: f64) -> u32 {
        if size >= self.parameters.thresholds.short {
            return 0;
        }
        let exact = self.parameters.exact(unit, 1.0, blocking.clamp(0.0, 1.0));
        self.round(unit, exact)
    }

    fn round(&mut self, unit: u32, exact: f64) -> u32 {
        // Noise must not decide between two whole numbers: 3.0000000001 is 3.
        const NOISE: f64 = 1e-9;
        let most = (self.parameters.cap.max(0.0) * f64::from(unit) + NOISE).floor();
        let exact = exact.max(0.0).min(most);
        let packets = match self.parameters.rounding {
            Rounding::Up => (exact - NOISE).ceil(),
            Rounding::Down => (exact + NOISE).floor(),
            Rounding::Carry => {
                let due = exact + self.carried;
                let whole = (due + NOISE).floor();
                self.carried = (due - whole).max(0.0);
                whole
            }
        };
        packets.clamp(0.0, most) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// k, b, and for w = 1, 0.9, 0.5, 0: r by the formula and in packets.
    type Row = (u32, f64, [(f64, u32); 4]);

    const ROWS: [Row; 6] = [
        (10, 0.02, [(0.204, 1), (-0.510, 0), (-3.367, 0), (-6.939, 0)]),
        (10, 0.10, [(1.111, 2), (0.333, 1), (-2.778, 0), (-6.667, 0)]),
        (10, 0.30, [(4.286, 5), (3.286, 4), (-0.714, 0), (-5.714, 0)]),
        (20, 0.10, [(2.222, 3), (0.333, 1), (-7.222, 0), (-16.667, 0)]),
        (4, 0.30, [(1.714, 2), (1.571, 2), (1.000, 1), (0.286, 1)]),
        (3, 0.10, [(0.333, 1), (0.333, 1), (0.333, 1), (0.333, 1)]),
    ];
    /// Bytes sent at which the weight is 1, 0.9, 0.5, 0.
    const SENT: [u64; 4] = [99_999, 190_000, 550_000, 1_000_001];

    #[test]
    fn worked_example() {
        let parameters = Parameters::default();
        for (unit, blocking, row) in ROWS {
            for ((sent, weight), (exact, packets)) in SENT.into_iter().zip([1.0, 0.9, 0.5, 0.0]).zip(row) {
                assert!((parameters.thresholds.weight(sent) - weight).abs() < 1e-12);
                assert!(
                    (parameters.exact(unit, weight, blocking) - exact).abs() < 5e-4,
                    "{unit} {blocking} {weight}"
                );
                assert_eq!(
                    Redundancy::default().packets(unit, sent, blocking),
                    packets,
                    "{unit} {blocking} {weight}"
                );
            }
        }
    }

    #[test]
    fn redundancy_ends_where_the_unit_alone_is_enough() {
        // w <= (k(1-b) - 3) / (k - 3): 0.857 for k = 10, b = 0.1, which is after 228.6 KB.
        let after = |sent| Redundancy::default().packets(10, sent, 0.1);
        assert_eq!((after(228_000), after(229_000)), (1, 0));
    }

    #[test]
    fn the_cap_binds_when_everything_is_blocked() {
        let half = Parameters { cap: 0.2, ..Parameters::default() };
        assert_eq!(Redundancy::default().packets(10, 0, 1.0), 10);
        assert_eq!(Redundancy::default().packets(10, 0, 7.0), 10);
        assert_eq!(Redundancy::new(half).packets(10, 0, 0.9), 2);
        assert_eq!(Redundancy::default().packets(2, u64::MAX, 1.0), 2);
        assert_eq!(Redundancy::default().packets(10, 0, 0.0), 0);
    }

    #[test]
    fn roundings() {
        let with = |rounding| Redundancy::new(Parameters { rounding, ..Parameters::default() });
        let packets = |mut redundancy: Redundancy| {
            let units: Vec<u32> = (0..9).map(|_| redundancy.packets(10, 0, 0.1)).collect(); // 1.111 each
            units
        };
        assert_eq!(packets(with(Rounding::Up)), [2; 9]);
        assert_eq!(packets(with(Rounding::Down)), [1; 9]);
        assert_eq!(packets(with(Rounding::Carry)), [1, 1, 1, 1, 1, 1, 1, 1, 2]);
    }

    #[test]
    fn caps_knows_short_flows_by_their_size() {
        assert_eq!(Redundancy::default().packets_if_short(10, 99_999, 0.1), 2);
        assert_eq!(Redundancy::default().packets_if_short(10, 100_000, 0.9), 0);
    }

    #[test]
    fn more_blocking_never_means_less() {
        for unit in 1..40 {
            for sent in [0, 300_000, 2_000_000] {
                let packets = |b: u32| Redundancy::default().packets(unit, sent, f64::from(b) / 100.0);
                assert!((0..100).all(|b| packets(b) <= packets(b + 1)));
                assert!(packets(100) <= unit);
            }
        }
    }
}
