//! How large a picture is.

/// A picture's size. On a page it is drawn twice, for wide and for narrow screens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// The page's class for it.
    pub class: &'static str,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Size of letters in pixels.
    pub text: i32,
    /// About how many labels the horizontal axis has.
    pub labels: usize,
}

impl Size {
    /// Both sizes of a page.
    pub const PAGE: [Self; 2] = [
        Self { class: "wide", width: 960, height: 340, text: 17, labels: 10 },
        Self { class: "narrow", width: 340, height: 280, text: 15, labels: 5 },
    ];
}
