//! Workers that ack, fail, release, extend, forget, and settle again what was not answered.

use serde_json::{Value, json};

use super::ledger::Moment;
use super::world::{Luck, World};
use super::{ATTEMPTS_MAX, HELD, LINES, MAIL, PAY};
use crate::support::api::{failure, id, list, settle_of};

/// A settle that is to be sent: the job and the entry.
struct Settle {
    job: Value,
    entry: Value,
}

impl Settle {
    fn new(job: &Value, outcome: &Value) -> Settle {
        Settle { job: job.clone(), entry: settle_of(job, outcome) }
    }
}

/// Who acks says under which delivery.
fn ack(job: &Value) -> Settle {
    Settle::new(job, &json!({ "outcome": "ack", "result": { "fence": job["fencingToken"] } }))
}

/// What a worker makes of a job; nothing when it forgets it.
fn outcome(luck: &mut Luck, job: &Value) -> Option<Settle> {
    match luck.below(32) {
        0..=2 => Some(Settle::new(job, &failure(true))),
        3 if job["queue"] == MAIL => Some(Settle::new(job, &failure(false))),
        4 | 5 => Some(Settle::new(job, &json!({ "outcome": "release" }))),
        6 | 7 => Some(Settle::new(job, &json!({ "outcome": "release", "delay": "20ms" }))),
        8..=11 => None,
        _ => Some(ack(job)),
    }
}

pub(super) fn work(world: &World, mut luck: Luck) {
    let mut pending: Vec<Settle> = Vec::new();
    let mut forgotten: Vec<Settle> = Vec::new();
    while !world.is_stopped() {
        if luck.one_in(8) {
            // It may be too late by now, and then it changes nothing.
            pending.extend(forgotten.pop());
        }
        // Half of the settles go with the next receive.
        if luck.one_in(2) {
            settle(world, &mut pending);
        }
        let with: Vec<&Value> = pending.iter().map(|settle| &settle.entry).collect();
        let body = json!({
            "queues": [MAIL, PAY, LINES], "order": "strict", "max": 1 + luck.below(5), "wait": "100ms",
            "settle": with,
        });
        let began = begin(world, &pending);
        let Some(answer) = world.post("/v1/receive", &body) else { continue };
        if answer.status != 200 {
            world.broken(format!("receive: {answer:?}"));
            continue;
        }
        let answer = answer.value();
        settled(world, &mut pending, &answer);
        for job in list(&answer, "jobs") {
            world.ledger().received(job, began, ATTEMPTS_MAX);
        }
        for job in list(&answer, "jobs") {
            if luck.one_in(8) {
                pending.push(Settle::new(job, &json!({ "outcome": "extend" })));
                settle(world, &mut pending);
            }
            match outcome(&mut luck, job) {
                Some(settle) => pending.push(settle),
                None => forgotten.push(ack(job)),
            }
        }
    }
}

/// Notes that these settles are about to be sent; answers with the moment.
fn begin(world: &World, pending: &[Settle]) -> Moment {
    let mut ledger = world.ledger();
    for settle in pending {
        ledger.settling(&settle.job, &settle.entry);
    }
    ledger.moment()
}

/// Sends what is pending until it is answered: the same again is never wrong.
fn settle(world: &World, pending: &mut Vec<Settle>) {
    if pending.is_empty() {
        return;
    }
    begin(world, pending);
    let body = json!(pending.iter().map(|settle| &settle.entry).collect::<Vec<_>>());
    let Some(answer) = world.ask_until_answered("POST", "/v1/settle", &[], &body) else { return };
    if answer.status != 200 {
        return world.broken(format!("settle: {answer:?}"));
    }
    settled(world, pending, &answer.value());
}

/// Takes off what was answered, and notes it.
fn settled(world: &World, pending: &mut Vec<Settle>, answer: &Value) {
    let entries = list(answer, "settled");
    if entries.len() != pending.len() {
        return world.broken(format!("{} settles: {answer}", pending.len()));
    }
    let mut ledger = world.ledger();
    for (settle, entry) in pending.drain(..).zip(entries) {
        ledger.settled(&settle.job, &settle.entry, entry);
    }
}

/// Takes jobs, holds them until the server was started again, and acks them then: their receipts are as good as before.
/// A receive without an answer is asked again as the same attempt, which brings the same jobs.
pub(super) fn hold(world: &World) {
    let mut attempt = 0;
    while !world.is_stopped() {
        let body = json!({ "max": 10, "wait": "100ms", "attemptId": format!("attempt-{attempt}") });
        let began = world.ledger().moment();
        let path = format!("/v1/queues/{HELD}/receive");
        let Some(answer) = world.ask_until_answered("POST", &path, &[], &body) else { return };
        attempt += 1;
        let answer = answer.value();
        let jobs = list(&answer, "jobs");
        for job in jobs {
            world.ledger().received(job, began, ATTEMPTS_MAX);
        }
        let Some(first) = jobs.first() else { continue };
        let generation = world.generation();
        while world.generation() == generation && world.wants_load() {
            // Which also shows that it stays in flight.
            let path = format!("/v1/jobs/{}", id(first));
            let now = world.ask("GET", &path, &[], &Value::Null);
            if now.as_ref().is_some_and(|now| now.value()["state"] != "inFlight") {
                return world.broken(format!("{path} is held, but {now:?}"));
            }
        }
        let mut pending: Vec<Settle> = jobs.iter().map(ack).collect();
        settle(world, &mut pending);
        let through_an_end = world.generation() > generation;
        for job in jobs.iter().filter(|_| pending.is_empty()) {
            world.ledger().held(&id(job), through_an_end);
        }
    }
}
