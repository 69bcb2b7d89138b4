//! The papers' curves that are worked out and not simulated, as tables: HTPC's Fig. 5, the theory
//! of CTCP's Fig. 3, SLP's section II-A.

use recovery::{
    ctcp_efficiency::{self, Rounding},
    htpc_model::{Reading, blocked, long_extra, short_extra, timeout},
    slp_goodput,
};

/// HTPC Fig. 5 at b = 0.5: what is delivered of short flows, and how probably long ones time out.
fn htpc() {
    println!("HTPC Fig. 5a, packets delivered of a short flow's unit, b = 0.5 (printed: HTPC-A11)\n");
    println!(
        "| k | RPS | Corrective | CAPS, HTPC printed | CAPS, HTPC corrected |\n| --- | --- | --- | --- | --- |"
    );
    for k in 2..=10 {
        let short = |extra, reading| 1.0 - blocked(k, extra, 0.5, reading);
        let r = short_extra(k, 0.5);
        println!(
            "| {k} | {:.3} | {:.3} | {:.3} | {:.3} |",
            short(0, Reading::Corrected),
            short(1, Reading::Corrected),
            short(r, Reading::AsPrinted),
            short(r, Reading::Corrected),
        );
    }
    println!("\nHTPC Fig. 5b, timeouts of a long flow's unit, b = 0.5\n");
    println!(
        "| k | RPS, CAPS | Corrective | HTPC printed | HTPC corrected |\n| --- | --- | --- | --- | --- |"
    );
    for k in 2..=10 {
        let r = long_extra(k, 0.5);
        println!(
            "| {k} | {:.4} | {:.4} | {:.4} | {:.4} |",
            timeout(k, 0, 0.5, Reading::Corrected),
            timeout(k, 1, 0.5, Reading::Corrected),
            timeout(k, r, 0.5, Reading::AsPrinted),
            timeout(k, r, 0.5, Reading::Corrected),
        );
    }
}

/// CTCP's bounds with a block of 32, and the square-root formula on its testbed.
fn ctcp() {
    println!(
        "\nCTCP Fig. 3, share of the link (equation 7 rounds down, Algorithm 3 up; CTCP-A1, CTCP-A19)\n"
    );
    println!(
        "| loss | bound, rounding down | bound, Algorithm 3 | 1 - eta as printed | TCP by sqrt(1.5/p) |\n| --- | --- | --- | --- | --- |"
    );
    for p in [0.001, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2] {
        println!(
            "| {} % | {:.4} | {:.4} | {:.4} | {:.3} |",
            p * 100.0,
            ctcp_efficiency::bound(32, p, Rounding::Down),
            ctcp_efficiency::bound(32, p, Rounding::Up),
            1.0 - ctcp_efficiency::eta_as_printed(32, p),
            ctcp_efficiency::square_root_share(25e6 * 0.025 / 8.0 / 1_500.0, p),
        );
    }
}

/// SLP section II-A: what is left of a link by retransmission and by coding groups of 20, and how
/// often such a group fails.
fn slp() {
    println!("\nSLP section II-A, groups of 20 packets\n");
    println!("| loss | ARQ | FEC | redundant packets | groups that fail |\n| --- | --- | --- | --- | --- |");
    for p in [0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3] {
        let Some(k) = slp_goodput::redundancy_needed(20, p) else { continue };
        let (arq, fec, fails) =
            (slp_goodput::arq(p), slp_goodput::fec(20, k), slp_goodput::group_loss(20, k, p));
        println!("| {} % | {arq:.3} | {fec:.3} | {k} | {fails:.3} |", p * 100.0);
    }
}

/// Prints them.
pub fn run() {
    htpc();
    ctcp();
    slp();
}
