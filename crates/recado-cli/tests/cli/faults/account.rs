//! Promises held against what clients saw, and against the server's account of what became of all jobs.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::ledger::{CLOCK_GRAIN, Delivery, Ledger};
use super::world::World;
use super::{ATTEMPTS, LINES, MAIL, PAY, QUEUES};
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
    // By fencing token.
    let deliveries: BTreeMap<u64, &Delivery> = ledger.deliveries.iter().map(|(fence, one)| (*fence, one)).collect();
    promises_1_and_2_nothing_is_lost(&jobs, &ledger);
    promise_8_batches_are_whole(&jobs, &ledger);
    promise_3_hidden_while_in_flight(&deliveries);
    promise_4_acks_stand(&jobs, &ledger);
    promise_5_deaths_have_their_errors(&jobs, &ledger);
    promise_6_one_effect(&jobs);
    promise_7_the_dead_stay_dead(api, &jobs, &ledger);
    promise_10_in_order(&deliveries);
}

/// Each job whose enqueue was answered is completed or dead, now that all work is done.
fn promises_1_and_2_nothing_is_lost(jobs: &HashMap<String, Value>, ledger: &Ledger) {
    for id in &ledger.enqueued {
        assert!(jobs.contains_key(id), "{id} was acknowledged and is not there");
    }
    for job in jobs.values() {
        assert!(matches!(job["state"].as_str(), Some("completed" | "dead")), "all work was done, but {job}");
    }
}

/// A batch is whole or absent, there if it was answered, and there once however often it was asked for.
fn promise_8_batches_are_whole(jobs: &HashMap<String, Value>, ledger: &Ledger) {
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

/// A job, a key and an ordered group are in one pair of hands at a time: until the lease ends, measured from when
/// the receive was sent, or a settle was sent, nobody else was handed it.
fn promise_3_hidden_while_in_flight(deliveries: &BTreeMap<u64, &Delivery>) {
    let mut last: HashMap<(&str, &str), (u64, &Delivery)> = HashMap::new();
    for (fence, delivery) in deliveries {
        let group = (delivery.queue == LINES).then_some(("group", delivery.group.as_str()));
        let key = delivery.key.as_deref().map(|key| ("key", key));
        for what in [Some(("job", delivery.job.as_str())), group, key].into_iter().flatten() {
            if let Some((before, held)) = last.insert(what, (*fence, delivery)) {
                let is_free = delivery.answered + CLOCK_GRAIN >= held.is_held_until();
                assert!(is_free, "{what:?} was in flight under {before} when it was handed out under {fence}");
            }
        }
    }
}

/// An ack that was answered with ok is the last delivery's, and its result is the job's.
fn promise_4_acks_stand(jobs: &HashMap<String, Value>, ledger: &Ledger) {
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

/// A job is dead because its attempts are used up or a worker said so, and its errors say why. That no job uses
/// more attempts is looked at when it is received.
fn promise_5_deaths_have_their_errors(jobs: &HashMap<String, Value>, ledger: &Ledger) {
    for (id, job) in jobs.iter().filter(|(_, job)| job["state"] == "dead") {
        let attempts = job["attempts"].as_u64().unwrap();
        let errors = list(job, "errors");
        let is_final = errors.last().is_some_and(|error| error["retryable"] == false);
        assert!(is_final || attempts >= ATTEMPTS && errors.len() as u64 >= ATTEMPTS, "{job}");
        assert!(!ledger.acked.contains_key(id), "its ack was answered: {job}");
    }
}

/// All jobs of one key that completed have one result, and only one of them was acked for it.
fn promise_6_one_effect(jobs: &HashMap<String, Value>) {
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

/// What was failed for good is dead, unless an operator replayed it, which is recorded.
fn promise_7_the_dead_stay_dead(api: &Api, jobs: &HashMap<String, Value>, ledger: &Ledger) {
    for id in &ledger.buried {
        let job = &jobs[id];
        assert!(job["state"] == "dead" || job["replays"] != 0, "it was failed for good: {job}");
    }
    let was_replayed = |queue: &&str| jobs.values().any(|job| job["queue"] == *queue && job["replays"] != 0);
    for queue in QUEUES.iter().filter(|queue| was_replayed(queue)) {
        assert_eq!(*queue, MAIL, "nobody replayed anything else");
        let page = api.get(&format!("/v1/audit?queue={queue}&action=replayed")).expect(200);
        assert!(!list(&page, "entries").is_empty(), "a replay is not in the trail of {queue}");
    }
}

/// In the order of the fencing tokens, the deliveries of a group's jobs never go back, but for replays.
fn promise_10_in_order(deliveries: &BTreeMap<u64, &Delivery>) {
    let mut at: HashMap<&str, u64> = HashMap::new();
    for delivery in deliveries.values().filter(|delivery| delivery.queue == LINES && delivery.replays == 0) {
        let at = at.entry(&delivery.group).or_default();
        let number = delivery.number;
        assert!(number >= *at, "{}: job {number} came after job {at} of its group", delivery.group);
        *at = number;
    }
    assert!(!at.is_empty(), "no group was served");
}
