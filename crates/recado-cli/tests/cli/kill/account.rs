//! The server's account of what became of all jobs, compared with what its clients saw.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::world::{Ledger, World};
use super::{LINES, MAX_ATTEMPTS, PAY, QUEUES};
use crate::support::api::{Api, list};

/// All jobs of all queues by id.
fn jobs(api: &Api) -> HashMap<String, Value> {
    let mut jobs = HashMap::new();
    for queue in QUEUES {
        let mut cursor = String::new();
        loop {
            let path = format!("/v1/queues/{queue}/jobs?limit=1000{cursor}");
            let page = api.get(&path).expect(200);
            jobs.extend(list(&page, "jobs").iter().map(|job| (job["id"].as_str().unwrap().to_owned(), job.clone())));
            let Some(next) = page["cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
    }
    jobs
}

pub(super) fn compare(api: &Api, world: &World) {
    let jobs = jobs(api);
    let ledger = world.ledger();
    assert!(!ledger.acked.is_empty() && !ledger.deliveries.is_empty(), "there was no load");
    nothing_is_lost(&jobs, &ledger);
    batches_are_whole(&jobs, &ledger);
    acks_stand(&jobs, &ledger);
    one_effect(&jobs);
    in_order(&ledger);
}

/// Each job whose enqueue was answered is completed, or dead with its errors.
fn nothing_is_lost(jobs: &HashMap<String, Value>, ledger: &Ledger) {
    for id in &ledger.enqueued {
        assert!(jobs.contains_key(id), "{id} was acknowledged and is not there");
    }
    for (id, job) in jobs {
        let errors = list(job, "errors");
        match job["state"].as_str() {
            Some("completed") => {}
            Some("dead") => {
                let attempts = job["attempts"].as_u64().unwrap();
                assert!(attempts >= MAX_ATTEMPTS && errors.len() >= 3, "{job}");
                assert!(!ledger.acked.contains_key(id), "its ack was answered: {job}");
            }
            _ => panic!("all work was done, but {job}"),
        }
    }
}

/// A batch is whole or absent, there if it was answered, and there once however often it was asked for.
fn batches_are_whole(jobs: &HashMap<String, Value>, ledger: &Ledger) {
    let mut sizes: HashMap<(&str, &str), usize> = HashMap::new();
    for job in jobs.values() {
        *sizes.entry((job["queue"].as_str().unwrap(), job["businessId"].as_str().unwrap())).or_default() += 1;
    }
    for (business, asked) in &ledger.asked {
        let size = sizes.remove(&(asked.queue, business.as_str())).unwrap_or_default();
        let is_absent = size == 0 && !asked.must_be_there;
        assert!(size == asked.size || is_absent, "{business} in {}: {size} of {}", asked.queue, asked.size);
    }
    assert!(sizes.is_empty(), "nobody asked for {sizes:?}");
}

/// An ack that was answered with ok is the last delivery's, and its result is the job's.
fn acks_stand(jobs: &HashMap<String, Value>, ledger: &Ledger) {
    let mut last: HashMap<&str, u64> = HashMap::new();
    for (fence, delivery) in &ledger.deliveries {
        let last = last.entry(&delivery.job).or_default();
        *last = (*last).max(*fence);
    }
    for (id, acked) in &ledger.acked {
        let job = &jobs[id];
        assert_eq!((&job["state"], &job["result"]["fence"]), (&"completed".into(), &acked.fence.into()), "{job}");
        assert_eq!(acked.fence, last[id.as_str()], "delivered again after the ack that counted: {job}");
    }
    for (id, job) in jobs.iter().filter(|(_, job)| job["state"] == "completed" && job["queue"] != PAY) {
        assert!(ledger.tried.contains(id), "nobody acked {job}");
    }
}

/// All jobs of one key that completed have one result, and only one of them was acked for it.
fn one_effect(jobs: &HashMap<String, Value>) {
    let mut results: HashMap<&str, (&Value, u64)> = HashMap::new();
    for job in jobs.values().filter(|job| job["state"] == "completed") {
        let Some(key) = job["idempotencyKey"].as_str() else { continue };
        let (result, count) = results.entry(key).or_insert((&job["result"], 0));
        *count += 1;
        assert_eq!(*result, &job["result"], "a second effect of {key}: {job}");
        assert!(job["result"]["fence"].is_u64(), "{job}");
    }
    assert!(results.values().any(|(_, count)| *count > 1), "no key was used twice");
}

/// In the order of the fencing tokens, the deliveries of a group's jobs never go back, but for replays.
fn in_order(ledger: &Ledger) {
    let in_order: BTreeMap<u64, _> = ledger.deliveries.iter().map(|(fence, delivery)| (*fence, delivery)).collect();
    let mut at: HashMap<&str, u64> = HashMap::new();
    for delivery in in_order.values().filter(|delivery| delivery.queue == LINES && delivery.replays == 0) {
        let at = at.entry(&delivery.group).or_default();
        let number = delivery.number;
        assert!(number >= *at, "{}: job {number} came after job {at} of its group", delivery.group);
        *at = number;
    }
    assert!(!at.is_empty(), "no group was served");
}
