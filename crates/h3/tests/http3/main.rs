//! HTTP/3 between two endpoints on loopback.

#[path = "../../examples/axum.rs"]
#[allow(dead_code, reason = "it has a `main` of its own")]
mod axum_example;
mod common;
mod datagrams;
mod fields;
mod hostile;
mod hostile_qpack;
mod plain;
mod requests;
mod service;
mod unread;
