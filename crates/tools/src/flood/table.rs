//! What came out of it.

use units::percentile;

use crate::flood::{contest::Cost, kind::Kind, print as line, probe::Noticed};

/// The result of one contest.
pub struct Row {
    pub kind: Kind,
    pub before: Noticed,
    pub flooded: Noticed,
    pub after: Noticed,
    /// Processor time of the server in the first quiet turn.
    pub quiet_seconds: f64,
    pub cost: Cost,
}

impl Row {
    /// The flooded 99th percentile by the quiet one.
    fn ratio(&self) -> f64 {
        at(&self.flooded.requests_ms, 0.99) / at(&self.before.requests_ms, 0.99)
    }

    /// Whether the clients that behave were served as well as is wanted, in a flood that took place.
    pub fn is_good(&self, goal: f64) -> bool {
        let all = [&self.before, &self.flooded, &self.after];
        let served = all.iter().all(|turn| turn.failed + turn.turned_away == 0);
        served && self.ratio() <= goal && self.cost.deeds.took_place(self.kind)
    }
}

/// A percentile of values in any order.
fn at(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    percentile(&sorted, share).unwrap_or(f64::NAN)
}

/// Prints what clients noticed, then what it cost.
pub fn print(rows: &[Row], goal: f64) {
    print_noticed(rows, goal);
    print_newcomers(rows);
    print_cost(rows);
}

fn print_noticed(rows: &[Row], goal: f64) {
    line(format_args!("\nA client that was there before (times in ms; a failed request counts as 15 s):"));
    line(format_args!(
        "{:18} {:>9} {:>9} {:>8} {:>8} {:>9} {:>9} {:>7}  failed",
        "flood", "requests", "p50 quiet", "p50", "p99", "p99 quiet", "p99 after", "ratio"
    ));
    for row in rows {
        let Row { before, flooded, after, .. } = row;
        line(format_args!(
            "{:18} {:9} {:9.2} {:8.2} {:8.2} {:9.2} {:9.2} {:7.2}  {}/{}/{}{}",
            row.kind.name(),
            flooded.requests_ms.len(),
            at(&before.requests_ms, 0.5),
            at(&flooded.requests_ms, 0.5),
            at(&flooded.requests_ms, 0.99),
            at(&before.requests_ms, 0.99),
            at(&after.requests_ms, 0.99),
            row.ratio(),
            before.failed,
            flooded.failed,
            after.failed,
            if row.is_good(goal) { "" } else { "  <-- not good" }
        ));
    }
}

fn print_newcomers(rows: &[Row]) {
    line(format_args!(
        "\nClients that start, fetch once and end (times in ms; served + turned away in each turn):"
    ));
    line(format_args!(
        "{:18} {:>12} {:>12} {:>12} {:>8} {:>8}",
        "flood", "quiet", "flooded", "after", "p50 quiet", "p50"
    ));
    for row in rows {
        let turn = |turn: &Noticed| format!("{} + {}", turn.newcomers_ms.len(), turn.turned_away);
        line(format_args!(
            "{:18} {:>12} {:>12} {:>12} {:8.0} {:8.0}",
            row.kind.name(),
            turn(&row.before),
            turn(&row.flooded),
            turn(&row.after),
            at(&row.before.newcomers_ms, 0.5),
            at(&row.flooded.newcomers_ms, 0.5)
        ));
    }
}

fn print_cost(rows: &[Row]) {
    line(format_args!(
        "\nWhat was sent, and what it cost (processor seconds of a turn; the server's most memory and threads):"
    ));
    line(format_args!(
        "{:18} {:>9} {:>9} {:>9} {:>8} {:>9} {:>7} {:>7} {:>12} {:>9} {:>9} {:>8}",
        "flood",
        "Mbit/s",
        "packets",
        "answers",
        "begun",
        "completed",
        "closed",
        "asked",
        "server quiet",
        "server",
        "attacker",
        "memory"
    ));
    for row in rows {
        let Cost { deeds, server_seconds, attacker_seconds, memory_mib, threads } = &row.cost;
        line(format_args!(
            "{:18} {:9.2} {:9} {:9} {:8} {:9} {:7} {:7} {:10.2} s {:7.2} s {:7.2} s {:4.0} MiB, {threads}",
            row.kind.name(),
            deeds.sent_bytes as f64 * 8.0 / deeds.seconds / 1e6,
            deeds.sent,
            deeds.heard,
            deeds.begun,
            deeds.completed,
            deeds.closed,
            deeds.asked,
            row.quiet_seconds,
            server_seconds,
            attacker_seconds,
            memory_mib
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flood::attacker::Deeds;

    #[test]
    fn nobody_did_well_in_a_flood_that_did_not_take_place() {
        let turn = || Noticed { requests_ms: vec![1.0], ..Noticed::default() };
        let row = |kind, deeds| Row {
            kind,
            before: turn(),
            flooded: turn(),
            after: turn(),
            quiet_seconds: 0.1,
            cost: Cost { deeds, server_seconds: 0.1, attacker_seconds: 0.1, memory_mib: 10.0, threads: 2 },
        };
        // A client that was never let in sends its first flights again and asks for nothing.
        let in_vain = || Deeds { sent: 20, heard: 20, ..Deeds::default() };
        assert!(row(Kind::Handshakes, in_vain()).is_good(1.5));
        assert!(!row(Kind::Retry, in_vain()).is_good(1.5), "without a Retry these are first flights");
        assert!(!row(Kind::Windows, in_vain()).is_good(1.5));
        assert!(!row(Kind::Connects, Deeds { completed: 1, ..in_vain() }).is_good(1.5));
        assert!(row(Kind::Connects, Deeds { completed: 1, asked: 1, ..in_vain() }).is_good(1.5));
    }
}
