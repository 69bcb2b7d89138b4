//! Tables for a terminal.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets::NOTHING};

/// Between two columns.
const GAP: u16 = 2;

/// A table of a terminal: columns as wide as they must be, numbers to the right, no lines.
#[derive(Clone, Copy, Debug)]
pub struct TextTable<'a> {
    /// What stands above each column.
    pub headings: &'a [&'a str],
    /// The columns of words, by number from 0; all others are aligned to the right.
    pub words: &'a [usize],
    /// Blanks before the first column.
    pub indent: u16,
}

impl TextTable<'_> {
    /// The lines, each with its end; nothing stands behind the last cell of a line.
    pub fn text<R>(&self, rows: impl IntoIterator<Item = R>) -> String
    where
        R: IntoIterator<Item = String>,
    {
        let mut table = Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.add_row(self.headings.iter().copied());
        for row in rows {
            table.add_row(row);
        }
        for (number, column) in table.column_iter_mut().enumerate() {
            column.set_padding((if number == 0 { self.indent } else { GAP }, 0));
            let right = !self.words.contains(&number);
            column.set_cell_alignment(if right { CellAlignment::Right } else { CellAlignment::Left });
        }
        table.trim_fmt() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_and_words_begin_below_each_other() {
        let table = TextTable { headings: &["name", "ms", "notes"], words: &[0, 2], indent: 2 };
        let row = |name: &str, ms: &str, notes: &str| [name, ms, notes].map(str::to_owned);
        let text = table.text([row("tcp", "150.0", ""), row("日本", "9.5", "two columns each")]);
        let expected = "  name     ms  notes\n  tcp   150.0\n  日本    9.5  two columns each\n";
        assert_eq!(text, expected);
    }
}
