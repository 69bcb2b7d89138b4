//! Reads fields from the front of a message without ever running past its end.

/// A message that does not follow the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The message ends inside a field.
    #[error("the message is cut short")]
    Short,
    /// Bytes are left after the last field.
    #[error("the message is longer than its fields")]
    Trailing,
    /// A field holds a value without a meaning.
    #[error("the message holds an unknown {0}")]
    Unknown(&'static str),
    /// Text that is not UTF-8 or not a name.
    #[error("the message holds bad text")]
    Text,
}

/// A cursor over one message.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the front of `message`.
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        Ok(self.bytes(N)?.try_into().expect("bytes(N) has N bytes"))
    }

    /// One byte.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes, big-endian.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes, big-endian.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Eight bytes, big-endian.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Sixteen bytes, big-endian.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    pub fn u128(&mut self) -> Result<u128, DecodeError> {
        self.array().map(u128::from_be_bytes)
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Everything that is left, as text.
    ///
    /// # Errors
    /// [`DecodeError::Text`].
    pub fn text(&mut self) -> Result<&'a str, DecodeError> {
        str::from_utf8(self.rest()).map_err(|_| DecodeError::Text)
    }

    /// Checks that nothing is left.
    ///
    /// # Errors
    /// [`DecodeError::Trailing`].
    pub fn end(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Trailing) }
    }
}
