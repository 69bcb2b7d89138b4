//! HTTP/3 between two endpoints on loopback.

mod common;
mod datagrams;
mod hostile;
mod requests;
mod service;
