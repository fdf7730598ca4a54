#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| recado_fuzz::run("cron", input));
