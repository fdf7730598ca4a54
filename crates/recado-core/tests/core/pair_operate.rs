//! What operators do, on core and model.

use recado_core::{
    Action, Actor, Answer, Cancel, CancelTarget, Cancelled, Command, Configure, Filter, JobState, NewTask, Patch,
    Query, QueueOptions, Replay, Reply, Select, Source, TaskState, TaskView, When,
};

use crate::model::{At, Ended};
use crate::ops::Which;
use crate::pair::{KINDS, Pair, QUEUES, options, policy, refusal, sqs};

impl Pair {
    pub fn cancel(&mut self, back: usize) {
        let Some(number) = self.nth_job(back) else { return };
        let id = self.ids[number];
        let cancel = Cancel { target: CancelTarget::Ids(vec![id]), reason: None, actor: Actor::default() };
        let Ok(Reply::Cancelled(done)) = self.world.run(&Command::Cancel(cancel)) else { panic!("never refused") };
        let expected = match self.model.jobs.get(&number).map(|job| job.at) {
            None => Cancelled::Gone(id),
            Some(At::Waiting | At::Blocked) => {
                self.model.end(number, At::Cancelled, "cancelled", Ended::Cancelled);
                Cancelled::Done(id)
            }
            Some(At::InFlight) => {
                self.model.job(number).cancel = true;
                Cancelled::Requested(id)
            }
            Some(At::Cancelled) => Cancelled::Done(id),
            Some(At::Completed) => Cancelled::Refused(id, JobState::Completed),
            Some(At::Dead) => Cancelled::Refused(id, JobState::Dead),
            Some(At::Expired) => Cancelled::Refused(id, JobState::Expired),
        };
        assert_eq!(done, [expected]);
    }

    pub fn patch(&mut self, back: usize, priority: Option<u8>, delay: Option<u64>, payload: Option<u8>) {
        let Some(number) = self.nth_job(back) else { return };
        let reply = self.world.run(&Command::Patch(Patch {
            job: self.ids[number],
            priority,
            when: delay.map(When::After),
            payload: payload.map(|byte| vec![byte]),
        }));
        let Some(job) = self.model.jobs.get(&number).cloned() else {
            assert_eq!(refusal(&reply.expect_err("the job is gone")), "gone");
            return;
        };
        if !self.model.is_waiting(number) {
            assert_eq!(refusal(&reply.expect_err("the job is not waiting")), "not-waiting");
            return;
        }
        if self.model.policy(number).ordered && priority.unwrap_or(job.priority) != 0 {
            assert_eq!(refusal(&reply.expect_err("the queue is ordered")), "invalid");
            return;
        }
        assert_eq!(reply, Ok(Reply::Done));
        let now = self.model.now;
        if let Some(byte) = payload
            && let Some((key, _)) = job.dedup
            && let Some(window) = self.model.windows.get_mut(&(job.queue, key))
            && window.job == number
        {
            window.payload = byte;
        }
        let job = self.model.job(number);
        job.priority = priority.unwrap_or(job.priority);
        if let Some(byte) = payload {
            job.take_payload(byte);
        }
        if let Some(ms) = delay {
            (job.place, job.due_elapsed, job.at_once) = (now + ms, None, false);
        }
    }

    pub fn configure(&mut self, queue: usize, number: usize) {
        let mut new = policy(number);
        // What a purge does to keys depends on what the queue was then; the scripts have that.
        new.fifo &= !self.model.queues.get(&queue).is_some_and(|queue| queue.was_purged);
        new.ordered |= new.fifo;
        // Jobs of two queues do not age at one instant: which of them ends first is not said.
        new.retention = new.retention.map(|ms| ms + 250 * queue as u64);
        let command = Configure {
            queue: QUEUES[queue].into(),
            options: QueueOptions { sqs: Some(Box::new(sqs(queue, &new))), ..options(&new) },
            source: Source::Api,
            condition: Default::default(),
            actor: Actor::default(),
        };
        self.world.run(&Command::Configure(command)).unwrap();
        self.ensure(queue);
        self.model.queues.get_mut(&queue).unwrap().policy = new;
    }

    pub fn pause(&mut self, queue: usize, paused: bool) {
        let command = Command::SetPaused { queue: QUEUES[queue].into(), paused, reason: None, actor: Actor::default() };
        let reply = self.world.run(&command);
        match self.model.queues.get_mut(&queue) {
            Some(queue) => {
                queue.paused = paused;
                assert_eq!(reply, Ok(Reply::Done));
            }
            None => assert_eq!(refusal(&reply.expect_err("no queue")), "not-found"),
        }
    }

    /// Runs a bulk action to its end; `None` without the queue.
    fn task(&mut self, queue: usize, action: Action) -> Option<TaskView> {
        let new = NewTask { queue: QUEUES[queue].into(), action, reason: None, actor: Actor::default() };
        let reply = self.world.run(&Command::StartTask(new));
        if !self.model.queues.contains_key(&queue) {
            assert_eq!(refusal(&reply.expect_err("no queue")), "not-found");
            return None;
        }
        let Ok(Reply::Task(view)) = reply else { panic!("a task answers with itself: {reply:?}") };
        self.world.step_tasks(usize::MAX);
        let Ok(Answer::Task(view)) = self.world.ask(&Query::Task(view.id)) else { panic!("the task is there") };
        assert_eq!(view.state, TaskState::Completed);
        Some(*view)
    }

    pub fn purge(&mut self, queue: usize, which: [bool; 3]) {
        if self.model.queues.get(&queue).is_some_and(|queue| queue.policy.fifo) {
            return;
        }
        let all = [JobState::Ready, JobState::Delayed, JobState::Blocked];
        let states: Vec<JobState> = all.into_iter().zip(which).filter(|(_, is)| *is).map(|(state, _)| state).collect();
        let words: Vec<&str> = states.iter().map(|state| state.word()).collect();
        let meant: Vec<usize> = self.model.find(queue, |_| true);
        let meant: Vec<usize> = meant.into_iter().filter(|number| words.contains(&self.model.state(*number))).collect();
        let Some(view) = self.task(queue, Action::Purge { states }) else { return };
        self.model.queues.get_mut(&queue).unwrap().was_purged = true;
        assert_eq!(view.acted, meant.len() as u64, "purged");
        meant.into_iter().for_each(|number| self.model.remove(number));
    }

    /// The selection, and the dead jobs of the model that it means, in the order of their deaths.
    fn select(&self, queue: usize, which: Which) -> (Select, Vec<usize>) {
        let mut dead = self.model.find(queue, |job| job.at == At::Dead);
        dead.sort_by_key(|number| (self.model.jobs[number].died_at, *number));
        match which {
            Which::All => (Select::Filter(Filter::default()), dead),
            Which::Kind(kind) => {
                dead.retain(|number| self.model.jobs[number].kind == kind);
                let kind = Some(KINDS[usize::from(kind)].into());
                (Select::Filter(Filter { kind, ..Filter::default() }), dead)
            }
            Which::Job(back) => {
                let number = self.nth_job(back);
                dead.retain(|dead| Some(*dead) == number);
                (Select::Ids(number.map(|number| self.ids[number]).into_iter().collect()), dead)
            }
        }
    }

    pub fn replay(&mut self, queue: usize, which: Which, ignore_key: bool, force: bool) {
        let (select, meant) = self.select(queue, which);
        let replay = Replay { select, patch: None, rate: None, halt_after: 0, ignore_key, force };
        let Some(view) = self.task(queue, Action::Replay(replay)) else { return };
        let (mut acted, mut refused, mut conflicts) = (0, 0, 0);
        for number in meant {
            let job = &self.model.jobs[&number];
            let is_held = job.released_dedup.is_some_and(|key| self.model.windows.contains_key(&(queue, key)));
            if !force && job.replays >= self.model.policy(number).max_replays {
                refused += 1;
            } else if is_held {
                conflicts += 1;
            } else {
                acted += 1;
                self.model.replay(number, ignore_key);
            }
        }
        let skipped = |word: &str| view.skipped.iter().find(|(reason, _)| &**reason == word).map_or(0, |(_, n)| *n);
        let shown = (view.acted, skipped("max-replays"), skipped("conflict"));
        assert_eq!(shown, (acted, refused, conflicts), "replayed, too often, in conflict");
    }

    pub fn discard(&mut self, queue: usize, which: Which) {
        let (select, meant) = self.select(queue, which);
        let Some(view) = self.task(queue, Action::Discard { select }) else { return };
        assert_eq!(view.acted, meant.len() as u64, "discarded");
        meant.into_iter().for_each(|number| self.model.remove(number));
    }

    pub fn delete(&mut self, queue: usize, force: bool) {
        let command = Command::DeleteQueue {
            queue: QUEUES[queue].into(),
            force,
            condition: Default::default(),
            actor: Actor::default(),
        };
        let reply = self.world.run(&command);
        if !self.model.queues.contains_key(&queue) {
            assert_eq!(refusal(&reply.expect_err("no queue")), "not-found");
            return;
        }
        let is_busy = |at: At| !matches!(at, At::Completed | At::Cancelled | At::Expired);
        if !force && !self.model.find(queue, |job| is_busy(job.at)).is_empty() {
            assert_eq!(refusal(&reply.expect_err("the queue has jobs")), "not-empty");
            return;
        }
        assert!(matches!(reply, Ok(Reply::Done | Reply::Task(_))), "{reply:?}");
        self.world.step_tasks(usize::MAX);
        let gone = self.model.find(queue, |_| true);
        gone.into_iter().for_each(|number| self.model.remove(number));
        self.model.queues.remove(&queue);
        self.model.windows.retain(|(at, _), _| *at != queue);
        self.model.saved.retain(|(at, _), _| *at != queue);
        self.model.guards.retain(|(at, _), _| *at != queue);
    }
}
