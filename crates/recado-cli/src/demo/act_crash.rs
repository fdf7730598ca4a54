//! Act d: the server dies in the middle of the work.
//!
//! What makes the count honest. The demo's memory stands for the outside world (a mail provider, a bank):
//! it outlives the server, and it books an effect under its job's id, as promise 2 asks of every
//! worker (at least once: a receive whose ack was not answered may come again). So "none done twice" is
//! not left to that guard alone: a job whose ack *was* answered must never be received again (promises 1
//! and 4), and a single one breaks the act, whatever the guard did. Nothing lost is counted twice, too:
//! by the effects here and by the server's own list of completed jobs.

use std::collections::{BTreeSet, HashMap};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use serde_json::{Value, json};

use super::act_flight::next;
use super::worker::{Crew, Event, Orders, Shared, Verdict, Work, answered};
use super::{PATIENCE, Play, ensure, ids, number, owner};
use crate::client::{Client, Path};
use crate::failure::{Exit, Failure};
use crate::ui::list;

/// Jobs in this act.
const JOBS: usize = 1_000;
/// Jobs in one enqueue.
const BATCH: usize = 50;
/// Acks answered when the server is killed.
const KILL_AFTER: usize = 350;
/// Workers, and how many jobs each takes at a time.
const WORKERS: usize = 4;
const JOBS_PER_RECEIVE: usize = 10;

/// What the outside world knows of a job, and what its workers were told.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    deliveries: usize,
    effects: usize,
    acked: bool,
}

/// Effects by job id: the memory that outlives the server.
type Ledger = Arc<Mutex<HashMap<String, Entry>>>;

/// What happened, in the order in which the workers told it.
#[derive(Default)]
struct Story {
    acked: usize,
    repeated: usize,
    overtaken: usize,
    received_again: usize,
    received_after_ack: usize,
}

pub(super) fn play(play: &Play<'_>) -> Result<(), Failure> {
    let stage = play.stage;
    stage.act(
        'd',
        "kill -9",
        "what was acknowledged survives the death of the server; nothing is lost, nothing done twice",
    )?;
    let queue = play.queue("orders");
    play.configure(&queue, &json!({ "owner": owner(), "visibilityTimeout": "1s", "maxAttempts": 10 }))?;
    let ledger = Ledger::default();
    let (events, news) = channel();
    let book = Arc::clone(&ledger);
    let orders = Orders {
        url: play.server.url().to_owned(),
        queue: queue.clone(),
        max: JOBS_PER_RECEIVE,
        events,
        handler: Arc::new(move |work: &Work| effect(work, &book)),
    };
    let crew = Crew::start(WORKERS, &orders);
    let producer = produce(play, &queue, crew.shared());
    stage.say(&format!(
        "a producer enqueues {JOBS} orders, {BATCH} at a time, while {WORKERS} workers book them, \
         {JOBS_PER_RECEIVE} at a time"
    ))?;

    let mut story = Story::default();
    follow(&mut story, &news, &ledger, KILL_AFTER)?;
    play.server.kill();
    let (acked, open) = (story.acked, open(&ledger));
    stage.bad(&format!("SIGKILL after {acked} answered acks, with about {open} more jobs in the workers' hands"))?;
    let took = play.server.restart()?;
    crew.tell_restart();
    stage.say(&format!(
        "the server is back on the same port and data after {} ms; workers and producer try again",
        took.as_millis()
    ))?;
    follow(&mut story, &news, &ledger, JOBS)?;
    let enqueued = producer.join().map_err(|_| Failure::new(Exit::CheckFailed, "the producer panicked"))??;
    drop(crew);
    check(play, &queue, &enqueued, &ledger, &story)
}

/// The work of this act: an effect under the job's id, made once whatever comes again.
fn effect(work: &Work, ledger: &Ledger) -> Verdict {
    let mut entries = lock(ledger);
    let entry = entries.entry(work.id.clone()).or_default();
    if entry.effects == 0 {
        entry.effects += 1;
    }
    Verdict::Done(json!({ "booked": work.payload.get("orderId") }))
}

/// Enqueues all orders, each batch again until it is answered: the deduplication key makes that safe.
fn produce(play: &Play<'_>, queue: &str, shared: Arc<Shared>) -> JoinHandle<Result<Vec<String>, Failure>> {
    let url = play.server.url().to_owned();
    let path = Path::v1(&["queues", queue, "jobs"]);
    thread::spawn(move || {
        let client = Client::local(&url)?;
        let mut all = Vec::new();
        for first in (0..JOBS).step_by(BATCH) {
            let order = |n: usize| {
                json!({
                    "type": "order.book", "payload": { "orderId": format!("order-{n}") },
                    "dedup": { "key": format!("order-{n}"), "for": "10m" },
                })
            };
            let batch: Vec<Value> = (first..first + BATCH).map(order).collect();
            let Some(answer) = answered(&shared, || client.post(&path, &batch))? else {
                break;
            };
            all.extend(ids(&answer.value()?)?);
        }
        Ok(all)
    })
}

/// Reads what the workers tell until `wanted` acks were answered. The order is that of what they saw: an
/// answered ack is told before anything that the same worker, or any later receive, could see.
fn follow(story: &mut Story, news: &Receiver<Event>, ledger: &Ledger, wanted: usize) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    while story.acked < wanted {
        match next(news, deadline)? {
            Event::Received { work, .. } => {
                let mut entries = lock(ledger);
                let entry = entries.entry(work.id).or_default();
                entry.deliveries += 1;
                story.received_again += usize::from(entry.deliveries > 1);
                story.received_after_ack += usize::from(entry.acked);
            }
            Event::Settled { work, answer, .. } if answer.get("ok") == Some(&Value::Bool(true)) => {
                let mut entries = lock(ledger);
                let entry = entries.entry(work.id).or_default();
                story.acked += usize::from(!entry.acked);
                entry.acked = true;
                story.repeated += usize::from(answer.get("repeated") == Some(&Value::Bool(true)));
            }
            // Received again before this ack came through: the other delivery decides.
            Event::Settled { .. } => story.overtaken += 1,
            Event::Broken(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Jobs that were received and whose ack was not answered.
fn open(ledger: &Ledger) -> usize {
    lock(ledger).values().filter(|entry| !entry.acked).count()
}

fn check(play: &Play<'_>, queue: &str, enqueued: &[String], ledger: &Ledger, story: &Story) -> Result<(), Failure> {
    let stage = play.stage;
    let wanted: BTreeSet<String> = enqueued.iter().cloned().collect();
    ensure(enqueued.len() == JOBS && wanted.len() == JOBS, || {
        format!("{JOBS} orders should have {JOBS} ids, not {} of {}", wanted.len(), enqueued.len())
    })?;
    let entries = lock(ledger);
    let done: BTreeSet<String> =
        entries.iter().filter(|(_, entry)| entry.effects == 1).map(|(id, _)| id.clone()).collect();
    ensure(entries.len() == JOBS && done == wanted, || {
        format!("{JOBS} orders should have 1 effect each; {} have, of {}", done.len(), entries.len())
    })?;
    drop(entries);
    ensure(story.received_after_ack == 0, || {
        format!("{} jobs were received again after their ack was answered", story.received_after_ack)
    })?;
    let completed = completed(play, queue)?;
    ensure(completed == wanted, || format!("the server should list {JOBS} completed jobs, not {}", completed.len()))?;
    let stats = play.stats(queue)?;
    ensure(number(&stats, "depth") == 0 && number(&stats, "dead") == 0, || format!("nothing should be left: {stats}"))?;
    stage.say(&format!(
        "acks sent again and found done: {}; jobs received again because their ack was not answered: {}, \
         overtaken acks: {}; received again after an answered ack: 0",
        story.repeated, story.received_again, story.overtaken
    ))?;
    stage.kept(&format!("{JOBS} enqueued, {JOBS} effects, {JOBS} completed on the server: none lost, none done twice"))
}

/// The ids of all jobs that the server calls completed.
fn completed(play: &Play<'_>, queue: &str) -> Result<BTreeSet<String>, Failure> {
    let mut found = BTreeSet::new();
    let mut cursor: Option<String> = None;
    loop {
        let path = Path::v1(&["queues", queue, "jobs"])
            .query("state", Some("completed"))
            .query("limit", Some("1000"))
            .query("cursor", cursor.as_ref());
        let page = play.client.get(&path)?.value()?;
        let ids = list(&page, "jobs").iter().filter_map(|job| job.get("id")?.as_str());
        found.extend(ids.map(str::to_owned));
        cursor = page.get("cursor").and_then(Value::as_str).map(str::to_owned);
        if cursor.is_none() {
            return Ok(found);
        }
    }
}

fn lock(ledger: &Ledger) -> MutexGuard<'_, HashMap<String, Entry>> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}
