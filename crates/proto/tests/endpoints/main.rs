//! Two endpoints in memory, in virtual time. One program, since each is compiled and linked with all that it tests;
//! what a connection holds in memory has another.

mod common;
mod door;
mod early_data;
mod jumbo;
mod key_update;
mod moving;
mod pair;
mod tls;
