#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| chancery_sdk::fuzzing::http1(bytes));
