//! (s) The scanner for secrets and personal data, over payloads of 200 bytes, beside the reading of their JSON alone.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use recado_contract::json::Free;
use recado_contract::scan::{Wanted, scan_json};

use crate::payload::{PAYLOAD_BYTES, payload};
use crate::report::Line;
use crate::{Bench, progress};

/// Payloads looked at between two looks at the clock.
const TURN: u32 = 1_000;

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    progress("(s) the scanner");
    let time = bench.pick(Duration::from_secs(1), Duration::from_millis(300));
    for (what, payload) in [("of one long text", payload(1)), ("of ids", of_ids())] {
        ensure!(payload.len() == PAYLOAD_BYTES, "a payload of {} bytes", payload.len());
        let (mut scanned, mut read) = (Vec::new(), Vec::new());
        for _ in 0..bench.rounds() {
            scanned.push(microseconds(time, || scan_json(&payload, "/payload", Wanted::ALL).len()));
            read.push(microseconds(time, || usize::from(serde_json::from_slice::<Free>(&payload).is_err())));
        }
        bench
            .report
            .add(Line::new('s', format!("scan a payload {what}"), "us", scanned).against("read its JSON", read));
    }
    Ok(())
}

/// Ids, an address and a time: what a payload should be made of.
fn of_ids() -> Vec<u8> {
    let text = r#"{"deliveryId":"mail-100001","orderId":"0199f3c5-7b1a-7c3d-9e2f-1a2b3c4d5e6f","templateId":"welcome","locale":"en-GB","url":"https://example.org/orders/100001","at":"2026-06-02T09:00:00.000Z","n":1"#;
    let mut text = text.as_bytes().to_vec();
    text.resize(PAYLOAD_BYTES - 1, b'1');
    text.push(b'}');
    text
}

fn microseconds(time: Duration, mut look: impl FnMut() -> usize) -> f64 {
    let begun = Instant::now();
    let mut count = 0_u64;
    while begun.elapsed() < time {
        for _ in 0..TURN {
            black_box(look());
        }
        count += u64::from(TURN);
    }
    begun.elapsed().as_secs_f64() * 1e6 / count as f64
}
