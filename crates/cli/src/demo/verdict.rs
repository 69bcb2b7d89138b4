//! Says in words what the numbers show, also when they show that something did not help.

use super::ReportRow;

/// A difference below this share of the value is noise of the machine.
const NOISE: f64 = 0.03;

/// A machine that adds more than this share to the tail without loss is no place to measure.
const NOISY: f64 = 0.1;

/// One paragraph about `rows`, as [`rows`](super::rows) orders them: what recovery gained, and a
/// warning if the machine, not the links, made the tail. On the links alone the slowest responses
/// without loss take `links_alone_ms`.
pub fn verdict(rows: &[ReportRow], links_alone_ms: Option<f64>) -> String {
    let Some(limit) = rows.iter().find(|row| !row.lossy) else { return String::new() };
    let noise = links_alone_ms.and_then(|links_alone_ms| noise(limit, links_alone_ms));
    let gain = gain(rows, limit);
    match noise {
        Some(noise) => format!("{gain} {noise}"),
        None => gain,
    }
}

/// Judged by the row without loss, whose tail is known. Rows take turns, so that the others met the
/// same noise.
fn noise(limit: &ReportRow, links_alone_ms: f64) -> Option<String> {
    (limit.p99_ms > links_alone_ms * (1.0 + NOISY)).then(|| {
        format!(
            "But this machine was too busy to tell: without loss the slowest 1 % took {} or more, where the links alone make {}, \
             and emulated links were up to {:.1} ms late. Try --virtual, or again when it is idle.",
            ms(limit.p99_ms),
            ms(links_alone_ms),
            limit.late_ms
        )
    })
}

/// What recovery gained, and at what cost.
fn gain(rows: &[ReportRow], limit: &ReportRow) -> String {
    let most = rows.iter().map(|row| row.paths).max().unwrap_or(0);
    let compared: Vec<&ReportRow> = rows.iter().filter(|row| row.lossy && row.paths == most).collect();
    if compared.iter().all(|row| row.lost == 0) {
        return format!(
            "Nothing was lost, so there was nothing to mend: the slowest 1 % of responses took {} with or without recovery.",
            ms(limit.p99_ms)
        );
    }
    let plain = compared.iter().find(|row| row.recovery == "none");
    let mut sentences = Vec::new();
    if let Some(plain) = plain {
        sentences.push(format!(
            "Without recovery, losses made the slowest 1 % of responses take {} or more, {} without loss.",
            ms(plain.p99_ms),
            against(plain.p99_ms, limit.p99_ms)
        ));
    }
    let schemes: Vec<&ReportRow> = compared.iter().copied().filter(|row| row.recovery != "none").collect();
    let fastest = schemes.iter().copied().min_by(|a, b| a.p99_ms.total_cmp(&b.p99_ms));
    // Of those about as fast as the fastest, the one that costs least.
    let about_as_fast =
        |row: &&&ReportRow| fastest.is_some_and(|best| row.p99_ms <= best.p99_ms * (1.0 + NOISE));
    let best = schemes
        .iter()
        .filter(about_as_fast)
        .min_by(|a, b| a.extra_bytes_ratio.total_cmp(&b.extra_bytes_ratio));
    if let Some(best) = best {
        sentences.push(praise(best, plain.copied(), limit));
        let others: Vec<String> = schemes
            .iter()
            .filter(|row| row.recovery != best.recovery)
            .map(|row| other(row, plain.copied()))
            .collect();
        if !others.is_empty() {
            sentences.push(format!("For comparison, {}.", others.join("; ")));
        }
    }
    sentences.join(" ")
}

fn praise(best: &ReportRow, plain: Option<&ReportRow>, limit: &ReportRow) -> String {
    let mended = match best.lost {
        0 => "nothing to mend".to_owned(),
        lost => format!("{} of {lost} lost packets mended before a retransmission", best.mended),
    };
    let cost = format!("{:.1} % extra bytes", best.extra_bytes_ratio * 100.0);
    match plain {
        Some(plain) if best.p99_ms > plain.p99_ms * (1.0 - NOISE) => {
            format!(
                "No scheme helped here: {} ended at {} with {cost} and {mended}.",
                best.recovery,
                ms(best.p99_ms)
            )
        }
        _ => format!(
            "With {} it was {}, {} without loss, for {cost}, with {mended}.",
            best.recovery,
            ms(best.p99_ms),
            against(best.p99_ms, limit.p99_ms)
        ),
    }
}

fn other(row: &ReportRow, plain: Option<&ReportRow>) -> String {
    let helped = match plain {
        Some(plain) if row.p99_ms > plain.p99_ms * (1.0 + NOISE) => " (worse than none)",
        Some(plain) if row.p99_ms > plain.p99_ms * (1.0 - NOISE) => " (no help)",
        _ => "",
    };
    format!("{} took {}{helped} for {:.1} %", row.recovery, ms(row.p99_ms), row.extra_bytes_ratio * 100.0)
}

fn against(value: f64, limit: f64) -> String {
    if value <= limit * (1.0 + NOISE) {
        "the same as".to_owned()
    } else {
        format!("{:.2} times as long as", value / limit)
    }
}

fn ms(value: f64) -> String {
    format!("{value:.0} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(
        recovery: &str,
        paths: usize,
        lossy: bool,
        p99_ms: f64,
        extra: f64,
        lost: u64,
        mended: u64,
    ) -> ReportRow {
        ReportRow {
            name: format!("{paths} paths"),
            recovery: recovery.into(),
            paths,
            lossy,
            mean_ms: p99_ms,
            p50_ms: p99_ms,
            p99_ms,
            max_ms: p99_ms,
            fct_ms: vec![p99_ms],
            goodput_mbps: 1.0,
            extra_bytes_ratio: extra,
            lost,
            mended,
            late_ms: 5.0,
        }
    }

    #[test]
    fn a_gain_is_told_with_its_cost() {
        let rows = [
            row("none", 1, true, 400.0, 0.0, 90, 0),
            row("none", 2, true, 210.0, 0.0, 50, 0),
            row("proactive", 2, true, 112.0, 1.0, 90, 48),
            row("fuso", 2, true, 160.0, 0.3, 50, 20),
            row("cofuso", 2, true, 110.0, 0.05, 50, 47),
            row("cofuso", 2, false, 104.0, 0.05, 0, 0),
        ];
        assert_eq!(
            verdict(&rows, None),
            "Without recovery, losses made the slowest 1 % of responses take 210 ms or more, 2.02 times as long as without loss. \
             With cofuso it was 110 ms, 1.06 times as long as without loss, for 5.0 % extra bytes, with 47 of 50 lost packets \
             mended before a retransmission. For comparison, proactive took 112 ms for 100.0 %; fuso took 160 ms for 30.0 %."
        );
    }

    #[test]
    fn no_gain_is_admitted() {
        let rows = [
            row("none", 2, true, 200.0, 0.0, 50, 0),
            row("fuso", 2, true, 230.0, 0.3, 50, 0),
            row("cofuso", 2, true, 199.0, 0.1, 50, 3),
            row("cofuso", 2, false, 100.0, 0.0, 0, 0),
        ];
        let text = verdict(&rows, None);
        assert!(text.contains("No scheme helped here: cofuso ended at 199 ms"), "{text}");
        assert!(text.contains("fuso took 230 ms (worse than none)"), "{text}");
    }

    #[test]
    fn a_busy_machine_is_told_of_last() {
        let rows = [row("none", 2, true, 300.0, 0.0, 50, 0), row("none", 2, false, 162.0, 0.0, 0, 0)];
        let text = verdict(&rows, Some(103.0));
        assert!(text.contains("took 162 ms or more, where the links alone make 103 ms"), "{text}");
        assert!(text.contains("up to 5.0 ms late"), "{text}");
        assert!(text.ends_with("Try --virtual, or again when it is idle."), "{text}");
        for fine in [Some(155.0), None] {
            assert!(!verdict(&rows, fine).contains("busy"));
        }
    }

    #[test]
    fn without_loss_there_is_nothing_to_tell() {
        let rows = [row("none", 2, true, 100.0, 0.0, 0, 0), row("none", 2, false, 100.0, 0.0, 0, 0)];
        assert!(verdict(&rows, None).starts_with("Nothing was lost"));
    }
}
