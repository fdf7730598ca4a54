//! How many bytes of the log a command may need, and who may claim them.
//!
//! The bounds are generous: a batch must never turn out larger than the room that was asked for,
//! because what is decided cannot be undone. The writer asserts it in every test.

use recado_core::{
    Action, Actor, Backoff, CancelTarget, Command, Enqueue, GuardAction, GuardUse, NewJob, Outcome, Receive, Rejection,
    Select, Settle, State,
};
use recado_log::Class;

/// What any single event may take, without its strings, lists and bytes.
pub(crate) const EVENT_BYTES_MAX: usize = 512;
/// The end of a delivery or guard while storage is short, in bytes; as much is kept free for each that is open.
const SETTLE_BYTES_MAX: u64 = 8 * 1024;
/// Text of an error or reason while storage is short, in bytes.
const SHORT_TEXT_BYTES_MAX: usize = 4 * 1024;
/// Result or progress while storage is short, in bytes: the rest of a settle is its events.
pub(crate) const SHORT_RESULT_BYTES_MAX: usize = 6 * 1024;
/// Beyond its jobs a receive may end so many expired ones, each in a short event with its error.
const RECEIVE_EXTRA_BYTES: usize = recado_core::EXPIRED_MAX * 256;
/// A job handed out, without strings.
const RECEIVED_BYTES_MAX: usize = 256;
/// The shard's own records: start, clock, figures.
pub(crate) const OWN_BYTES_MAX: usize = 64 * 1024;

/// Who claims the space of a command. Settles, and what an operator needs to free space, go on when
/// producers are refused.
pub(crate) fn class(command: &Command) -> Class {
    match command {
        Command::Enqueue(_) | Command::Patch(_) => Class::Produce,
        Command::PutSchedule(_) | Command::FireSchedule(_) | Command::RunSchedule(_) => Class::Produce,
        Command::StepTask { jobs, .. } if jobs.iter().any(|(_, payload)| payload.is_some()) => Class::Produce,
        Command::StartTask(task) if matches!(task.action, Action::Replay(_)) => Class::Produce,
        Command::Start { .. } | Command::StepClock { .. } | Command::Copy(_) => Class::Copy,
        _ => Class::Settle,
    }
}

/// Upper bound of a step of a bulk action with so many jobs, without their payloads.
pub(crate) fn step_bytes(state: &State, task: u64, jobs: usize) -> usize {
    (jobs + 2) * EVENT_BYTES_MAX + state.task_end_bytes_max(task)
}

/// Upper bound of the bytes it adds to a batch.
pub(crate) fn bound(state: &State, command: &Command) -> usize {
    let bytes = match command {
        Command::Enqueue(enqueue) => enqueue_bytes(enqueue),
        Command::Receive(receive) => receive_bytes(receive),
        Command::Settle(settle) => settle_bytes(settle),
        Command::GuardBegin(_) => 0,
        Command::GuardUse(GuardUse { action, .. }) => result_of(action).map_or(0, Vec::len),
        Command::Patch(patch) => patch.payload.as_ref().map_or(0, Vec::len),
        Command::Configure(configure) => {
            // What is not configured, as the reason of a pause, stays in the record.
            let stays = state.queue_number(&configure.queue).map_or(0, |queue| state.queue_bytes_max(queue));
            stays + configure.options.bytes_max() + 2 * configure.queue.len() + actor_bytes(&configure.actor)
        }
        // The type stands in the record and again in the audit trail.
        Command::PutSchema(put) => put.text.len() + 2 * put.kind.len() + actor_bytes(&put.actor),
        Command::RemoveSchema { kind, actor, .. } => kind.len() + actor_bytes(actor),
        // The name stands in the record and again in the audit trail.
        Command::PutLimit(put) => 2 * put.limit.len() + actor_bytes(&put.actor),
        Command::RemoveLimit { limit, actor, .. } => limit.len() + actor_bytes(actor),
        Command::PutSchedule(put) => {
            // What it did so far stays in the record; the name stands there and again in the audit trail.
            let texts = put.options.text.len() + 2 * (put.options.queue.len() + put.schedule.len());
            state.schedule_bytes_max(&put.schedule) + texts + actor_bytes(&put.actor)
        }
        Command::PauseSchedule { schedule, reason, actor, .. } => {
            let record = 2 * state.schedule_bytes_max(schedule);
            record + schedule.len() + 2 * text_bytes(reason) + actor_bytes(actor)
        }
        Command::RemoveSchedule { schedule, actor, .. } => {
            state.schedule_bytes_max(schedule) + schedule.len() + actor_bytes(actor)
        }
        Command::FireSchedule(fire) => occurrence_bytes(state, &fire.schedule, fire.job.as_ref().ok()),
        Command::RunSchedule(run) => {
            occurrence_bytes(state, &run.schedule, Some(&run.job)) + EVENT_BYTES_MAX + actor_bytes(&run.actor)
        }
        Command::PutHook(put) => put.text.len() + 2 * put.hook.len() + actor_bytes(&put.actor),
        Command::RemoveHook { hook, actor, .. } => hook.len() + actor_bytes(actor),
        Command::SetDefaults(options) => options.bytes_max(),
        Command::StepTask { task, jobs, .. } => {
            let payloads: usize = jobs.iter().map(|(_, payload)| payload.as_ref().map_or(0, Vec::len)).sum();
            step_bytes(state, *task, jobs.len()) + payloads
        }
        Command::StartTask(task) => start_task_bytes(task),
        Command::Cancel(cancel) => {
            let jobs = match &cancel.target {
                CancelTarget::Ids(ids) => ids.len(),
                CancelTarget::BusinessId(_) => recado_core::CANCELLED_MAX,
            };
            // The reason stands in the error of each job and in the audit trail.
            let reason = text_bytes(&cancel.reason);
            jobs * (EVENT_BYTES_MAX + reason) + reason + actor_bytes(&cancel.actor)
        }
        Command::Copy(plans) => plans.iter().map(|plan| state.copy_bytes(plan)).sum(),
        Command::Forget { .. } => recado_core::TICK_STEP_BYTES_MAX,
        Command::Tick => recado_core::TICK_STEPS_MAX * recado_core::TICK_STEP_BYTES_MAX,
        // The note and the reason stand in a record and again in the audit trail.
        Command::Acknowledge { queue, note, actor, .. } => 2 * note.len() + queue.len() + actor_bytes(actor),
        Command::SetPaused { queue, reason, actor, .. } => {
            let record = state.queue_number(queue).map_or(0, |queue| state.queue_bytes_max(queue));
            record + 2 * text_bytes(reason) + queue.len() + actor_bytes(actor)
        }
        Command::DeleteQueue { queue, actor, .. } => queue.len() + 2 * actor_bytes(actor),
        Command::CancelTask { task, actor } => state.task_end_bytes_max(*task) + actor_bytes(actor),
        Command::Start { .. } | Command::SaveFigures { .. } => OWN_BYTES_MAX,
        Command::GiveBack { .. } | Command::StepClock { .. } => 0,
    };
    bytes + 2 * EVENT_BYTES_MAX
}

fn text_bytes(text: &Option<Box<str>>) -> usize {
    text.as_deref().map_or(0, str::len)
}

fn actor_bytes(actor: &Actor) -> usize {
    text_bytes(&actor.0)
}

fn enqueue_bytes(enqueue: &Enqueue) -> usize {
    let jobs: usize = enqueue.jobs.iter().map(job_bytes).sum();
    let producer = enqueue.producer.as_ref().map_or(0, |producer| producer.name.len());
    let request = enqueue.request.as_ref().map_or(0, |request| request.key.len());
    // A saved answer names each job once more.
    let named: usize = enqueue.jobs.iter().map(NewJob::family_size).sum();
    jobs + producer + request + enqueue.queue.len() + (named + enqueue.jobs.len()) * 128 + EVENT_BYTES_MAX
}

fn job_bytes(job: &NewJob) -> usize {
    let headers = job.headers.as_ref().map_or(0, Vec::len);
    let dedup = job.dedup.as_ref().map_or(0, |dedup| dedup.key.len());
    let keys = text_bytes(&job.business_id) + text_bytes(&job.group) + text_bytes(&job.idempotency_key) + dedup;
    let backoff = job.overrides.backoff.as_ref().map_or(0, Backoff::bytes_max);
    // Each of the others may make a queue.
    let relatives = job.relatives().map(|it| EVENT_BYTES_MAX + 2 * text_bytes(&it.queue) + job_bytes(&it.job));
    EVENT_BYTES_MAX + job.kind.len() + job.payload.len() + headers + keys + backoff + relatives.sum::<usize>()
}

/// Upper bound of an occurrence of a schedule with its job. The names of schedule and queue are in its record.
fn occurrence_bytes(state: &State, schedule: &str, job: Option<&NewJob>) -> usize {
    EVENT_BYTES_MAX + state.schedule_bytes_max(schedule) + job.map_or(0, job_bytes)
}

fn receive_bytes(receive: &Receive) -> usize {
    let created: usize = receive.queues.iter().map(|(name, _)| EVENT_BYTES_MAX + name.len()).sum();
    RECEIVE_EXTRA_BYTES + created + receive.max.saturating_mul(RECEIVED_BYTES_MAX + text_bytes(&receive.worker))
}

/// Bytes kept for so many deliveries and guards to end.
pub(crate) fn to_end(open: u64) -> u64 {
    open.saturating_mul(SETTLE_BYTES_MAX)
}

/// Jobs that may be handed out so that each, and all that is open already, can still end in `room`.
pub(crate) fn hand_out(room: u64, open: u64) -> usize {
    let free = room.saturating_sub(to_end(open)).saturating_sub(RECEIVE_EXTRA_BYTES as u64);
    usize::try_from(free / (SETTLE_BYTES_MAX + 2 * RECEIVED_BYTES_MAX as u64)).unwrap_or(usize::MAX)
}

/// Jobs that one receive may hand out so that it fits in a batch of `bytes`.
pub(crate) fn receives_in(bytes: usize) -> usize {
    (bytes.saturating_sub(RECEIVE_EXTRA_BYTES) / (2 * RECEIVED_BYTES_MAX)).max(1)
}

/// Upper bound of one settle.
pub(crate) fn settle_bytes(settle: &Settle) -> usize {
    let own = match &settle.outcome {
        Outcome::Ack { result } => result.as_ref().map_or(0, Vec::len),
        Outcome::Fail(failure) => failure.kind.len() * 2 + failure.message.len(),
        Outcome::Release { reason, .. } => reason.as_deref().map_or(0, str::len),
        Outcome::Extend { progress, .. } => progress.as_ref().map_or(0, Vec::len),
    };
    own + 2 * EVENT_BYTES_MAX
}

/// It ends a delivery within what is kept for that.
pub(crate) fn is_reserved_for(settle: &Settle) -> bool {
    !matches!(settle.outcome, Outcome::Extend { .. }) && settle_bytes(settle) as u64 <= SETTLE_BYTES_MAX
}

/// It ends a guard; while storage is short [`check_short`] keeps it within its reserve.
pub(crate) fn is_reserved_for_guard(command: &Command) -> bool {
    let Command::GuardUse(GuardUse { action, .. }) = command else { return false };
    let bytes = result_of(action).map_or(0, Vec::len) + 2 * EVENT_BYTES_MAX;
    !matches!(action, GuardAction::Extend { .. }) && bytes as u64 <= SETTLE_BYTES_MAX
}

fn start_task_bytes(task: &recado_core::NewTask) -> usize {
    let selected = |select: &Select| match select {
        Select::Ids(ids) => ids.len() * 16,
        Select::Filter(filter) => text_bytes(&filter.kind) + text_bytes(&filter.error_kind),
    };
    let action = match &task.action {
        Action::Purge { .. } => 0,
        Action::Move { destination, .. } => text_bytes(destination),
        Action::Discard { select } => selected(select),
        Action::Replay(replay) => selected(&replay.select) + replay.patch.as_ref().map_or(0, Vec::len),
    };
    action + text_bytes(&task.reason) + actor_bytes(&task.actor) + EVENT_BYTES_MAX
}

/// Makes a settle fit in [`SETTLE_BYTES_MAX`] while storage is short: texts are cut, a longer result is
/// refused and the receipt stays good.
pub(crate) fn shorten(settle: &mut Settle) -> Result<(), Rejection> {
    match &mut settle.outcome {
        Outcome::Ack { result: Some(bytes) } | Outcome::Extend { progress: Some(bytes), .. }
            if bytes.len() > SHORT_RESULT_BYTES_MAX =>
        {
            let (limit, actual) = (SHORT_RESULT_BYTES_MAX as u64, bytes.len() as u64);
            return Err(Rejection::ResultTooLargeNow { limit, actual });
        }
        Outcome::Fail(failure) => {
            cut(&mut failure.message, SHORT_TEXT_BYTES_MAX);
            cut(&mut failure.kind, EVENT_BYTES_MAX);
        }
        Outcome::Release { reason: Some(reason), .. } => cut(reason, SHORT_TEXT_BYTES_MAX),
        Outcome::Ack { .. } | Outcome::Release { .. } | Outcome::Extend { .. } => {}
    }
    assert!(settle_bytes(settle) as u64 <= SETTLE_BYTES_MAX, "a shortened settle fits its reserve");
    Ok(())
}

/// Refuses what a guard ended with if it takes more than is kept free for it while storage is short.
pub(crate) fn check_short(command: &Command) -> Result<(), Rejection> {
    let Command::GuardUse(GuardUse { action, .. }) = command else { return Ok(()) };
    let (limit, actual) = (SHORT_RESULT_BYTES_MAX as u64, result_of(action).map_or(0, Vec::len) as u64);
    if actual > limit { Err(Rejection::ResultTooLargeNow { limit, actual }) } else { Ok(()) }
}

fn result_of(action: &GuardAction) -> Option<&Vec<u8>> {
    match action {
        GuardAction::Complete { result } => result.as_ref(),
        GuardAction::Abort | GuardAction::Extend { .. } => None,
    }
}

fn cut(text: &mut Box<str>, bytes_max: usize) {
    if text.len() > bytes_max {
        *text = text[..text.floor_char_boundary(bytes_max)].into();
    }
}
