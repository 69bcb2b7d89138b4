//! Erasure codes: what honest symbols decode to is what was coded, and hostile ones are refused
//! without harm.

use fec::{random_linear, reed_solomon};

use crate::input::Input;

/// Any block.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.below(4) {
        0 => reed_solomon_honest(&mut input),
        1 => reed_solomon_hostile(&mut input),
        2 => random_linear_honest(&mut input),
        _ => random_linear_hostile(&mut input),
    }
}

fn sources(input: &mut Input<'_>) -> Vec<Vec<u8>> {
    let k = 1 + input.below(if input.clone().flag() { 24 } else { 255 });
    (0..k)
        .map(|i| {
            let mut source = input.bytes(input.clone().below(16)).to_vec();
            source.resize(usize::from(input.u8()) * if input.flag() { 1 } else { 7 }, i as u8);
            source
        })
        .collect()
}

fn slices(sources: &[Vec<u8>]) -> Vec<&[u8]> {
    sources.iter().map(Vec::as_slice).collect()
}

/// `count` of the numbers below `n`, as the input has them.
fn subset(input: &mut Input<'_>, count: usize, n: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..n).collect();
    for i in 0..count.min(n) {
        let other = i + input.below(n - i);
        all.swap(i, other);
    }
    all.truncate(count.min(n));
    all
}

fn reed_solomon_honest(input: &mut Input<'_>) {
    let sources = sources(input);
    let coded = slices(&sources);
    let repairs = 256 - sources.len();
    let count = (1 + input.below(8)).min(repairs);
    let chosen = subset(input, count, repairs.min(256));
    let mut symbols = vec![vec![0; fec::symbol_len(&coded)]; count];
    for (&index, symbol) in chosen.iter().zip(&mut symbols) {
        reed_solomon::encode(&coded, index as u8, symbol).expect("a block that the code allows");
    }
    let losses = count.min(1 + input.below(8));
    let lost = subset(input, losses, sources.len());
    let received: Vec<Option<&[u8]>> =
        coded.iter().enumerate().map(|(i, &s)| (!lost.contains(&i)).then_some(s)).collect();
    let symbols: Vec<(u8, &[u8])> =
        chosen.iter().zip(&symbols).map(|(&index, s)| (index as u8, s.as_slice())).collect();
    let mut scratch = reed_solomon::DecodeScratch::new();
    let rebuilt = reed_solomon::decode(&received, &symbols, &mut scratch).expect("enough symbols");
    let mut found = 0;
    for (index, bytes) in rebuilt {
        assert!(lost.contains(&index));
        assert_eq!(bytes, coded[index]);
        found += 1;
    }
    assert_eq!(found, lost.len());
}

fn reed_solomon_hostile(input: &mut Input<'_>) {
    let sources = sources(input);
    let lost = input.u8();
    let received: Vec<Option<&[u8]>> =
        sources.iter().enumerate().map(|(i, s)| (i as u8 & 7 != lost & 7).then_some(s.as_slice())).collect();
    let mut symbols = Vec::new();
    for _ in 0..input.below(9) {
        let mut symbol = input.bytes(usize::from(input.clone().u8())).to_vec();
        symbol.resize(usize::from(input.u16()) % 3_000, input.u8());
        symbols.push((input.u8(), symbol));
    }
    let symbols: Vec<(u8, &[u8])> = symbols.iter().map(|(i, s)| (*i, s.as_slice())).collect();
    let mut scratch = reed_solomon::DecodeScratch::new();
    if let Ok(rebuilt) = reed_solomon::decode(&received, &symbols, &mut scratch) {
        for (index, bytes) in rebuilt {
            assert!(received[index].is_none());
            assert!(symbols.iter().any(|(_, s)| bytes.len() + fec::PREFIX <= s.len()));
        }
    }
}

fn random_linear_honest(input: &mut Input<'_>) {
    let sources = sources(input);
    let coded = slices(&sources);
    let seed = u32::from(input.u16());
    let len = fec::symbol_len(&coded);
    let losses = 1 + input.below(8);
    let lost = subset(input, losses, sources.len());
    let mut decoder =
        random_linear::Decoder::new(seed, coded.len(), len).expect("a block that the code allows");
    for (index, source) in coded.iter().enumerate().filter(|(i, _)| !lost.contains(i)) {
        decoder.add_source(index, source).expect("fits");
    }
    let mut symbol = vec![0; len];
    let mut index = u32::from(input.u16());
    // Each symbol is useless with a chance of 1 in 255: this many in a row is an error.
    for _ in 0..lost.len() + 12 {
        random_linear::encode(&coded, seed, index, &mut symbol).expect("fits");
        decoder.add_repair(index, &symbol).expect("fits");
        index = index.wrapping_add(1);
    }
    assert!(decoder.is_complete());
    while let Some(rebuilt) = decoder.next_rebuilt() {
        let (index, bytes) = rebuilt.expect("honest symbols");
        assert_eq!(bytes, coded[index]);
    }
}

fn random_linear_hostile(input: &mut Input<'_>) {
    let (k, len) = (input.below(256), usize::from(input.u16()) % 2_000);
    let Ok(mut decoder) = random_linear::Decoder::new(u32::from(input.u8()), k, len) else { return };
    while let Some(step) = input.step() {
        let mut bytes = input.bytes(usize::from(input.clone().u8())).to_vec();
        if step & 2 != 0 {
            bytes.resize(len, step);
        }
        if step & 1 == 0 {
            let _ = decoder.add_source(usize::from(input.u8()), &bytes);
        } else {
            let _ = decoder.add_repair(u32::from(input.u16()), &bytes);
        }
        assert!(decoder.rank() <= decoder.k());
        while let Some(rebuilt) = decoder.next_rebuilt() {
            if let Ok((_, bytes)) = rebuilt {
                assert!(bytes.len() + fec::PREFIX <= len);
            }
        }
    }
}
