//! First in, first out; strictly so within a group of an ordered queue.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::support::api::{LONG_POLL, failure};
use crate::support::stage::Stage;

/// What a worker sees of a job.
fn number(job: &Value) -> u64 {
    job["payload"].as_u64().unwrap()
}

#[test]
fn promise_10_order_first_in_first_out_within_a_priority() {
    let mut stage = Stage::new();
    let job = |n: u64| json!({ "type": format!("t{}", n % 3), "payload": n, "priority": n % 2 });
    stage.enqueue_all("q", &json!((0..10).map(job).collect::<Vec<_>>()));
    for n in 10..20 {
        stage.enqueue("q", &job(n));
    }
    let first = stage.receive("q", &json!({ "max": 4 }));
    assert_eq!(first.iter().map(number).collect::<Vec<_>>(), [1, 3, 5, 7]);
    // Released ones go back to their old place, and a new process knows all places.
    for delivery in first.iter().rev() {
        stage.settled(delivery, &json!({ "outcome": "release" }));
    }
    stage.crash();
    let odd_then_even: Vec<u64> = (0..20).filter(|n| n % 2 == 1).chain((0..20).filter(|n| n % 2 == 0)).collect();
    let out: Vec<Value> = (0..4).flat_map(|_| stage.receive("q", &json!({ "max": 5 }))).collect();
    assert_eq!(out.iter().map(number).collect::<Vec<_>>(), odd_then_even);
}

#[test]
fn promise_10_order_groups_take_turns() {
    let mut stage = Stage::new();
    let job = |n: u64| json!({ "type": "t", "payload": n, "group": if n < 9 { "busy" } else { "quiet" } });
    stage.enqueue_all("q", &json!((0..12).map(job).collect::<Vec<_>>()));
    stage.crash();
    let out = stage.receive("q", &json!({ "max": 12 }));
    let of = |quiet: bool| out.iter().map(number).filter(|n| (*n >= 9) == quiet).collect::<Vec<_>>();
    assert_eq!((of(false), of(true)), ((0..9).collect(), vec![9, 10, 11]), "first in first out in each");
    let mut first: Vec<u64> = out[..6].iter().map(number).collect();
    first.sort_unstable();
    assert_eq!(first, [0, 1, 2, 9, 10, 11], "one job each in turn");
}

const GROUPS: u64 = 3;
const JOBS_PER_GROUP: u64 = 8;

/// A worker's stubborn day: every job is tried three times, by fail, timeout and release, before it is done,
/// and the server dies now and then. What is acked is `done`, in that order.
fn ordered_day(stage: &mut Stage, done: &mut HashMap<String, Vec<u64>>) {
    let mut tries: HashMap<u64, u64> = HashMap::new();
    let total = usize::try_from(GROUPS * JOBS_PER_GROUP).unwrap();
    let mut step = 0;
    while done.values().map(Vec::len).sum::<usize>() < total {
        // More than there are groups: only one of each may come.
        let jobs = stage.receive("q", &json!({ "max": 10, "wait": LONG_POLL }));
        assert!(!jobs.is_empty(), "nothing comes any more: {}", stage.stats("q"));
        let mut groups: Vec<&str> = jobs.iter().map(|job| job["group"].as_str().unwrap()).collect();
        groups.sort_unstable();
        groups.dedup();
        assert_eq!(groups.len(), jobs.len(), "two of one group are in flight: {jobs:?}");
        for job in &jobs {
            let (n, group) = (number(job), job["group"].as_str().unwrap().to_owned());
            let acked = done.entry(group).or_default();
            assert_eq!(n / GROUPS, acked.len() as u64, "job {n} came before its predecessor was done");
            let tried = tries.entry(n).or_default();
            *tried += 1;
            match (*tried, n % 4) {
                (1, 0) => stage.settled(job, &failure(true)),
                (1, 1) | (2, 0) => stage.settled(job, &json!({ "outcome": "release", "delay": "20ms" })),
                (1, 2) => {}
                // It may be late, and refused if the next delivery was faster.
                (_, 2) if stage.settle(job, &json!({ "outcome": "ack" }))["ok"] == false => {}
                (_, 2) => acked.push(n / GROUPS),
                (1, 3) => stage.settled(job, &json!({ "outcome": "release" })),
                _ => {
                    stage.ack(job);
                    acked.push(n / GROUPS);
                }
            }
        }
        step += 1;
        if step % 8 == 0 {
            stage.crash();
        }
    }
}

#[test]
fn promise_10_order_of_a_group_across_retries_and_restarts() {
    let mut stage = Stage::new();
    stage.configure(
        "q",
        &json!({
            "groups": { "ordered": true }, "maxAttempts": 99,
            "backoff": { "kind": "fixed", "base": "50ms" },
        }),
    );
    let job = |n: u64| {
        // One in four is to time out, so that the next one of its group waits for that.
        let timeout = if n % 4 == 2 { "200ms" } else { "1h" };
        json!({ "type": "t", "payload": n, "group": format!("g{}", n % GROUPS), "visibilityTimeout": timeout })
    };
    let all: Vec<Value> = (0..GROUPS * JOBS_PER_GROUP).map(job).collect();
    stage.enqueue_all("q", &json!(all[..10]));
    for job in &all[10..] {
        stage.enqueue("q", job);
    }
    let mut done = HashMap::new();
    ordered_day(&mut stage, &mut done);
    assert_eq!(done.len() as u64, GROUPS);
    for (group, acked) in done {
        assert_eq!(acked, (0..JOBS_PER_GROUP).collect::<Vec<_>>(), "{group}");
    }
}

/// A head in backoff holds its group, not the others; a dead one lets it go on.
#[test]
fn promise_10_order_a_head_in_backoff_blocks_its_group() {
    let mut stage = Stage::new();
    stage.configure(
        "q",
        &json!({
            "groups": { "ordered": true }, "visibilityTimeout": "1h", "maxAttempts": 2,
            "backoff": { "kind": "fixed", "base": "1h" },
        }),
    );
    let job = |n: u64, group: &str| json!({ "type": "t", "payload": n, "group": group });
    let ids = stage.enqueue_all("q", &json!([job(0, "a"), job(1, "a"), job(2, "b")]));
    let first = stage.take("q");
    assert_eq!(number(&first), 0);
    stage.fail(&first, true);
    let other = stage.take("q");
    assert_eq!(number(&other), 2);
    for _ in 0..2 {
        let answer = stage.post("/v1/queues/q/receive", &json!({ "max": 9 })).expect(200);
        assert_eq!((&answer["jobs"], &answer["emptyBecause"]), (&json!([]), &json!("group-order")), "{answer}");
        stage.crash();
    }
    stage.ask("PATCH", &format!("/v1/jobs/{}", ids[0]), &json!({ "delay": "0s" })).expect("an answer").expect(200);
    let again = stage.take("q");
    assert_eq!(number(&again), 0);
    stage.fail(&again, true);
    assert_eq!(stage.state(&ids[0]), "dead");
    assert_eq!(number(&stage.take("q")), 1);
}
