//! Proportional rate reduction (RFC 6937, RFC 9937): fast recovery sends in proportion to what is
//! delivered, instead of nothing until the pipe has fallen below the reduced window.
//!
//! | RFC 9937          | here                                         | unit     |
//! |-------------------|----------------------------------------------|----------|
//! | RecoverFS         | `before`: as in Linux the window before the reduction | segments |
//! | ssthresh          | `threshold`                                  | segments |
//! | prr_delivered     | `delivered`                                  | segments |
//! | prr_out           | what the sub-flow has transmitted since `transmitted_before` | segments |
//! | DeliveredData     | `newly`                                      | segments |
//! | SafeACK           | `safe`: the cumulative acknowledgement advanced and nothing more is lost | |
//! | SndCnt            | `window` less the pipe                       | segments |

/// One fast recovery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prr {
    before: u32,
    threshold: u32,
    transmitted_before: u64,
    delivered: u32,
    /// What may be in the network.
    pub(crate) window: u32,
}

impl Prr {
    /// Recovery begins: the window falls from `before` to `threshold` segments.
    pub(crate) fn new(before: u32, threshold: u32, transmitted: u64) -> Self {
        Self {
            before: before.max(1),
            threshold,
            transmitted_before: transmitted,
            delivered: 0,
            window: threshold,
        }
    }

    /// An acknowledgement delivered `newly` segments and left `pipe` in the network; `transmitted`
    /// were sent on this sub-flow so far.
    pub(crate) fn on_ack(&mut self, newly: u32, pipe: u32, transmitted: u64, safe: bool) {
        if newly == 0 {
            return;
        }
        self.delivered += newly;
        let out = (transmitted - self.transmitted_before) as u32;
        let send = if pipe > self.threshold {
            let wanted = u64::from(self.delivered) * u64::from(self.threshold);
            (wanted.div_ceil(u64::from(self.before)) as u32).saturating_sub(out)
        } else {
            let most = self.delivered.saturating_sub(out).max(newly) + u32::from(safe);
            most.min(self.threshold - pipe)
        };
        // The first retransmission is not held back.
        self.window = pipe + send.max(u32::from(out == 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_one_for_two_delivered_while_halving() {
        // 10 in flight, one lost, the window is halved. Each SACK delivers one segment.
        let (mut prr, mut pipe, mut sent) = (Prr::new(10, 5, 100), 10 - 2 - 1, 100);
        let mut allowed = Vec::new();
        for _ in 0..6 {
            pipe -= 1;
            prr.on_ack(1, pipe, sent, false);
            let now = prr.window - pipe;
            (pipe, sent) = (pipe + now, sent + u64::from(now));
            allowed.push(now);
        }
        // 6 in the network at first: half of what is delivered, rounded up. From 5 on what keeps it
        // there.
        assert_eq!(allowed, [1, 0, 0, 1, 1, 1]);
        assert_eq!(pipe, 5);
    }

    #[test]
    fn a_window_that_was_mostly_lost_is_built_up_as_in_slow_start() {
        // 20 sent, 16 of them lost: one in the network, a threshold of 10.
        let mut prr = Prr::new(20, 10, 0);
        prr.on_ack(1, 1, 0, false);
        assert_eq!(prr.window, 2); // packet conservation
        prr.on_ack(1, 1, 1, true);
        assert_eq!(prr.window, 3); // one more if nothing else is lost
        prr.on_ack(0, 3, 3, true);
        assert_eq!(prr.window, 3); // nothing delivered
        prr.on_ack(2, 9, 9, true);
        assert_eq!(prr.window, 10); // up to the threshold
    }
}
