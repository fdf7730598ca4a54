//! What a guard may be asked, whichever edge it comes in by.

use recado_core::{GuardAction, GuardBegin, GuardUse};
use serde_json::value::RawValue;

use crate::faults::Faults;
use crate::limits::{DELAY_MS_MAX, RESULT_BYTES_MAX, VISIBILITY_MS};

/// Checks a begin, but not the name of its queue.
pub fn check_begin(begin: &GuardBegin, faults: &mut Faults) {
    check_key(&begin.key, faults);
    faults.time_range("/ttl", Some(begin.ttl_ms), 1, DELAY_MS_MAX);
    check_hold(begin.hold_ms, faults);
    faults.check_key("/attemptId", begin.attempt_id.as_deref());
    if begin.receipt.is_some() && begin.job.is_none() {
        faults.at("/receipt", "goes with job only");
    }
}

/// Checks what becomes of a guard, but not the name of its queue.
pub fn check_use(wanted: &GuardUse, faults: &mut Faults) {
    check_key(&wanted.key, faults);
    match &wanted.action {
        GuardAction::Complete { result: Some(bytes) } => match serde_json::from_slice::<&RawValue>(bytes) {
            Ok(raw) => faults.check_free("/result", Some(raw), RESULT_BYTES_MAX),
            Err(error) => faults.at("/result", format!("not JSON: {error}")),
        },
        GuardAction::Complete { result: None } | GuardAction::Abort => {}
        GuardAction::Extend { hold_ms } => check_hold(*hold_ms, faults),
    }
}

fn check_key(key: &str, faults: &mut Faults) {
    faults.check_key("/key", Some(key));
    if matches!(key, "." | "..") {
        faults.at("/key", "`.` and `..` cannot be told apart from the steps of a path; use another key");
    }
}

fn check_hold(hold_ms: u64, faults: &mut Faults) {
    faults.time_range("/holdFor", Some(hold_ms), VISIBILITY_MS.0, VISIBILITY_MS.1);
}
