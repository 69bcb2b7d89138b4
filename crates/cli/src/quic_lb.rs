//! `--quic-lb`: how connection ids tell load balancers which server they lead to.

use std::str::FromStr;

use mendpath::QuicLb;

/// What stands behind `--quic-lb`, without the key:
/// `id=HEX[,nonce=BYTES][,config=0..6][,length=off]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuicLbOptions {
    /// This server's id.
    id: Vec<u8>,
    /// Bytes of a nonce.
    nonce: usize,
    /// The rotation bits.
    config: u8,
    /// Whether the first octet tells the length.
    length: bool,
}

impl QuicLbOptions {
    /// The configuration, with the key of the balancers if they have one.
    pub fn config(&self, key: Option<&Key>) -> QuicLb {
        let plain = self.plain().expect("it was tried when it was read");
        match key {
            Some(Key(key)) => plain.with_key(key),
            None => plain,
        }
    }

    fn plain(&self) -> Result<QuicLb, mendpath::QuicLbError> {
        QuicLb::new(self.config, &self.id, self.nonce).map(|config| config.encode_length(self.length))
    }
}

const FORM: &str = "write id=HEX[,nonce=BYTES][,config=0..6][,length=off], for example id=0a01,nonce=14";

impl FromStr for QuicLbOptions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut id, mut nonce, mut config, mut length) = (None, None, 0, true);
        for part in text.split(',') {
            let (name, value) =
                part.split_once('=').ok_or_else(|| format!("`{part}` says nothing: {FORM}"))?;
            let number = || value.parse().map_err(|_| format!("`{part}` holds no number: {FORM}"));
            match name.trim() {
                "id" => {
                    id = Some(hex(value).ok_or_else(|| {
                        format!("`{value}` is not bytes in hexadecimal, two digits each: {FORM}")
                    })?)
                }
                "nonce" => nonce = Some(usize::from(number()?)),
                "config" => config = number()?,
                "length" => {
                    length = match value {
                        "on" => true,
                        "off" => false,
                        _ => return Err(format!("`{part}` is neither on nor off: {FORM}")),
                    }
                }
                _ => return Err(format!("there is no `{name}`: {FORM}")),
            }
        }
        let id = id.ok_or_else(|| format!("the server's id is missing: {FORM}"))?;
        // Together one block of AES, where that leaves enough for the nonce.
        let nonce = nonce.unwrap_or_else(|| 16_usize.saturating_sub(id.len()).max(4));
        let options = Self { id, nonce, config, length };
        options.plain().map_err(|error| error.to_string())?;
        Ok(options)
    }
}

/// The key that connection ids are encrypted with: a secret of the servers and balancers.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; QuicLb::KEY_LEN]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let key = hex(text).and_then(|bytes| bytes.try_into().ok());
        key.map(Self).ok_or_else(|| "it is not 32 hexadecimal digits".to_owned())
    }
}

/// Bytes in hexadecimal; `0x` may stand before them, and colons between.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .trim()
        .trim_start_matches("0x")
        .bytes()
        .filter(|byte| *byte != b':')
        .map(|byte| char::from(byte).to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let options: QuicLbOptions = "id=0a:01".parse().unwrap();
        assert_eq!(options, QuicLbOptions { id: vec![10, 1], nonce: 14, config: 0, length: true });
        assert_eq!(options.config(None).cid_len(), 17);
        let options: QuicLbOptions = "id=0x1122334455667788,nonce=8,config=6,length=off".parse().unwrap();
        assert_eq!((options.id.len(), options.nonce, options.config, options.length), (8, 8, 6, false));
        assert_eq!("id=000102030405060708090a0b0c0d0e".parse::<QuicLbOptions>().unwrap().nonce, 4);
    }

    #[test]
    fn mistakes_are_told_with_what_may_stand() {
        let error = |text: &str| text.parse::<QuicLbOptions>().unwrap_err();
        assert!(error("nonce=8").contains("id is missing: write id=HEX"));
        assert!(error("id=0").contains("not bytes in hexadecimal"));
        assert!(error("id=xy").contains("not bytes in hexadecimal"));
        assert!(error("id=00,config=7").contains("from 0 to 6"));
        assert!(error("id=00,nonce=3").contains("at least 4"));
        assert!(error("id=00,nonce=300").contains("no number"));
        assert!(error("id=00,length=5").contains("neither on nor off"));
        assert!(error("id=00,key=00").contains("there is no `key`"));
        assert!(error("0a").contains("says nothing"));
    }

    #[test]
    fn keys_are_not_shown() {
        let key: Key = "8f95f09245765f80256934e50c66207f".parse().unwrap();
        assert_eq!(format!("{key:?}"), "Key(..)");
        let options: QuicLbOptions = "id=ed793a51d49b8f5f".parse().unwrap();
        let cid = options.config(Some(&key)).encode(&[0xee, 8, 0xd, 0xbf, 0x48, 0xc0, 0xd1, 0xe5], 0);
        assert_eq!(cid.to_string(), "104dd2d05a7b0de9b2b9907afb5ecf8cc3");
        assert!("8f95".parse::<Key>().unwrap_err().contains("32 hexadecimal digits"));
    }
}
