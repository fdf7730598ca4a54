//! Schedules at the edge: who knows clock and calendar tells the shard which instant of which schedule is due, and
//! with which job. What becomes of it the shard decides, and decides once: it may be told twice, late, or by a server
//! that died over it.

mod definition;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use recado_contract::gate::Warned;
use recado_core::{
    Actor, Answer, Command, FireSchedule, NewJob, Occurrence, Page, PutSchedule, Query, Rejection, Reply, RunSchedule,
    SCHEDULES_MAX, ScheduleView, Skip, Source,
};
use recado_shard::{Error, Handle};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::faults::Faults;
use crate::http::{App, check_with, unexpected};
use crate::problem::{Code, Problem};
use crate::time;

pub(crate) use definition::{Definition, ScheduleBody, in_job};

/// The clock is looked at so often: it may have been set.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Changes of a schedule that overtake whoever acts on it, before that gives up.
const TRIES_MAX: usize = 10;

/// Tells whoever fires schedules that one has changed, so that it does not wait until it looks again.
#[derive(Default)]
pub(crate) struct Changed(Notify);

impl Changed {
    pub(crate) fn tell(&self) {
        self.0.notify_one();
    }
}

/// A schedule as it was last heard of.
struct Known {
    view: ScheduleView,
    /// `None`: it is not understood, and cannot be fired.
    definition: Option<Arc<Definition>>,
}

/// Fires schedules until the server stops.
pub(crate) async fn run(app: App) {
    let mut known = BTreeMap::new();
    let mut version = None;
    loop {
        let wait = match turn(&app, &mut known, &mut version).await {
            Ok(next) => {
                next.map_or(LOOK_EVERY, |at| LOOK_EVERY.min(Duration::from_millis(at.saturating_sub(time::now()))))
            }
            Err(Error::Stopping | Error::LogFailed { .. }) => return,
            Err(error) => {
                tracing::warn!(%error, "schedules wait");
                version = None;
                LOOK_EVERY
            }
        };
        tokio::select! {
            () = app.stopping() => return,
            () = app.schedules.0.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Decides every instant that is due, one of each schedule; answers with the next one of all.
async fn turn(
    app: &App,
    known: &mut BTreeMap<Box<str>, Known>,
    version: &mut Option<u64>,
) -> Result<Option<u64>, Error> {
    let current = app.shard.config_version();
    if *version != Some(current) {
        learn(app, known).await?;
        *version = Some(current);
    }
    let now = time::now();
    let mut firing = JoinSet::new();
    for it in known.values().filter(|it| it.view.next.is_some_and(|at| at <= now)) {
        if it.definition.is_some() {
            firing.spawn(fire(app.clone(), it.view.clone(), it.definition.clone()));
        }
    }
    let mut failed = None;
    while let Some(fired) = firing.join_next().await {
        match fired {
            Ok(Ok((name, Some(occurrence), next))) => {
                if let Some(it) = known.get_mut(&name) {
                    (it.view.last, it.view.next) = (Some(occurrence), next);
                }
            }
            // It has changed meanwhile.
            Ok(Ok((_, None, _))) => *version = None,
            Ok(Err(error)) => failed = Some(error),
            Err(broken) => tracing::error!(%broken, "an occurrence broke off"),
        }
    }
    match failed {
        Some(error) => Err(error),
        None => Ok(known.values().filter(|it| it.definition.is_some()).filter_map(|it| it.view.next).min()),
    }
}

/// Asks for all schedules.
async fn learn(app: &App, known: &mut BTreeMap<Box<str>, Known>) -> Result<(), Error> {
    let before = std::mem::take(known);
    for view in all(&app.shard).await? {
        let same = before.get(&view.name).filter(|it| it.view.version == view.version);
        let definition = match same {
            Some(it) => it.definition.clone(),
            None => match Definition::kept(&view.text, time::now()) {
                Ok(definition) => Some(Arc::new(definition)),
                Err(problem) => {
                    let reason = problem.detail();
                    tracing::error!(schedule = &*view.name, reason, "a schedule is not understood: put it again");
                    None
                }
            },
        };
        known.insert(view.name.clone(), Known { view, definition });
    }
    Ok(())
}

/// Every schedule by name.
pub(crate) async fn all(shard: &Handle) -> Result<Vec<ScheduleView>, Error> {
    let page = Page { cursor: None, limit: SCHEDULES_MAX };
    match shard.query(Query::Schedules(page)).await? {
        Answer::Schedules { schedules, .. } => Ok(schedules),
        other => unreachable!("asked for schedules, not {other:?}"),
    }
}

type Fired = (Box<str>, Option<Occurrence>, Option<u64>);

/// Has the instant decided that is next, which has come. Without a definition it makes no job, and none follows.
async fn fire(app: App, view: ScheduleView, definition: Option<Arc<Definition>>) -> Result<Fired, Error> {
    let Some(at) = view.next else { return Ok((view.name, None, None)) };
    let (command, warned) = match &definition {
        Some(definition) => resolve(&app, &view, definition, at).await?,
        None => (alone(&app, &view, at), Warned::default()),
    };
    let (occurrence, next) = match app.shard.call(Command::FireSchedule(Box::new(command))).await? {
        Reply::Occurred { occurrence, next } => (occurrence, next),
        other => unreachable!("a firing answers what became of it, not {other:?}"),
    };
    if let Some(occurrence) = &occurrence {
        let last = view.last.and_then(|last| last.skip);
        tell(&app, &view.name, definition.as_deref(), occurrence, last, warned);
    }
    Ok((view.name, occurrence, next))
}

/// An instant that no other follows, and that makes no job.
fn alone(app: &App, view: &ScheduleView, at: u64) -> FireSchedule {
    FireSchedule {
        schedule: view.name.clone(),
        version: view.version,
        at,
        following: None,
        latest: at,
        in_window: None,
        job: Err(Skip::Invalid),
        create: app.create_queues,
    }
}

/// An instant with those that follow it, and its job.
async fn resolve(
    app: &App,
    view: &ScheduleView,
    definition: &Definition,
    at: u64,
) -> Result<(FireSchedule, Warned), Error> {
    let (now, timing, since) = (time::now(), &definition.timing, view.since);
    let following = timing.next(since, at);
    let has_later = following.is_some_and(|following| following <= now);
    let window_at = now.saturating_sub(view.catch_up_window_ms);
    let (latest, in_window) = if has_later {
        (timing.latest(since, at, now), timing.next(since, at.max(window_at.saturating_sub(1))))
    } else {
        (at, None)
    };
    let (job, warned) = admit(app, &view.name, definition, at).await?;
    let job = job.map_err(|problem| skip(&problem));
    Ok((FireSchedule { following, latest, in_window, job, ..alone(app, view, at) }, warned))
}

/// Counts and logs what became of an instant; what is refused again and again for one reason is a warning once.
fn tell(
    app: &App,
    name: &str,
    definition: Option<&Definition>,
    occurrence: &Occurrence,
    last: Option<Skip>,
    warned: Warned,
) {
    let at = time::text(occurrence.at);
    let is_usual = |skip| matches!(skip, Skip::Paused | Skip::Overlap | Skip::Deduplicated) || Some(skip) == last;
    match (occurrence.skip, definition) {
        (None, Some(definition)) => app.warned.add_taken(&definition.options.queue, warned),
        (None, None) => {}
        (Some(reason), _) if is_usual(reason) => {
            tracing::debug!(schedule = name, at, reason = reason.word(), "an occurrence was skipped");
        }
        (Some(reason), _) => tracing::warn!(schedule = name, at, reason = reason.word(), "an occurrence was skipped"),
    }
}

/// The job of an occurrence by what its queue asks now, or why the queue does not take it.
async fn admit(
    app: &App,
    name: &str,
    definition: &Definition,
    at: u64,
) -> Result<(Result<NewJob, Problem>, Warned), Error> {
    let mut job = definition.job(name, at);
    let policies = app.gate.policies(&definition.options.queue, std::slice::from_ref(&job)).await?;
    // One that the definition names would be that of all its occurrences.
    if policies.own().settings().require_key && job.idempotency_key.is_none() {
        job.idempotency_key = Some(format!("schedule:{name}:{}", time::text(at)).into());
    }
    let (mut faults, mut warned) = (Faults::default(), Warned::default());
    policies.visit(policies.own(), &job, &mut faults, &mut |policy, job, faults| {
        check_with(policy.settings(), job, faults);
    });
    policies.check(&job, &mut faults, &mut warned);
    Ok((faults.finish().map(|()| job), warned))
}

/// A refusal at the edge as the reason of an occurrence.
fn skip(problem: &Problem) -> Skip {
    Skip::ALL.into_iter().find(|skip| skip.word() == problem.code()).unwrap_or(Skip::Invalid)
}

/// Whether the queue would take the job of a definition now.
pub(crate) async fn check(app: &App, name: &str, definition: &Definition) -> Result<(), Problem> {
    let (job, _) = admit(app, name, definition, time::now()).await?;
    job.map(drop).map_err(in_job)
}

/// Puts a schedule; true when it is new. What is due of another definition is decided by that one before.
pub(crate) async fn put(
    app: &App,
    name: &str,
    definition: &Definition,
    create: bool,
    source: Source,
    actor: Actor,
) -> Result<bool, Error> {
    let mut tries = 0;
    loop {
        let decided_to = match look(&app.shard, name).await {
            Ok(view) => view.decided_to,
            Err(Error::Rejected(Rejection::ScheduleNotFound { .. })) => 0,
            Err(error) => return Err(error),
        };
        let since = time::now();
        let next = definition.timing.next(since, since.max(decided_to));
        let options = definition.options.clone();
        let put = PutSchedule { schedule: name.into(), options, since, next, create, source, actor: actor.clone() };
        match app.shard.call(Command::PutSchedule(put)).await {
            Ok(Reply::SchedulePut { created }) => return Ok(created),
            // It is due, or was meanwhile.
            Err(Error::Rejected(Rejection::PreconditionFailed)) if tries < TRIES_MAX => {
                tries += 1;
                decide_due(app, name).await?;
            }
            Err(error) => return Err(error),
            Ok(other) => unreachable!("a put answers whether it is new, not {other:?}"),
        }
    }
}

/// Has everything decided that is due of a schedule; each step brings its next instant nearer to now.
async fn decide_due(app: &App, name: &str) -> Result<(), Error> {
    loop {
        let view = match look(&app.shard, name).await {
            Err(Error::Rejected(Rejection::ScheduleNotFound { .. })) => return Ok(()),
            looked => looked?,
        };
        if view.next.is_none_or(|at| at > time::now()) {
            return Ok(());
        }
        // By itself it waits for somebody to put one that is understood, which is what happens now.
        let definition = Definition::kept(&view.text, time::now()).ok().map(Arc::new);
        fire(app.clone(), view, definition).await?;
    }
}

/// One schedule.
pub(crate) async fn look(shard: &Handle, name: &str) -> Result<ScheduleView, Error> {
    match shard.query(Query::Schedule(name.into())).await? {
        Answer::Schedule(view) => Ok(*view),
        other => unreachable!("asked for a schedule, not {other:?}"),
    }
}

/// Makes the job of a schedule now.
pub(crate) async fn run_now(app: &App, name: &str, actor: Actor) -> Result<Occurrence, Problem> {
    for _ in 0..TRIES_MAX {
        let view = look(&app.shard, name).await?;
        let definition = Definition::kept(&view.text, time::now())?;
        let (job, warned) = admit(app, name, &definition, time::now()).await?;
        let job = job.map_err(in_job)?;
        let (create, version) = (app.create_queues, view.version);
        let run = RunSchedule { schedule: name.into(), version, job, create, actor: actor.clone() };
        match app
            .shard
            .call(Command::RunSchedule(Box::new(run)))
            .await
            .map_err(|error| in_job(Problem::from(error).single()))?
        {
            Reply::Occurred { occurrence: Some(occurrence), .. } => {
                tell(app, name, Some(&definition), &occurrence, None, warned);
                return Ok(occurrence);
            }
            Reply::Occurred { occurrence: None, .. } => {}
            other => return Err(unexpected(&other)),
        }
    }
    Err(Problem::new(Code::Overloaded, "the schedule is being changed all the time; try again in a moment"))
}

/// The next instants of a schedule.
pub(crate) fn foretell(view: &ScheduleView, count: usize) -> Result<Vec<u64>, Problem> {
    let definition = Definition::kept(&view.text, time::now())?;
    let due = std::iter::successors(view.next, |last| definition.timing.next(view.since, *last));
    Ok(due.take(count).collect())
}
