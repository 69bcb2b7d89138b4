//! An invitation as a picture for a telephone's camera.

use fast_qr::{ECL, QRBuilder, QRCode};

/// Light around the picture, in modules; the standard's 4 on a terminal that may be dark beside.
const QUIET: i32 = 4;
/// Black on white whatever the terminal's colours are, and back.
const COLOURS: &str = "\x1b[38;5;16;48;5;231m";
const PLAIN: &str = "\x1b[0m";

/// `text` as a QR code of half blocks, two rows of modules to a line.
pub(super) fn picture(text: &str) -> String {
    // The least redundancy: a screen is neither dirty nor torn, and the picture must fit it.
    let code = QRBuilder::new(text).ecl(ECL::L).build().expect("an invitation is short");
    let place = -QUIET..code.size as i32 + QUIET;
    let line = |row: i32| {
        let block = |column: i32| match (is_dark(&code, row, column), is_dark(&code, row + 1, column)) {
            (true, true) => '█',
            (true, false) => '▀',
            (false, true) => '▄',
            (false, false) => ' ',
        };
        format!("{COLOURS}{}{PLAIN}\n", place.clone().map(block).collect::<String>())
    };
    place.clone().step_by(2).map(line).collect()
}

fn is_dark(code: &QRCode, row: i32, column: i32) -> bool {
    let inside = 0..code.size as i32;
    inside.contains(&row) && inside.contains(&column) && code[row as usize][column as usize].value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_fits_a_terminal() {
        let token = "x".repeat(64);
        let pin = "y".repeat(43);
        let picture = picture(&format!("mendpath://{token}@vps.example.org:4433?pin={pin}"));
        let lines: Vec<_> =
            picture.lines().map(|line| line.trim_start_matches(COLOURS).trim_end_matches(PLAIN)).collect();
        assert!(lines.len() <= 30 && lines.iter().all(|line| line.chars().count() <= 60), "{picture}");
        assert!(lines[..2].iter().all(|line| line.trim().is_empty()), "quiet above");
        // The finder in the corner: seven dark modules.
        assert!(lines[2].starts_with("    █▀▀▀▀▀█ "), "{}", lines[2]);
    }
}
