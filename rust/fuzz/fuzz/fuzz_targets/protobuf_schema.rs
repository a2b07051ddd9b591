#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| samsarrow_fuzz::run("protobuf_schema", input));
