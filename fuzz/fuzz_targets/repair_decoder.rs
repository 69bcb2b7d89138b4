#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_targets::repair_decoder::run(data));
