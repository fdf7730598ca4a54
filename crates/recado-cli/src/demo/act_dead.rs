//! Act c: finite retries, a dead letter that can be read, and its replay after an edit.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use serde_json::{Value, json};

use super::act_flight::{counts, next, unexpected};
use super::worker::{Crew, Event, Orders, Verdict, Work};
use super::{PATIENCE, Play, ensure, number, owner, short, text};
use crate::client::Path;
use crate::failure::{Exit, Failure};
use crate::ui::{list, plain};

pub(super) fn play(play: &Play<'_>) -> Result<(), Failure> {
    let stage = play.stage;
    stage.act(
        'c',
        "finite retries, then a dead letter",
        "a job is tried maxAttempts times, then it is dead with its errors kept, until somebody decides",
    )?;
    let queue = play.queue("flaky");
    play.configure(
        &queue,
        &json!({
            "owner": owner(), "maxAttempts": 3, "visibilityTimeout": "5s",
            "backoff": { "kind": "exponential", "base": "50ms", "factor": 2, "jitter": "none" },
        }),
    )?;
    let ids = play.enqueue(
        &queue,
        &json!([
            { "type": "normal", "payload": { "deliveryId": "mail-1", "templateId": "welcome" } },
            { "type": "flaky", "payload": { "deliveryId": "mail-2", "templateId": "welcome" } },
            { "type": "poison", "payload": { "deliveryId": "mail-3", "templateId": "wlecome" } },
        ]),
    )?;
    let [normal, flaky, poison] = ids.as_slice() else {
        return Err(Failure::new(Exit::CheckFailed, format!("3 jobs should have 3 ids, not {}", ids.len())));
    };
    let (events, news) = channel();
    let orders =
        Orders { url: play.server.url().to_owned(), queue: queue.clone(), max: 1, events, handler: Arc::new(handle) };
    let crew = Crew::start(2, &orders);
    // One settle of normal, two of flaky, three of poison.
    for _ in 0..6 {
        settled(play, &news)?;
    }
    let (normal, flaky) = (play.ended(normal)?, play.ended(flaky)?);
    let dead = play.ended(poison)?;
    let stats = play.stats(&queue)?;
    stage.say(&counts(&stats))?;
    ensure(number(&stats, "completed") == 2 && number(&stats, "dead") == 1, || {
        format!("2 jobs should be completed and 1 dead: {stats}")
    })?;
    ensure(number(&normal, "attempts") == 1 && number(&flaky, "attempts") == 2, || {
        format!("normal should take 1 attempt and flaky 2: {normal} {flaky}")
    })?;
    show_dead(play, &queue, &dead)?;
    replay(play, &queue, poison, &news)?;
    drop(crew);
    let job = play.ended(poison)?;
    let stats = play.stats(&queue)?;
    ensure(text(&job, "state") == "completed" && number(&job, "replays") == 1, || {
        format!("the replayed job should be completed: {job}")
    })?;
    ensure(number(&stats, "completed") == 3 && number(&stats, "dead") == 0, || {
        format!("3 jobs should be completed and none dead: {stats}")
    })?;
    stage.kept(&format!(
        "2 completed, 1 dead after exactly 3 attempts, then replayed after an edit and done; {}",
        counts(&stats)
    ))
}

/// The work of this act: a mail needs a template that exists, and a network that works.
fn handle(work: &Work) -> Verdict {
    if work.job_type == "flaky" && work.attempt == 1 {
        return Verdict::Failed("smtp-down", "the mail server closed the connection".to_owned());
    }
    match text(&work.payload, "templateId") {
        "welcome" => Verdict::Done(json!({ "sent": true })),
        other => Verdict::Failed("template-missing", format!("there is no template {other}")),
    }
}

/// Tells what the workers do until the next settle is answered.
fn settled(play: &Play<'_>, news: &Receiver<Event>) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match next(news, deadline)? {
            Event::Received { .. } => {}
            Event::Settled { worker, work, verdict, answer } if answer.get("ok") == Some(&Value::Bool(true)) => {
                let what = format!("{worker}: {}, attempt {} of 3", work.job_type, work.attempt);
                return match verdict {
                    Verdict::Done(_) => play.stage.good(&format!("{what}: done")),
                    Verdict::Failed(kind, message) => play.stage.bad(&format!("{what}: {kind}, {message}")),
                };
            }
            other => return Err(unexpected(&other)),
        }
    }
}

fn show_dead(play: &Play<'_>, queue: &str, dead: &Value) -> Result<(), Failure> {
    let path = Path::v1(&["queues", queue, "jobs"]).query("state", Some("dead")).query("payload", Some("true"));
    let answer = play.client.get(&path)?.value()?;
    let letters = list(&answer, "jobs");
    ensure(letters.len() == 1 && letters[0].get("id") == dead.get("id"), || {
        format!("the dead-letter queue should hold the poison job: {answer}")
    })?;
    let letter = &letters[0];
    let errors = list(letter, "errors");
    let last = errors.last().unwrap_or(&Value::Null);
    ensure(number(letter, "attempts") == 3 && errors.len() == 3, || {
        format!("the dead job should have 3 attempts and 3 errors: {letter}")
    })?;
    play.stage.bad(&format!("the dead-letter queue of {queue} ({}):", plain(&owner())))?;
    for (word, value) in [
        ("id", text(letter, "id").to_owned()),
        ("attempts", number(letter, "attempts").to_string()),
        ("last error", format!("{}: {}", text(last, "kind"), text(last, "message"))),
        ("payload", letter.get("payload").map(plain).unwrap_or_default()),
    ] {
        play.stage.say(&format!("    {word:<10}  {value}"))?;
    }
    Ok(())
}

fn replay(play: &Play<'_>, queue: &str, id: &str, news: &Receiver<Event>) -> Result<(), Failure> {
    let path = Path::v1(&["queues", queue, "dead", "replay"]);
    let patch = json!({ "templateId": "welcome" });
    let body = json!({ "ids": [id], "payloadPatch": patch, "reason": "typo in the template's name" });
    let answer = play.client.post(&path, &body)?;
    ensure(answer.status == 202, || format!("a replay should be accepted: {}", answer.text))?;
    play.stage.say(&format!("{} replayed with payloadPatch {patch}", short(id)))?;
    settled(play, news)
}
