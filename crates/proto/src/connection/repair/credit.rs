//! What decoding may cost: work in proportion to the bytes that arrive.
//!
//! A REPAIR frame of sixty bytes may name a hundred packets, and one of a full packet makes as many
//! of them be multiplied and added. Honest symbols are a part of what arrives, so that a credit for
//! every byte that arrives never runs out for them; for whoever sends nothing else, it bounds what
//! a byte of theirs costs us (docs/wire-format.md). The same holds for RECOVERED, ten bytes of which
//! name 256 packets.

/// What looking up a member costs, in bytes multiplied and added. It happens twice: when a symbol
/// comes, and when its block is decoded.
pub(super) const LOOKUP: u64 = 64;
/// What it costs to deal with a packet that the peer says it has rebuilt: it is looked up in the
/// records, among the losses, in blocks and with the datagrams that have deadlines.
const NEWS: u64 = 4 * LOOKUP;
/// Credit that is saved up at most, and that a connection starts with: a hundred symbols over the
/// largest blocks, should every packet that they protect have been lost.
const LARGEST: u64 = 32 << 20;
/// Credit for a received byte, at least.
const LEAST_PER_BYTE: u64 = 32;

/// What it costs to add up the coefficients of one source in two equations of windows, whose sources
/// are not the same and have to be merged.
const TERM: u64 = LOOKUP / 4;

/// Work that the peer's bytes have paid for, in bytes multiplied and added.
#[derive(Debug)]
pub(super) struct Credit {
    left: u64,
    per_byte: u64,
}

impl Credit {
    /// For blocks of at most `largest_block` members: enough for symbols over the largest ones if
    /// these are half of all that arrives.
    pub(super) fn new(largest_block: u8) -> Self {
        Self { left: LARGEST, per_byte: (u64::from(largest_block) / 2).max(LEAST_PER_BYTE) }
    }

    /// Bytes have arrived.
    pub(super) fn earn(&mut self, bytes: u64) {
        self.left = (self.left + bytes * self.per_byte).min(LARGEST);
    }

    /// Pays for a symbol of `len` bytes over so many members, whatever it may come to cost;
    /// `coefficients` are those that an equation over them has. False if the credit is used up.
    pub(super) fn spend(&mut self, members: u64, len: usize, coefficients: u64) -> bool {
        self.pay(members * (len as u64 + 2 * LOOKUP + coefficients))
    }

    /// Pays for a symbol over a window of so many members, where `equations` with so many `terms`
    /// together are held; `len` is the length of the longest symbol. Its packets are subtracted now or
    /// once they arrive, and it is reduced by all equations, and they by it: their bytes, or, where
    /// these are few, their coefficients.
    pub(super) fn spend_on_window(
        &mut self,
        members: u64,
        len: usize,
        (equations, terms): (u64, u64),
    ) -> bool {
        let bytes = 2 * (members + equations) * (len as u64 + 2 * LOOKUP);
        self.pay(bytes.max(4 * terms * TERM))
    }

    /// Pays for news of so many packets. False if the credit is used up.
    pub(super) fn spend_on_news(&mut self, packets: u64) -> bool {
        self.pay(packets * NEWS)
    }

    fn pay(&mut self, cost: u64) -> bool {
        let paid = self.left >= cost;
        if paid {
            self.left -= cost;
        }
        paid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of `k` packets of `len` bytes, of which a part is lost, with as many symbols as are
    /// needed and a tenth more: none is refused.
    #[test]
    fn honest_symbols_are_always_paid_for() {
        for (k, len, symbols) in
            [(128, 1_400, 3), (128, 60, 3), (32, 1_400, 24), (32, 60, 24), (128, 1_400, 60)]
        {
            let mut credit = Credit::new(128);
            for _ in 0..10_000 {
                let arrive = k - symbols.min(k / 2);
                credit.earn((arrive + symbols) * (len + 40));
                for _ in 0..symbols {
                    assert!(
                        credit.spend(k, len as usize + 2, if k == 32 { k / 2 } else { 0 }),
                        "{k} x {len}, {symbols}"
                    );
                }
            }
        }
    }

    /// Windows as large as a sender makes them, with as many symbols as it may send, while a burst is
    /// being solved: their price is that of members and equations, twice.
    #[test]
    fn honest_windows_are_always_paid_for() {
        let members = u64::from(recovery::streaming::MAX_WINDOW);
        let mut credit = Credit::new(128);
        for _ in 0..10_000 {
            credit.earn(3 * 1_240);
            assert!(credit.spend_on_window(members, 1_202, (12, 12 * 13)));
        }
    }

    /// Equations over all that a window can have, of symbols of next to no bytes: each of these costs two
    /// dozen thousand coefficients. At ten nanoseconds for a byte, two and a half are allowed for each.
    #[test]
    fn long_equations_of_short_symbols_are_paid_for() {
        let mut credit = Credit::new(128);
        let held = (32, 32 * fec::window::SPAN);
        let mut paid = 0;
        for _ in 0..1_000_000 {
            credit.earn(60);
            paid += u64::from(credit.spend_on_window(2, 6, held));
        }
        let (coefficients, bytes) = (paid * 4 * held.1, 1_000_000 * 60 + LARGEST / 64);
        assert!(coefficients * 5 / 2 <= 10 * bytes, "{paid}");
    }

    /// Half of all packets are lost and rebuilt by the peer, whose ACKs for two packets each are all that
    /// we hear: what it has rebuilt is always paid for.
    #[test]
    fn honest_news_is_always_paid_for() {
        let mut credit = Credit::new(1);
        for _ in 0..100_000 {
            credit.earn(40);
            assert!(credit.spend_on_news(2));
        }
    }

    #[test]
    fn symbols_alone_run_out_of_credit() {
        for len in [1, 100, 1_400] {
            let mut credit = Credit::new(128);
            let mut paid = 0;
            for _ in 0..1_000_000 {
                credit.earn(len + 60);
                paid += u64::from(credit.spend(128, len as usize, 0));
            }
            let (work, bytes) = (paid * 128 * (len + 2 * LOOKUP), 1_000_000 * (len + 60));
            assert!(work <= 64 * bytes + LARGEST, "{work} for {bytes}");
        }
    }
}
