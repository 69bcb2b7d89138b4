//! What stands in the place of a picture that there is nothing to draw in.

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::{
    Picture, Size,
    chart::{Drawn, element, into_text},
    dress::{self, GRID, TEXT},
};

/// A frame with words in the middle: why there is no picture.
#[derive(Clone, Debug)]
pub struct Blank<'a> {
    /// What would be shown, for those who cannot see it.
    pub label: &'a str,
    /// Lines of text.
    pub words: Vec<String>,
}

impl Picture for Blank<'_> {
    fn for_page(&self, size: Size) -> String {
        element(&dress::classes(&into_text(|svg| self.draw(svg, size))), size.class, self.label)
    }

    fn for_sheet(&self, size: Size) -> String {
        dress::colours(&into_text(|svg| self.draw(svg, size)))
    }
}

impl Blank<'_> {
    fn draw(&self, svg: &mut String, size: Size) -> Drawn {
        let root = SVGBackend::with_string(svg, (size.width, size.height)).into_drawing_area();
        let (width, height) = (size.width as i32, size.height as i32);
        root.draw(&Rectangle::new([(14, 14), (width - 14, height - 14)], GRID))?;
        let middle = Pos::new(HPos::Center, VPos::Center);
        let style = ("sans-serif", size.text, &TEXT).into_text_style(&root).pos(middle);
        let line = size.text * 3 / 2;
        let first = (height - line * (self.words.len() as i32 - 1)) / 2;
        for (row, words) in (0..).zip(&self.words) {
            root.draw(&Text::new(words.as_str(), (width / 2, first + row * line), style.clone()))?;
        }
        root.present()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_why_there_is_no_picture() {
        let blank = Blank { label: "Tails", words: vec!["too few flows".into(), "1,000 needed".into()] };
        let sheet = blank.for_sheet(crate::PANEL);
        assert!(sheet.contains("too few flows") && sheet.contains("1,000 needed"), "{sheet}");
        assert!(sheet.contains("#1c1c1c") && !sheet.contains("#0102"), "{sheet}");
        assert!(blank.for_page(Size::PAGE[1]).contains("aria-label=\"Tails\""));
    }
}
