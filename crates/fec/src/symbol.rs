//! Virtual symbols: combining sources as if each were framed with its length, and unframing what
//! was rebuilt.

use arrayvec::ArrayVec;
use gf256::{Kernels, field};

use crate::{EncodeError, MAX_SOURCE_LEN, MAX_SOURCES, PREFIX};

/// Length in bytes of the repair symbols of a block with these sources: [`PREFIX`] more than the
/// longest.
pub fn symbol_len(sources: &[&[u8]]) -> usize {
    PREFIX + sources.iter().map(|source| source.len()).max().unwrap_or(0)
}

/// Checks what every encoder needs: the number of sources, their lengths, and equal outputs that
/// are long enough.
pub(crate) fn check_encode(sources: &[&[u8]], outs: &[&mut [u8]]) -> Result<(), EncodeError> {
    if sources.is_empty() || sources.len() > MAX_SOURCES {
        return Err(EncodeError::SourceCount { sources: sources.len() });
    }
    let needed = symbol_len(sources);
    if needed > PREFIX + MAX_SOURCE_LEN {
        let too_long = sources.iter().position(|source| source.len() > MAX_SOURCE_LEN);
        return Err(EncodeError::SourceTooLong {
            source_index: too_long.unwrap_or_default(),
            len: needed - PREFIX,
        });
    }
    let mut expected = None;
    for out in outs {
        let given = out.len();
        if given < needed {
            return Err(EncodeError::OutputTooShort { needed, given });
        }
        match expected.replace(given) {
            Some(expected) if expected != given => {
                return Err(EncodeError::UnequalOutputs { expected, given });
            }
            _ => {}
        }
    }
    Ok(())
}

/// For every output the sum of its initial virtual symbol, if any are given, and of the virtual
/// symbols of `sources` times the coefficients of its row. Takes at most [`Kernels::TILE`] outputs,
/// of one length.
pub(crate) fn combine(outs: &mut [&mut [u8]], init: &[&[u8]], rows: &[&[u8]], sources: &[&[u8]]) {
    let mut payloads: ArrayVec<&mut [u8], { Kernels::TILE }> = ArrayVec::new();
    for (j, out) in outs.iter_mut().enumerate() {
        let (prefix, payload) = out.split_at_mut(PREFIX);
        let sum = combined_length(rows[j], sources).to_be_bytes();
        let start = init.get(j).map_or([0; PREFIX], |init| [init[0], init[1]]);
        prefix.copy_from_slice(&[sum[0] ^ start[0], sum[1] ^ start[1]]);
        payloads.push(payload);
    }
    let init: ArrayVec<&[u8], { Kernels::TILE }> = init.iter().map(|init| &init[PREFIX..]).collect();
    Kernels::detect().product_onto(&mut payloads, &init, rows, sources);
}

/// The combination of the sources' lengths. Neighbours of one length, which most are, share their
/// products.
fn combined_length(row: &[u8], sources: &[&[u8]]) -> u16 {
    let mut sum = 0;
    let (mut run_len, mut run_factor) = (0, 0);
    for (&c, source) in row.iter().zip(sources) {
        if source.len() != run_len {
            sum ^= scaled_length(run_len, run_factor);
            (run_len, run_factor) = (source.len(), 0);
        }
        run_factor ^= c;
    }
    sum ^ scaled_length(run_len, run_factor)
}

/// `c` times both bytes of a length.
pub(crate) fn scaled_length(len: usize, c: u8) -> u16 {
    debug_assert!(len <= MAX_SOURCE_LEN);
    let [high, low] = (len as u16).to_be_bytes();
    u16::from_be_bytes([field::mul(c, high), field::mul(c, low)])
}

/// Adds `c` times the virtual symbol of `source` to `symbol`, which grows with it.
pub(crate) fn accumulate(symbol: &mut Vec<u8>, source: &[u8], c: u8) {
    let len = PREFIX + source.len();
    if symbol.len() < len {
        symbol.resize(len, 0);
    }
    let [high, low] = scaled_length(source.len(), c).to_be_bytes();
    symbol[0] ^= high;
    symbol[1] ^= low;
    Kernels::detect().mul_add(&mut symbol[PREFIX..], source, c);
}

/// The source whose virtual symbol this is; `None` if it is not one: the length exceeds it, or the
/// padding is not zero.
pub(crate) fn unframe(symbol: &[u8]) -> Option<&[u8]> {
    let (prefix, payload) = symbol.split_at_checked(PREFIX)?;
    let len = usize::from(u16::from_be_bytes([prefix[0], prefix[1]]));
    let (source, padding) = payload.split_at_checked(len)?;
    padding.iter().all(|&byte| byte == 0).then_some(source)
}
