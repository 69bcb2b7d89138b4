//! Intel's ISA-L, built from source by the crate `isal-sys`.

use std::{ffi::c_int, hint::black_box};

// Only to link the library: the crate declares nothing of the erasure codes.
use isal_sys as _;

use super::{Contender, LEN, sources};

unsafe extern "C" {
    fn gf_gen_cauchy1_matrix(a: *mut u8, m: c_int, k: c_int);
    fn gf_invert_matrix(a: *mut u8, out: *mut u8, n: c_int) -> c_int;
    fn ec_init_tables(k: c_int, rows: c_int, a: *const u8, tables: *mut u8);
    fn ec_encode_data(
        len: c_int,
        k: c_int,
        rows: c_int,
        tables: *const u8,
        data: *const *const u8,
        out: *mut *mut u8,
    );
}

/// K + M rows of K coefficients, the first K of them the identity.
fn matrix(k: usize, m: usize) -> Vec<u8> {
    let mut matrix = vec![0; (k + m) * k];
    // SAFETY: the matrix has the size that the arguments tell.
    unsafe { gf_gen_cauchy1_matrix(matrix.as_mut_ptr(), (k + m) as c_int, k as c_int) };
    matrix
}

/// The expanded form of `rows`, each of `k` coefficients.
fn tables(k: usize, rows: &[u8]) -> Vec<u8> {
    let mut tables = vec![0; 32 * rows.len()];
    let count = (rows.len() / k) as c_int;
    // SAFETY: 32 bytes for each coefficient, as the interface asks for.
    unsafe { ec_init_tables(k as c_int, count, rows.as_ptr(), tables.as_mut_ptr()) };
    tables
}

/// Multiplies: `out[row] = sum of tables[row][i] x data[i]`.
fn multiply(tables: &[u8], data: &[&[u8]], out: &mut [Vec<u8>]) {
    assert_eq!(tables.len(), 32 * data.len() * out.len());
    assert!(data.iter().all(|d| d.len() == LEN) && out.iter().all(|o| o.len() == LEN));
    let data: Vec<*const u8> = data.iter().map(|d| d.as_ptr()).collect();
    let mut out: Vec<*mut u8> = out.iter_mut().map(|o| o.as_mut_ptr()).collect();
    let (k, rows) = (data.len() as c_int, out.len() as c_int);
    // SAFETY: all buffers have LEN bytes and the tables fit, as checked above.
    unsafe {
        ec_encode_data(LEN as c_int, k, rows, black_box(tables.as_ptr()), data.as_ptr(), out.as_mut_ptr());
    }
}

pub fn contender(k: usize, m: usize) -> Contender {
    let matrix = matrix(k, m);
    let encoding = tables(k, &matrix[k * k..]);
    let encode = {
        let (sources, encoding) = (sources(k), encoding.clone());
        let mut out = vec![vec![0; LEN]; m];
        move || {
            let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
            multiply(&encoding, black_box(&sources), black_box(&mut out));
        }
    };
    let sources = sources(k);
    let mut repairs = vec![vec![0; LEN]; m];
    multiply(&encoding, &sources.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut repairs);
    let mut out = vec![vec![0; LEN]; m];
    let expected = sources[..m].to_vec();
    let mut decode = move || {
        // The rows of what is there: sources M to K, then all repair symbols.
        let mut rows = matrix[m * k..].to_vec();
        let mut inverse = vec![0; k * k];
        // SAFETY: both are K x K.
        let failed = unsafe { gf_invert_matrix(rows.as_mut_ptr(), inverse.as_mut_ptr(), k as c_int) };
        assert_eq!(failed, 0);
        let decoding = tables(k, &inverse[..m * k]);
        let have: Vec<&[u8]> = sources[m..].iter().chain(&repairs).map(Vec::as_slice).collect();
        multiply(&decoding, black_box(&have), black_box(&mut out));
        out[0][0]
    };
    assert_eq!(decode(), expected[0][0], "ISA-L decodes what it encoded");
    Contender { name: "ISA-L", encode: Box::new(encode), decode: Box::new(move || _ = black_box(decode())) }
}
