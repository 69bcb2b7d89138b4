//! HTTP/3 between two endpoints on loopback. The scenarios of the tests of `h3` itself are among
//! them.

mod common;
mod datagrams;
mod hostile;
mod requests;
mod service;
