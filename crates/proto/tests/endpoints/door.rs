//! Strangers at an endpoint's door: Retry and tokens, version negotiation, stateless reset,
//! amplification.

mod amplification;
mod net;
mod reset;
mod retry;
mod tokens;
mod versions;
