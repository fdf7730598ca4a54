//! Producers and an operator.

use serde_json::{Value, json};

use super::ledger::Asked;
use super::world::{Luck, World};
use super::{ATTEMPTS, ATTEMPTS_MAX, HELD, LINES, MAIL, PAY, options};
use crate::support::api::ids;

/// Unfinished jobs of a queue beyond which producers only look.
const DEPTH_MAX: u64 = 50;
/// Groups of each producer.
const GROUPS: u64 = 2;

/// One enqueue.
struct Order {
    queue: &'static str,
    business: String,
    size: usize,
    body: Value,
    /// With what it is safe to ask again until it is answered; without, it is asked once.
    again: Again,
}

#[derive(PartialEq)]
enum Again {
    Never,
    ByHeader,
    ByBody,
}

pub(super) struct Producer<'a> {
    world: &'a World,
    luck: Luck,
    name: String,
    count: u64,
    is_full: bool,
    /// Sequence numbers by queue.
    mails: u64,
    lines: u64,
    /// Jobs so far of each group.
    numbers: [u64; GROUPS as usize],
}

impl<'a> Producer<'a> {
    pub(super) fn new(world: &'a World, luck: Luck, n: u64) -> Producer<'a> {
        world.begin();
        Producer {
            world,
            luck,
            name: format!("p{n}"),
            count: 0,
            is_full: false,
            mails: 0,
            lines: 0,
            numbers: [0; GROUPS as usize],
        }
    }

    pub(super) fn run(mut self) {
        while self.world.wants_load() {
            if self.is_enough() {
                continue;
            }
            self.count += 1;
            let order = self.order();
            self.place(&order);
        }
        self.world.done();
    }

    /// Whether a queue has enough for now, which is looked at now and then.
    fn is_enough(&mut self) -> bool {
        if !self.is_full && !self.luck.one_in(4) {
            return false;
        }
        let depth = |queue: &&str| {
            let answer = self.world.ask("GET", &format!("/v1/queues/{queue}/stats"), &[], &Value::Null)?;
            answer.value()["depth"].as_u64()
        };
        self.is_full = [MAIL, PAY, LINES].iter().filter_map(depth).any(|depth| depth > DEPTH_MAX);
        self.is_full
    }

    fn order(&mut self) -> Order {
        let business = format!("{}-{}", self.name, self.count);
        let job = |n: u64| json!({ "type": "t", "payload": n, "businessId": business });
        let batch = |count: u64| (0..count).map(job).collect::<Vec<_>>();
        let size = 1 + self.luck.below(6);
        let order = |queue, body, size: u64, again| Order {
            queue,
            business: business.clone(),
            size: usize::try_from(size).unwrap(),
            body,
            again,
        };
        match self.luck.below(7) {
            0 => order(MAIL, job(0), 1, Again::ByHeader),
            1 => order(MAIL, json!(batch(size)), size, Again::Never),
            2 => {
                self.mails += 1;
                let body = json!({ "producer": { "name": self.name, "seq": self.mails }, "jobs": batch(size) });
                order(MAIL, body, size, Again::ByBody)
            }
            3 => {
                let mut job = job(0);
                job["dedup"] = json!({ "key": business, "for": "1h" });
                order(MAIL, job, 1, Again::ByBody)
            }
            4 => {
                let mut jobs = batch(size);
                let key = format!("{}-{}", self.name, self.count / 3);
                jobs.iter_mut().for_each(|job| job["idempotencyKey"] = json!(key));
                order(PAY, json!(jobs), size, Again::Never)
            }
            5 if self.luck.one_in(3) => order(HELD, job(0), 1, Again::ByHeader),
            _ => {
                self.lines += 1;
                let mut jobs = batch(size);
                for job in &mut jobs {
                    let group = self.luck.below(GROUPS);
                    let number = &mut self.numbers[usize::try_from(group).unwrap()];
                    *number += 1;
                    job["payload"] = json!(number);
                    job["group"] = json!(format!("{}-{group}", self.name));
                }
                let body = json!({ "producer": { "name": self.name, "seq": self.lines }, "jobs": jobs });
                order(LINES, body, size, Again::ByBody)
            }
        }
    }

    fn place(&mut self, order: &Order) {
        let path = format!("/v1/queues/{}/jobs", order.queue);
        let header = [("idempotency-key", order.business.as_str())];
        let headers = if order.again == Again::ByHeader { &header[..] } else { &[] };
        let asked = |must_be_there| Asked { queue: order.queue, size: order.size, must_be_there };
        self.world.ledger().asked.insert(order.business.clone(), asked(order.again != Again::Never));
        let answer = if order.again == Again::Never {
            self.world.ask("POST", &path, headers, &order.body)
        } else {
            self.world.ask_until_answered("POST", &path, headers, &order.body)
        };
        let Some(answer) = answer else { return };
        if answer.status != 201 {
            return self.world.broken(format!("{}: {answer:?}", order.business));
        }
        // A duplicate has no list: its jobs are found by their business id.
        let mut ledger = self.world.ledger();
        ledger.enqueued.extend(ids(&answer.value()));
        ledger.asked.insert(order.business.clone(), asked(true));
        drop(ledger);
        // An answer that got lost on its way, for all the server knows.
        if order.again != Again::Never && self.luck.one_in(4) {
            let again = self.world.ask("POST", &path, headers, &order.body);
            if again.as_ref().is_some_and(|again| again.status != 201) {
                self.world.broken(format!("{} again: {again:?}", order.business));
            }
        }
    }
}

/// Pauses, resumes, changes and replays, and looks whether that stays so.
pub(super) fn operate(world: &World, mut luck: Luck) {
    world.begin();
    let (mut paused, mut attempts) = (Some(false), Some(ATTEMPTS));
    while world.wants_load() {
        match luck.below(4) {
            0 => {
                let pause = luck.one_in(2);
                let verb = if pause { "pause" } else { "resume" };
                let path = format!("/v1/queues/{MAIL}/{verb}");
                // Without an answer, nobody knows; the next answer tells.
                paused = world.post(&path, &json!({ "reason": "maintenance" })).map(|_| pause);
            }
            1 => {
                let bound = ATTEMPTS + luck.below(ATTEMPTS_MAX - ATTEMPTS + 1);
                let mut options = options(PAY);
                options["maxAttempts"] = json!(bound);
                let answer = world.ask("PUT", &format!("/v1/queues/{PAY}"), &[], &options);
                attempts = answer.map(|_| bound);
            }
            2 => {
                let replay = json!({ "filter": { "all": true }, "haltAfter": 10 });
                world.post(&format!("/v1/queues/{MAIL}/dead/replay"), &replay);
            }
            _ => look(world, paused, attempts),
        }
    }
    world.ask_until_answered("POST", &format!("/v1/queues/{MAIL}/resume"), &[], &json!({}));
    world.done();
}

fn look(world: &World, paused: Option<bool>, attempts: Option<u64>) {
    let get = |queue: &str| {
        let answer = world.ask("GET", &format!("/v1/queues/{queue}"), &[], &Value::Null)?;
        (answer.status == 200).then(|| answer.value())
    };
    if let (Some(paused), Some(queue)) = (paused, get(MAIL))
        && (queue["paused"] != false) != paused
    {
        world.broken(format!("paused is {paused}, but {queue}"));
    }
    if let (Some(attempts), Some(queue)) = (attempts, get(PAY))
        && queue["config"]["maxAttempts"] != attempts
    {
        world.broken(format!("maxAttempts is {attempts}, but {queue}"));
    }
}
