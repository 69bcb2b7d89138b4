//! `auto`: how many bytes repair may cost.
//!
//! Ours. Credit comes with data: a small share of it always, and more the more the path loses. It
//! is saved up to a limit, and a connection that has been idle begins with that limit again, so
//! that short responses can be protected at once.
//!
//! # Bounds
//! Of D bytes sent without being idle, on a path that loses nothing, at most
//! `share * D + allowance` bytes are repair. With the defaults that is less than 2 % of anything
//! longer than 2 MB, and less than 1.1 % of 20 MB. The estimated loss rate of such a path is not
//! quite 0 ([`LossHistory`](crate::loss_history::LossHistory) begins with 1 %), so loss rates below
//! [`Limits::free_loss`] give no more.
//!
//! # Invariants
//! Credit is never above the limit, and what is spent never exceeds what was earned.

/// What repair may cost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Bytes of repair for each byte of data, whatever the loss rate. Default 0.01.
    pub share: f64,
    /// Further bytes of repair for each byte that the path is expected to lose. Default 2.
    pub per_lost: f64,
    /// Most bytes of repair for each byte of data. Default 0.5.
    pub most: f64,
    /// The loss rate up to which none of `per_lost` is earned. Default 0.002.
    pub free_loss: f64,
    /// Credit that is saved at most, and that a connection begins with, in bytes. Default 19,200,
    /// which is 16 packets.
    pub allowance: u64,
}

impl Limits {
    const DEFAULT: Self = Self { share: 0.01, per_lost: 2.0, most: 0.5, free_loss: 0.002, allowance: 19_200 };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Credit for repair of one connection.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RepairBudget {
    limits: &'static Limits,
    credit: f64,
}

impl RepairBudget {
    /// Begins with the whole allowance.
    pub fn new(limits: &'static Limits) -> Self {
        Self { limits, credit: limits.allowance as f64 }
    }

    /// `bytes` of data (new or again) were sent on a path that is expected to lose the share `loss`
    /// of it.
    pub fn on_data(&mut self, bytes: u64, loss: f64) {
        let Limits { share, per_lost, most, free_loss, .. } = *self.limits;
        let loss = loss.clamp(0.0, 1.0);
        let for_loss = if loss > free_loss { per_lost * loss } else { 0.0 };
        self.earn(bytes as f64 * (share + for_loss).min(most));
    }

    /// Nothing is in flight and nothing waits: what comes next is another exchange.
    pub fn on_idle(&mut self) {
        self.earn(self.limits.allowance as f64);
    }

    /// Whether `bytes` of repair may be sent.
    pub fn allows(&self, bytes: u64) -> bool {
        self.credit >= bytes as f64
    }

    /// How many packets of `bytes` may be sent.
    pub fn packets(&self, bytes: u64) -> u16 {
        (self.credit / bytes.max(1) as f64).min(f64::from(u16::MAX)) as u16
    }

    /// `bytes` of repair were sent.
    pub fn on_repair(&mut self, bytes: u64) {
        self.credit -= bytes as f64;
    }

    /// What may be spent, in bytes.
    pub fn credit(&self) -> u64 {
        self.credit.max(0.0) as u64
    }

    fn earn(&mut self, bytes: f64) {
        self.credit = (self.credit + bytes).min(self.limits.allowance as f64);
    }
}

impl Default for RepairBudget {
    fn default() -> Self {
        Self::new(&Limits::DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PacketNumber, loss_history::LossHistory};

    const PACKET: u64 = 1_200;

    /// Sends `packets` of data on a path that is told to lose every `every`-th, and all the repair
    /// that is allowed. Returns its share.
    fn share(packets: u64, every: u64) -> f64 {
        let (mut budget, mut history) = (RepairBudget::default(), LossHistory::new());
        let mut repair = 0;
        for number in 0..packets {
            history.on_sent();
            if number % every == every - 1 {
                history.on_lost(PacketNumber(number));
            }
            budget.on_data(PACKET, history.loss());
            while budget.allows(PACKET) {
                budget.on_repair(PACKET);
                repair += 1;
            }
        }
        repair as f64 / packets as f64
    }

    #[test]
    fn bulk_without_loss_costs_less_than_two_per_cent() {
        for megabytes in [3, 5, 20, 100] {
            let share = share(megabytes * 1_000_000 / PACKET, u64::MAX);
            assert!(share < 0.02, "{megabytes} MB: {share}");
        }
        assert!(share(20_000_000 / PACKET, u64::MAX) < 0.0115);
    }

    #[test]
    fn a_lossy_path_may_cost_what_it_needs() {
        let share = share(20_000, 20);
        assert!((0.1..0.13).contains(&share), "{share}"); // 0.01 + 2 * 0.05
        assert!(self::share(20_000, 2) <= 0.501);
    }

    #[test]
    fn a_short_exchange_has_the_allowance_and_an_idle_one_has_it_again() {
        let mut budget = RepairBudget::default();
        assert_eq!(budget.packets(PACKET), 16);
        (0..16).for_each(|_| budget.on_repair(PACKET));
        assert!(!budget.allows(1) && budget.credit() == 0);
        budget.on_data(60_000, 0.0);
        assert_eq!(budget.packets(600), 1);
        budget.on_idle();
        budget.on_idle();
        assert_eq!(budget.packets(PACKET), 16);
    }
}
