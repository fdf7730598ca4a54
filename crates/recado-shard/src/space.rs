//! How many bytes of the log a command may need, and who may claim them.
//!
//! The bounds are generous: a batch must never turn out larger than the room that was asked for,
//! because what is decided cannot be undone.

use recado_core::{Action, Command, CopyPlan, Enqueue, NewJob, Outcome, QueueOptions, Receive, Rejection, Settle};
use recado_log::Class;

/// What any single event may take, without its strings and bytes.
pub(crate) const EVENT_BYTES_MAX: usize = 512;
/// A settle while storage is short, in bytes; as much is kept free for each job in flight.
pub(crate) const SETTLE_BYTES_MAX: u64 = 8 * 1024;
/// Text of an error or reason while storage is short, in bytes.
const SHORT_TEXT_BYTES_MAX: usize = 4 * 1024;
/// Result or progress while storage is short, in bytes: the rest of a settle is its events.
pub(crate) const SHORT_RESULT_BYTES_MAX: usize = 6 * 1024;
/// Beyond its jobs a receive may end so many expired ones, each in a short event.
const RECEIVE_EXTRA_BYTES: usize = recado_core::TICK_STEPS_MAX * 64;
/// A job handed out, without strings.
const RECEIVED_BYTES_MAX: usize = 256;
/// The shard's own records: start, clock, figures.
pub(crate) const OWN_BYTES_MAX: usize = 64 * 1024;

/// Who claims the space of a command. Settles, and what an operator needs to free space, go on when
/// producers are refused.
pub(crate) fn class(command: &Command) -> Class {
    match command {
        Command::Enqueue(_) | Command::Patch(_) | Command::Configure(_) | Command::SetDefaults(_) => Class::Produce,
        Command::StepTask { jobs, .. } if jobs.iter().any(|(_, payload)| payload.is_some()) => Class::Produce,
        Command::StartTask(task) if matches!(task.action, Action::Replay(_)) => Class::Produce,
        Command::Start { .. } | Command::StepClock { .. } | Command::Copy(_) => Class::Copy,
        _ => Class::Settle,
    }
}

/// For what has no bound of its own: the list of jobs of a bulk action.
const OPEN_BYTES_MAX: usize = 128 * 1024;

/// Upper bound of a step of a bulk action with so many jobs, without their payloads.
pub(crate) fn step_bytes(jobs: usize) -> usize {
    (jobs + 2) * EVENT_BYTES_MAX
}

/// Upper bound of the bytes it adds to a batch.
pub(crate) fn bound(command: &Command) -> usize {
    let bytes = match command {
        Command::Enqueue(enqueue) => enqueue_bytes(enqueue),
        Command::Receive(receive) => receive_bytes(receive),
        Command::Settle(settle) => settle_bytes(settle),
        Command::Patch(patch) => patch.payload.as_ref().map_or(0, Vec::len),
        Command::Configure(configure) => options_bytes(&configure.options),
        Command::SetDefaults(options) => options_bytes(options),
        Command::StepTask { jobs, .. } => {
            jobs.iter().map(|(_, payload)| EVENT_BYTES_MAX + payload.as_ref().map_or(0, Vec::len)).sum()
        }
        Command::StartTask(task) => start_task_bytes(task),
        Command::Cancel(cancel) => match &cancel.target {
            recado_core::CancelTarget::Ids(ids) => (ids.len() + 1) * EVENT_BYTES_MAX,
            recado_core::CancelTarget::BusinessId(_) => (recado_core::CANCELLED_MAX + 1) * EVENT_BYTES_MAX,
        },
        Command::Copy(plans) => OPEN_BYTES_MAX + plans.iter().map(copy_bytes).sum::<usize>(),
        Command::Tick => recado_core::TICK_STEPS_MAX * EVENT_BYTES_MAX,
        Command::Acknowledge { note, .. } => note.len(),
        Command::SetPaused { reason, .. } => reason.as_deref().map_or(0, str::len),
        Command::Start { .. } | Command::SaveFigures { .. } | Command::DeleteQueue { .. } => OWN_BYTES_MAX,
        Command::GiveBack { .. } | Command::StepClock { .. } | Command::CancelTask { .. } => 0,
    };
    bytes + 2 * EVENT_BYTES_MAX
}

fn enqueue_bytes(enqueue: &Enqueue) -> usize {
    let jobs: usize = enqueue.jobs.iter().map(job_bytes).sum();
    let producer = enqueue.producer.as_ref().map_or(0, |producer| producer.name.len());
    let request = enqueue.request.as_ref().map_or(0, |request| request.key.len());
    // A saved answer names each job once more.
    jobs + producer + request + enqueue.jobs.len() * 128 + EVENT_BYTES_MAX
}

fn job_bytes(job: &NewJob) -> usize {
    let text = |text: &Option<Box<str>>| text.as_deref().map_or(0, str::len);
    let headers = job.headers.as_ref().map_or(0, Vec::len);
    let dedup = job.dedup.as_ref().map_or(0, |dedup| dedup.key.len());
    let keys = text(&job.business_id) + text(&job.group) + text(&job.idempotency_key) + dedup;
    EVENT_BYTES_MAX + job.kind.len() + job.payload.len() + headers + keys
}

fn receive_bytes(receive: &Receive) -> usize {
    let strings = receive.worker.as_deref().map_or(0, str::len) + receive.attempt_id.as_deref().map_or(0, str::len);
    let created = receive.queues.len() * EVENT_BYTES_MAX;
    RECEIVE_EXTRA_BYTES + created + receive.max.saturating_mul(RECEIVED_BYTES_MAX + strings)
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

fn options_bytes(options: &QueueOptions) -> usize {
    let owner = options.owner.as_deref().map_or(0, str::len);
    let dead_owner = options.dead_letter.as_ref().and_then(|dead| dead.owner.as_deref()).map_or(0, str::len);
    // A backoff of the list kind is the only other thing without a fixed size.
    OWN_BYTES_MAX + owner + dead_owner
}

fn start_task_bytes(task: &recado_core::NewTask) -> usize {
    let ids = |select: &recado_core::Select| match select {
        recado_core::Select::Ids(ids) => ids.len() * 16,
        recado_core::Select::Filter(_) => EVENT_BYTES_MAX,
    };
    let action = match &task.action {
        Action::Purge { .. } => 0,
        Action::Discard { select } => ids(select),
        Action::Replay(replay) => ids(&replay.select) + replay.patch.as_ref().map_or(0, Vec::len),
    };
    action + task.reason.as_deref().map_or(0, str::len) + EVENT_BYTES_MAX
}

/// Upper bound of writing one item again.
pub(crate) fn copy_bytes(plan: &CopyPlan) -> usize {
    let payload: u64 = plan.places.iter().map(|place| u64::from(place.length)).sum();
    2 * EVENT_BYTES_MAX + usize::try_from(payload).unwrap_or(usize::MAX / 4)
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

fn cut(text: &mut Box<str>, bytes_max: usize) {
    if text.len() > bytes_max {
        *text = text[..text.floor_char_boundary(bytes_max)].into();
    }
}
