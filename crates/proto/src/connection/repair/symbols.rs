//! Repair symbols over the un-ACKed packets of a path (scheme 1, docs/wire-format.md).

mod sender;

pub(super) use sender::EncodedBlock;
