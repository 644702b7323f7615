#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| chancery_sdk::fuzzing::v0_1_jsonrpc_request(bytes));
