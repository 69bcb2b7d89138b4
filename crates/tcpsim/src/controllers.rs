//! Congestion controllers of the simulator's own, one file each, beside those of the crate
//! `congestion`: models of what others run, which the transport has no use for.
//!
//! A new one is a file with a type that is a [`WindowControl`](crate::WindowControl), and its line
//! here.

mod bbr_like;

use crate::own::OwnController;

/// Makes a controller's kind.
pub type Make = fn() -> OwnController;

/// All of them, by their names.
pub const CONTROLLERS: &[(&str, Make)] =
    &[("bbr-like", || OwnController::new("bbr-like", |window| Box::new(bbr_like::BbrLike::new(window))))];
