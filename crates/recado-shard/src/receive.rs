//! Receives: settle first, then hand out, or wait in line until there is something.

use std::mem;

use recado_core::{Answer, Command, JobId, Query, Rejection, Reply, Settle};
use recado_log::Class;

use crate::clock::Now;
use crate::error::Error;
use crate::inbox::{Outcomes, Request};
use crate::parked::{Decided, Outgoing};
use crate::shard::Shard;
use crate::space;
use crate::waiters::{ReceiveRequest, WAITERS_MAX, Waiter};
use crate::writer::Room;

/// What came of trying to hand out.
enum Attempt {
    /// Jobs, or nothing.
    Decided(Decided),
    Refused(Rejection),
    /// The batch or the log has no room yet.
    Later,
    /// What is in flight may need all the room that there is.
    NoSpace,
}

/// What came of a list of settles.
pub(crate) enum Settling {
    Done,
    Later,
    /// None was settled.
    Refused(Error),
}

impl Shard {
    /// Settles `entries` (in reverse) one by one; they are independent of each other.
    pub(crate) fn settle_all(
        &mut self,
        now: Now,
        entries: &mut Vec<Settle>,
        done: &mut Outcomes,
    ) -> Result<Settling, recado_log::Error> {
        let is_short = self.writer.log.is_short_of_space();
        while let Some(mut settle) = entries.pop() {
            if is_short && let Err(rejection) = space::shorten(&mut settle) {
                done.push(Err(rejection));
                continue;
            }
            let bytes = space::settle_bytes(&settle);
            let room = if space::is_reserved_for(&settle) {
                self.writer.claim(now, Class::Settle, bytes)?
            } else {
                self.writer.claim_beside(now, Class::Settle, bytes)?
            };
            match room {
                Room::Yes => done.push(self.settle_one(now, settle)),
                Room::Later => {
                    entries.push(settle);
                    return Ok(Settling::Later);
                }
                Room::Slow if done.is_empty() => return Ok(Settling::Refused(Error::SLOW)),
                Room::Full if done.is_empty() => return Ok(Settling::Refused(Error::FULL)),
                // Earlier entries count; this one keeps its receipt.
                short => done.push(Err(Rejection::NoRoomNow { is_full: short == Room::Full })),
            }
        }
        Ok(Settling::Done)
    }

    fn settle_one(&mut self, now: Now, settle: Settle) -> Result<recado_core::Settled, Rejection> {
        if let Some((queue, worker)) = self.writer.state.holder_of(&settle.receipt) {
            self.writer.presence.settled(queue, worker, now.wall);
        }
        match self.writer.run(now, &Command::Settle(settle))? {
            Reply::Settled(settled) => Ok(settled),
            other => unreachable!("a settle answers settled, not {other:?}"),
        }
    }

    /// Decides a receive; gives it back when it must wait for room.
    pub(crate) fn receive(
        &mut self,
        now: Now,
        mut request: Box<ReceiveRequest>,
    ) -> Result<Option<Request>, recado_log::Error> {
        match self.settle_all(now, &mut request.settle, &mut request.settled)? {
            Settling::Done => {}
            Settling::Later => return Ok(Some(Request::Receive(request))),
            Settling::Refused(error) => {
                drop(request.promise.send(Err(error)));
                return Ok(None);
            }
        }
        if request.promise.is_closed() {
            return Ok(None);
        }
        // Who has waited longer comes first.
        self.serve_waiters(now)?;
        let attempt = self.attempt(now, &mut request)?;
        if matches!(attempt, Attempt::Later) {
            return Ok(Some(Request::Receive(request)));
        }
        if self.can_wait(now, &request, &attempt) {
            self.wait(now, request, matches!(attempt, Attempt::NoSpace));
        } else {
            self.answer_receive(now, *request, attempt);
        }
        Ok(None)
    }

    /// Tries to hand out. What it answers is not parked yet.
    fn attempt(&mut self, now: Now, request: &mut ReceiveRequest) -> Result<Attempt, recado_log::Error> {
        let asked = request.receive.max;
        let hand_out = self.writer.may_hand_out().min(space::receives_in(self.writer.command_bytes_max()));
        if hand_out == 0 {
            return Ok(Attempt::NoSpace);
        }
        request.receive.max = asked.min(hand_out);
        let command = Command::Receive(mem::take(&mut request.receive));
        let bytes = space::bound(&self.writer.state, &command).min(self.writer.command_bytes_max());
        let reply = match self.writer.claim(now, Class::Settle, bytes)? {
            Room::Yes => Some(self.writer.run(now, &command)),
            Room::Later => None,
            Room::Slow | Room::Full => {
                restore(request, command, asked);
                return Ok(Attempt::NoSpace);
            }
        };
        restore(request, command, asked);
        let Some(reply) = reply else { return Ok(Attempt::Later) };
        for (name, _) in &request.receive.queues {
            if let Some(queue) = self.writer.state.queue_number(name) {
                let (worker, types) = (request.receive.worker.as_deref(), request.receive.types.as_deref());
                self.writer.presence.seen(queue, worker, types, now.wall);
            }
        }
        Ok(match reply {
            Ok(Reply::Received { created, jobs, empty_because, limit, repeated }) => {
                request.created |= created;
                // What it names is there now. If it is deleted while this waits it stays deleted, and the
                // wait ends with the answer that there is no such queue.
                request.receive.create = false;
                if repeated {
                    self.repeats.add(jobs.iter().map(|delivered| delivered.receipt.nonce));
                }
                let cancel_requested = self.cancel_requested(now, request.receive.worker.as_deref());
                let decided = Decided { jobs, empty_because, limit, repeated, cancel_requested, ..Decided::default() };
                Attempt::Decided(decided)
            }
            Ok(other) => unreachable!("a receive answers received, not {other:?}"),
            Err(rejection) => Attempt::Refused(rejection),
        })
    }

    fn cancel_requested(&self, now: Now, worker: Option<&str>) -> Vec<JobId> {
        let Some(worker) = worker else { return Vec::new() };
        match self.writer.answer(now, &Query::CancelRequested { worker: worker.into() }) {
            Ok(Answer::CancelRequested(ids)) => ids,
            Ok(other) => unreachable!("asked for cancels, not {other:?}"),
            Err(_) => Vec::new(),
        }
    }

    fn can_wait(&mut self, now: Now, request: &ReceiveRequest, attempt: &Attempt) -> bool {
        if request.wait.is_zero() || self.is_stopping() {
            return false;
        }
        let nothing = match attempt {
            Attempt::Decided(decided) => decided.jobs.is_empty() && !self.is_news(request, &decided.cancel_requested),
            Attempt::NoSpace => true,
            Attempt::Refused(_) | Attempt::Later => false,
        };
        if nothing && self.waiters.len() >= WAITERS_MAX {
            for waiter in self.waiters.take_closed() {
                self.leave(now, &waiter);
            }
        }
        nothing && self.waiters.len() < WAITERS_MAX
    }

    fn is_news(&self, request: &ReceiveRequest, cancelled: &[JobId]) -> bool {
        let worker = request.receive.worker.as_deref();
        worker.is_some_and(|worker| self.waiters.is_news(self.writer.state.worker_hash(worker), cancelled))
    }

    /// Numbers of the queues that a receive names, as far as they are there.
    fn queues_of(&self, request: &ReceiveRequest) -> Vec<u32> {
        let state = &self.writer.state;
        request.receive.queues.iter().filter_map(|(name, _)| state.queue_number(name)).collect()
    }

    /// Back in line after an attempt, in the queues that bear the names now: one that was deleted and made
    /// again has another number.
    fn back_in_line(&mut self, now: Now, id: u64, mut waiter: Waiter) {
        let queues = self.queues_of(&waiter.request);
        if queues != waiter.queues {
            let worker = waiter.request.receive.worker.as_deref();
            for (queue, begins) in waiter.queues.iter().map(|q| (q, false)).chain(queues.iter().map(|q| (q, true))) {
                self.writer.presence.waits(*queue, worker, begins, now.wall);
            }
            waiter.queues = queues;
        }
        self.waiters.put_back(id, waiter);
    }

    fn wait(&mut self, now: Now, request: Box<ReceiveRequest>, wants_space: bool) {
        let queues = self.queues_of(&request);
        let worker = request.receive.worker.as_deref();
        for queue in &queues {
            self.writer.presence.waits(*queue, worker, true, now.wall);
        }
        let worker = worker.map(|worker| self.writer.state.worker_hash(worker));
        let deadline = now.elapsed + request.wait;
        if let (Some(worker), Some(attempt)) = (worker, request.receive.attempt_id.as_deref())
            && let Some(earlier) = self.waiters.take_same(worker, attempt)
        {
            // Its caller asks anew because its connection hangs: a job handed to it would not be seen.
            self.leave(now, &earlier);
            self.answer_receive(now, *earlier.request, Attempt::NoSpace);
        }
        let woken = wants_space.then(|| queues.clone());
        self.waiters.add(Waiter { request, queues, worker, deadline });
        self.waiters.wake(woken.into_iter().flatten());
    }

    /// A waiter is out of line for good.
    fn leave(&mut self, now: Now, waiter: &Waiter) {
        let worker = waiter.request.receive.worker.as_deref();
        for queue in &waiter.queues {
            self.writer.presence.waits(*queue, worker, false, now.wall);
        }
    }

    fn answer_receive(&mut self, now: Now, request: ReceiveRequest, attempt: Attempt) {
        let ReceiveRequest { receive, settled, created, promise, wait, .. } = request;
        let answer = match attempt {
            Attempt::Decided(mut decided) => {
                if let Some(worker) = &receive.worker {
                    self.waiters.tell(self.writer.state.worker_hash(worker), &decided.cancel_requested);
                }
                (decided.settled, decided.created) = (settled, created);
                Ok(decided)
            }
            Attempt::Refused(rejection) => Err(Error::Rejected(rejection)),
            Attempt::NoSpace | Attempt::Later if wait.is_zero() && settled.is_empty() && !self.is_stopping() => {
                Err(self.writer.refusal())
            }
            // What was settled with it must be told, and a wait ends with an empty answer.
            Attempt::NoSpace | Attempt::Later => {
                let cancel_requested = self.cancel_requested(now, receive.worker.as_deref());
                Ok(Decided { settled, created, cancel_requested, ..Decided::default() })
            }
        };
        self.writer.park(Outgoing::Received(promise, answer));
    }

    /// Serves those in line in every queue where something happened. True when room ran out.
    pub(crate) fn serve_waiters(&mut self, now: Now) -> Result<bool, recado_log::Error> {
        let wakes = self.writer.state.take_wakes();
        self.waiters.wake(wakes);
        while let Some(woken) = self.waiters.woken() {
            let (_, queue) = woken;
            if !self.serve_queue(now, queue)? {
                return Ok(true);
            }
            self.waiters.is_served(woken);
            let wakes = self.writer.state.take_wakes();
            self.waiters.wake(wakes);
        }
        Ok(false)
    }

    /// False when room ran out before the line was served.
    fn serve_queue(&mut self, now: Now, queue: u32) -> Result<bool, recado_log::Error> {
        // Types for which nothing was left: whoever asks for the same gets the same.
        let mut barren = Vec::new();
        let mut after = 0;
        while let Some(id) = self.waiters.next_in(queue, after) {
            after = id;
            if self.waiters.receive(id).is_some_and(|receive| barren.contains(&receive.types)) {
                continue;
            }
            let Some(mut waiter) = self.waiters.take(id) else { continue };
            if waiter.request.promise.is_closed() {
                self.leave(now, &waiter);
                continue;
            }
            match self.attempt(now, &mut waiter.request)? {
                Attempt::Later | Attempt::NoSpace => {
                    self.back_in_line(now, id, waiter);
                    return Ok(false);
                }
                Attempt::Decided(decided) if decided.jobs.is_empty() => {
                    let types = waiter.request.receive.types.clone();
                    self.back_in_line(now, id, waiter);
                    if types.is_none() {
                        break;
                    }
                    barren.push(types);
                }
                attempt => {
                    self.leave(now, &waiter);
                    self.answer_receive(now, *waiter.request, attempt);
                }
            }
        }
        Ok(true)
    }

    /// Tells waiting workers which of their jobs were asked to be cancelled.
    pub(crate) fn serve_news(&mut self, now: Now) {
        let news = self.writer.state.take_cancel_news();
        self.waiters.add_news(news);
        while let Some((id, waiter)) = self.waiters.take_news() {
            let cancelled = self.cancel_requested(now, waiter.request.receive.worker.as_deref());
            if self.is_news(&waiter.request, &cancelled) {
                let decided = Decided { cancel_requested: cancelled, ..Decided::default() };
                self.leave(now, &waiter);
                self.answer_receive(now, *waiter.request, Attempt::Decided(decided));
            } else {
                self.back_in_line(now, id, waiter);
            }
        }
    }

    /// Answers those whose wait is over. True when room ran out.
    pub(crate) fn end_waits(&mut self, now: Now) -> Result<bool, recado_log::Error> {
        while let Some((id, mut waiter)) = self.waiters.take_overdue(now.elapsed) {
            if waiter.request.promise.is_closed() {
                self.leave(now, &waiter);
                continue;
            }
            // One more look says why there is nothing.
            match self.attempt(now, &mut waiter.request)? {
                Attempt::Later => {
                    self.back_in_line(now, id, waiter);
                    return Ok(true);
                }
                attempt => {
                    self.leave(now, &waiter);
                    self.answer_receive(now, *waiter.request, attempt);
                }
            }
        }
        Ok(false)
    }

    /// Ends all waits with empty answers: the shard stops.
    pub(crate) fn dismiss_waiters(&mut self, now: Now) {
        while let Some(waiter) = self.waiters.take_any() {
            self.leave(now, &waiter);
            self.answer_receive(now, *waiter.request, Attempt::NoSpace);
        }
    }
}

fn restore(request: &mut ReceiveRequest, command: Command, asked: usize) {
    if let Command::Receive(receive) = command {
        request.receive = receive;
        request.receive.max = asked;
    }
}
