//! Files that people write: read whole, but not without end.

use std::io::{self, Read};

/// More is nothing that somebody wrote: a device tells no length and may have no end.
const MOST_BYTES: u64 = 1 << 20;

/// All bytes of a file, at most 1 MiB.
///
/// # Errors
/// When it is longer, or cannot be read.
pub fn whole(file: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::Error::other("it is longer than 1 MiB"));
    }
    Ok(bytes)
}

/// The text of a file, at most 1 MiB.
///
/// # Errors
/// When it is longer, is no text, or cannot be read.
pub fn whole_text(file: impl Read) -> io::Result<String> {
    let is_none = |_| io::Error::new(io::ErrorKind::InvalidData, "it is no text in UTF-8");
    String::from_utf8(whole(file)?).map_err(is_none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_not_read_to_it() {
        let most = vec![b'x'; MOST_BYTES as usize];
        assert_eq!(whole(&most[..]).unwrap(), most);
        let error = |told: io::Result<String>| told.unwrap_err().to_string();
        assert_eq!(error(whole_text(io::repeat(0))), "it is longer than 1 MiB");
        assert_eq!(error(whole_text(&b"\xff"[..])), "it is no text in UTF-8");
    }
}
