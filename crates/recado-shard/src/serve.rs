//! Decides requests in the order in which they came.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use recado_core::{Answer, Command, JobId, JobView, NewTask, Query, Rejection, Reply, TaskState, TaskView};
use recado_log::Class;

use crate::clock::Now;
use crate::error::Error;
use crate::inbox::{Promise, Request, SettleRequest};
use crate::parked::Outgoing;
use crate::receive::Settling;
use crate::shard::Shard;
use crate::space;
use crate::writer::Room;

/// Requests decided in one turn, so that timers and tasks have theirs.
const REQUESTS_PER_TURN_MAX: usize = 1_024;

/// How fast memory becomes free is measured so often.
const MEMORY_MEASURED_EVERY: Duration = Duration::from_secs(1);

/// Full queues of which is remembered how fast they drain.
const DRAINS_MAX: usize = 10_000;

impl Shard {
    /// Decides what is waiting, as far as there is room. True when room ran out.
    pub(crate) fn serve(&mut self, now: Now) -> Result<bool, recado_log::Error> {
        for _ in 0..REQUESTS_PER_TURN_MAX {
            let Some(request) = self.backlog.pop_front() else { return Ok(false) };
            if let Some(request) = self.decide(now, request)? {
                self.backlog.push_front(request);
                return Ok(true);
            }
            self.requests += 1;
            if self.writer.is_batch_full() {
                self.writer.submit(now)?;
            }
        }
        Ok(false)
    }

    /// Gives the request back when it must wait for room.
    fn decide(&mut self, now: Now, request: Request) -> Result<Option<Request>, recado_log::Error> {
        match request {
            Request::Command(command, promise) => self.command(now, command, promise),
            Request::Settle(settle) => self.settle(now, settle),
            Request::Receive(receive) => self.receive(now, receive),
            Request::RunTask(task, promise) => self.run_task(now, task, promise),
            Request::WaitTask(_, promise) if self.is_stopping() => {
                drop(promise.send(Err(Error::Stopping)));
                Ok(None)
            }
            Request::WaitTask(task, promise) => {
                self.watchers.add_task(task, promise);
                Ok(None)
            }
            Request::Listen(_, promise) if self.is_stopping() => {
                drop(promise.send(Err(Error::Stopping)));
                Ok(None)
            }
            Request::Listen(job, promise) => {
                self.listen(now, job, promise);
                Ok(None)
            }
            Request::Query(query, promise) => {
                if !promise.is_closed() {
                    let answer = self.writer.answer(now, &query).map_err(Error::Rejected);
                    self.writer.park(Outgoing::Answer(promise, answer));
                }
                Ok(None)
            }
            Request::WaitJob { id, wait, promise } => {
                match self.view(now, id) {
                    Ok(job) if !wait.is_zero() && !has_ended(&job) && !self.is_stopping() => {
                        self.writer.state.set_watched(id, true);
                        self.watchers.add_job(id, now.elapsed + wait, promise);
                    }
                    job => self.writer.park(Outgoing::Job(promise, job.map_err(Error::Rejected))),
                }
                Ok(None)
            }
        }
    }

    fn command(
        &mut self,
        now: Now,
        command: Arc<Command>,
        promise: Promise<Reply>,
    ) -> Result<Option<Request>, recado_log::Error> {
        let (bytes, limit) = (space::bound(&self.writer.state, &command), self.writer.command_bytes_max());
        if bytes > limit {
            drop(promise.send(Err(Error::TooLarge { limit: limit as u64, actual: bytes as u64 })));
            return Ok(None);
        }
        if let Err(error) = self.check_room(&command) {
            drop(promise.send(Err(error)));
            return Ok(None);
        }
        match self.claim_for(now, &command, bytes)? {
            Room::Yes => {
                let deleted = match &*command {
                    Command::DeleteQueue { queue, .. } => self.writer.state.queue_number(queue),
                    _ => None,
                };
                let reply = self.writer.run(now, &command);
                self.going.extend(deleted.filter(|_| reply.is_ok()));
                match &reply {
                    Err(Rejection::QueueFull { queue, .. }) => self.note_drain(queue),
                    Err(Rejection::OutOfMemory { .. }) => self.measure_memory(now),
                    _ => {}
                }
                self.writer.park(Outgoing::Reply(promise, reply.map_err(Error::Rejected)));
                Ok(None)
            }
            Room::Later => Ok(Some(Request::Command(command, promise))),
            Room::Slow => {
                drop(promise.send(Err(Error::SLOW)));
                Ok(None)
            }
            Room::Full => {
                drop(promise.send(Err(Error::FULL)));
                Ok(None)
            }
        }
    }

    /// A guard is begun, like a job handed out, only if it can be ended.
    fn check_room(&self, command: &Command) -> Result<(), Error> {
        if matches!(command, Command::GuardBegin(_)) && self.writer.may_hand_out() == 0 {
            return Err(self.writer.refusal());
        }
        if self.writer.log.is_short_of_space() {
            space::check_short(command)?;
        }
        Ok(())
    }

    fn claim_for(&mut self, now: Now, command: &Command, bytes: usize) -> Result<Room, recado_log::Error> {
        if space::is_reserved_for_guard(command) {
            return self.writer.claim(now, Class::Settle, bytes);
        }
        self.writer.claim_beside(now, space::class(command), bytes)
    }

    /// Forgets the consumers of queues that are gone; a forced deletion takes a while.
    pub(crate) fn forget_queues(&mut self) {
        let Self { going, writer, .. } = self;
        going.retain(|queue| {
            let is_there = writer.state.queue_name(*queue).is_some();
            if !is_there {
                writer.presence.forget(*queue);
            }
            is_there
        });
    }

    /// Remembers how fast a full queue drains, for whoever tells the producer when to come back.
    fn note_drain(&mut self, queue: &str) {
        let interval = self.writer.state.drain_interval_ms(queue);
        let mut drain = self.writer.shared.drain.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if drain.len() >= DRAINS_MAX {
            drain.clear();
        }
        match interval {
            Some(ms) => drop(drain.insert(queue.into(), ms)),
            None => drop(drain.remove(queue)),
        }
    }

    /// Measures how fast memory becomes free, once in a while: it asks all queues.
    fn measure_memory(&mut self, now: Now) {
        if self.memory_measured.is_none_or(|at| now.elapsed.saturating_sub(at) >= MEMORY_MEASURED_EVERY) {
            self.memory_measured = Some(now.elapsed);
            let retry_ms = self.writer.state.memory_retry_after_ms(now.wall).unwrap_or(0);
            self.writer.shared.memory_retry_ms.store(retry_ms, Ordering::Relaxed);
        }
    }

    fn settle(&mut self, now: Now, mut request: SettleRequest) -> Result<Option<Request>, recado_log::Error> {
        match self.settle_all(now, &mut request.entries, &mut request.done)? {
            Settling::Done => self.writer.park(Outgoing::Settled(request.promise, request.done)),
            Settling::Later => return Ok(Some(Request::Settle(request))),
            Settling::Refused(error) => drop(request.promise.send(Err(error))),
        }
        Ok(None)
    }

    fn run_task(
        &mut self,
        now: Now,
        task: NewTask,
        promise: Promise<TaskView>,
    ) -> Result<Option<Request>, recado_log::Error> {
        let command = Command::StartTask(task);
        let (bytes, limit) = (space::bound(&self.writer.state, &command), self.writer.command_bytes_max());
        let refusal = if bytes > limit {
            Error::TooLarge { limit: limit as u64, actual: bytes as u64 }
        } else {
            match self.writer.claim_beside(now, space::class(&command), bytes)? {
                Room::Yes => {
                    match self.writer.run(now, &command) {
                        Ok(Reply::Task(view)) if view.state == TaskState::Running && !self.is_stopping() => {
                            self.watchers.add_task(view.id, promise);
                        }
                        Ok(Reply::Task(view)) => self.writer.park(Outgoing::Task(promise, Ok(view))),
                        Ok(other) => unreachable!("a task answers with its view, not {other:?}"),
                        Err(rejection) => self.writer.park(Outgoing::Task(promise, Err(rejection.into()))),
                    }
                    return Ok(None);
                }
                Room::Later => {
                    let Command::StartTask(task) = command else { unreachable!("it was built above") };
                    return Ok(Some(Request::RunTask(task, promise)));
                }
                Room::Slow => Error::SLOW,
                Room::Full => Error::FULL,
            }
        };
        drop(promise.send(Err(refusal)));
        Ok(None)
    }

    pub(crate) fn view(&self, now: Now, id: JobId) -> Result<JobView, Rejection> {
        match self.writer.answer(now, &Query::Job(id))? {
            Answer::Job(view) => Ok(*view),
            other => unreachable!("asked for a job, not {other:?}"),
        }
    }

    /// Answers those who wait for jobs and tasks that have ended, or whose wait is over.
    pub(crate) fn serve_watchers(&mut self, now: Now) {
        let ended = self.writer.state.take_ended();
        if self.watchers.watches_jobs() {
            for (id, last) in ended {
                for promise in self.watchers.take_job(id) {
                    self.answer_job(now, id, last.as_deref(), promise);
                }
                self.writer.state.set_watched(id, false);
            }
        }
        while let Some((id, promise)) = self.watchers.take_overdue(now.elapsed) {
            self.answer_job(now, id, None, promise);
            let is_watched = self.watchers.watches(id);
            self.writer.state.set_watched(id, is_watched);
        }
        for task in self.watchers.tasks() {
            let view = match self.writer.answer(now, &Query::Task(task)) {
                Ok(Answer::Task(view)) if view.state == TaskState::Running => continue,
                Ok(Answer::Task(view)) => Ok(*view),
                Ok(other) => unreachable!("asked for a task, not {other:?}"),
                Err(rejection) => Err(Error::Rejected(rejection)),
            };
            for promise in self.watchers.take_task(task) {
                self.writer.park(Outgoing::Task(promise, view.clone()));
            }
        }
    }

    /// A job that its queue does not keep is shown as it was in the end.
    fn answer_job(&mut self, now: Now, id: JobId, last: Option<&JobView>, promise: Promise<JobView>) {
        if !promise.is_closed() {
            let job = last.map_or_else(|| self.view(now, id).map_err(Error::Rejected), |last| Ok(last.clone()));
            self.writer.park(Outgoing::Job(promise, job));
        }
    }

    /// Answers all who wait for jobs as they are, and leaves tasks to the next service.
    pub(crate) fn dismiss_watchers(&mut self, now: Now) {
        while let Some((id, promise)) = self.watchers.take_overdue(Duration::MAX) {
            self.answer_job(now, id, None, promise);
        }
        self.watchers.fail_tasks(&Error::Stopping);
    }
}

fn has_ended(job: &JobView) -> bool {
    job.state.is_final() || job.state == recado_core::JobState::Dead
}

impl Request {
    /// Answers without deciding.
    pub(crate) fn fail(self, error: Error) {
        match self {
            Self::Command(_, promise) => drop(promise.send(Err(error))),
            Self::Query(_, promise) => drop(promise.send(Err(error))),
            Self::Settle(settle) => drop(settle.promise.send(Err(error))),
            Self::Receive(receive) => drop(receive.promise.send(Err(error))),
            Self::WaitJob { promise, .. } => drop(promise.send(Err(error))),
            Self::RunTask(_, promise) | Self::WaitTask(_, promise) => drop(promise.send(Err(error))),
            Self::Listen(_, promise) => drop(promise.send(Err(error))),
        }
    }
}
