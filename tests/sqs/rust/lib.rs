//! Only tests: see `tests/clients.rs`.
