//! Frames that are nothing but a row of variable-length integers.

use super::super::coding::{Reader, put_varint};
use super::super::error::TransportErrorCode;
use super::super::ids::{PathId, StreamId};
use super::super::varint::VarInt;
use super::FrameProblem;

/// A value that stands in a frame as one variable-length integer.
pub(super) trait Field: Copy {
    fn from_varint(value: u64) -> Result<Self, FrameProblem>;
    fn to_varint(self) -> u64;

    fn read(reader: &mut Reader<'_>) -> Result<Self, FrameProblem> {
        Self::from_varint(reader.varint()?)
    }

    fn put(self, out: &mut Vec<u8>) {
        put_varint(out, self.to_varint());
    }
}

impl Field for u64 {
    fn from_varint(value: u64) -> Result<Self, FrameProblem> {
        Ok(value)
    }

    fn to_varint(self) -> u64 {
        self
    }
}

impl Field for StreamId {
    fn from_varint(value: u64) -> Result<Self, FrameProblem> {
        Ok(Self(value))
    }

    fn to_varint(self) -> u64 {
        self.0
    }
}

impl Field for VarInt {
    fn from_varint(value: u64) -> Result<Self, FrameProblem> {
        Ok(Self::saturating(value))
    }

    fn to_varint(self) -> u64 {
        self.into_inner()
    }
}

impl Field for TransportErrorCode {
    fn from_varint(value: u64) -> Result<Self, FrameProblem> {
        Ok(Self(VarInt::saturating(value)))
    }

    fn to_varint(self) -> u64 {
        self.0.into_inner()
    }
}

impl Field for PathId {
    fn from_varint(value: u64) -> Result<Self, FrameProblem> {
        u32::try_from(value).map(Self).map_err(|_| FrameProblem::PathIdTooLarge)
    }

    fn to_varint(self) -> u64 {
        u64::from(self.0)
    }
}

/// Declares a frame of one type whose body is its fields, each a [`Field`], in order.
macro_rules! varint_frame {
    (
        $(#[$doc:meta])*
        pub struct $name:ident = $frame_type:ident { $($(#[$field_doc:meta])* pub $field:ident: $ty:ty,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $ty,)* }

        impl $name {
            pub(super) fn decode(
                reader: &mut super::super::coding::Reader<'_>,
            ) -> Result<Self, super::FrameProblem> {
                Ok(Self { $($field: super::field::Field::read(reader)?,)* })
            }

            /// Appends the frame.
            pub fn encode(&self, out: &mut Vec<u8>) {
                super::super::coding::put_varint(out, super::frame_types::$frame_type);
                $(super::field::Field::put(self.$field, out);)*
            }

            /// Bytes that `encode` appends.
            pub fn encoded_len(&self) -> usize {
                super::super::coding::varint_len(super::frame_types::$frame_type)
                    $(+ super::super::coding::varint_len(super::field::Field::to_varint(self.$field)))*
            }
        }
    };
}

pub(super) use varint_frame;
