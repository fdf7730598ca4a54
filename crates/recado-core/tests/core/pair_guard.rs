//! Guards, on core and model.

use recado_core::{Begun, Command, GuardAction, GuardBegin, GuardUse, Rejection, Reply};

use crate::model::{At, Ended, Guard};
use crate::ops::SayOfGuard;
use crate::pair::{Pair, QUEUES, refusal};

impl Pair {
    /// Begins for nothing, for a job, or for the job of a delivery under its receipt.
    pub fn begin(
        &mut self,
        queue: usize,
        key: u8,
        (ttl, hold): (u64, u64),
        job: Option<usize>,
        delivery: Option<usize>,
    ) {
        let delivery = delivery.and_then(|back| self.nth_delivery(back));
        let receipt = delivery.map(|number| self.deliveries[number].1.clone().into());
        let job = job.and_then(|back| self.nth_job(back)).or(delivery.map(|number| self.deliveries[number].0));
        let begin = GuardBegin {
            queue: QUEUES[queue].into(),
            key: format!("g{key}").into(),
            ttl_ms: ttl,
            hold_ms: hold,
            job: job.map(|number| self.ids[number]),
            receipt,
            attempt_id: None,
        };
        let reply = self.world.run(&Command::GuardBegin(begin));
        if let Some(word) = self.expect_refused(queue, job, delivery) {
            let refused = reply.expect_err("a begin is refused");
            assert!(word == "any stale" && matches!(refused, Rejection::Stale { .. }) || refusal(&refused) == word);
            return;
        }
        let (now, elapsed) = (self.model.now, self.model.elapsed());
        match (reply, self.model.guards.get(&(queue, key))) {
            (Ok(Reply::Begun(Begun::Done { result })), Some(Guard { done: Some(expected), .. })) => {
                let expected = expected.map(|byte| vec![byte]);
                assert_eq!(result.map(|place| self.world.bytes(place)), expected, "what a guard saved");
            }
            (Ok(Reply::Begun(Begun::Processing { until })), Some(guard)) => {
                assert!(guard.done.is_none() && guard.ends > elapsed, "nobody is at it: {guard:?}");
                assert_eq!(until, guard.ends.saturating_add_signed(self.model.skew), "when it is free");
            }
            (Ok(Reply::Begun(Begun::New { token })), guard) => {
                let is_free = guard.is_none_or(|guard| guard.done.is_none() && guard.ends <= elapsed);
                assert!(is_free, "it is not free: {guard:?}");
                assert!(self.tokens.iter().all(|(.., other)| *other != token), "a token is given once");
                let (ends, until, number) = (elapsed + hold, now + ttl.max(hold), self.tokens.len());
                self.tokens.push((queue, key, token));
                let guard = Guard { token: number, ttl, hold, ends, until, job, done: None };
                self.model.guards.insert((queue, key), guard);
            }
            (reply, guard) => panic!("core: {reply:?}\nmodel: {guard:?}"),
        }
    }

    /// Why a begin is refused, if it is.
    fn expect_refused(&self, queue: usize, job: Option<usize>, delivery: Option<usize>) -> Option<&'static str> {
        if !self.model.queues.contains_key(&queue) {
            return Some("not-found");
        }
        let Some(job) = self.model.jobs.get(&job?) else { return Some("gone") };
        if job.queue != queue {
            return Some("invalid");
        }
        let has_it = job.at == At::InFlight
            && job.lease.as_ref().is_some_and(|lease| lease.delivery == delivery.unwrap_or(lease.delivery));
        let is_held = has_it && job.lease.as_ref().is_some_and(|lease| lease.state == Ended::Held);
        (delivery.is_some() && !is_held).then_some("any stale")
    }

    pub fn use_guard(&mut self, back: usize, say: SayOfGuard) {
        let len = self.tokens.len();
        if len == 0 {
            return;
        }
        let number = len - 1 - back % len;
        let (queue, key, token) = self.tokens[number].clone();
        let action = match say {
            SayOfGuard::Complete(result) => GuardAction::Complete { result: result.map(|byte| vec![byte]) },
            SayOfGuard::Abort => GuardAction::Abort,
            SayOfGuard::Extend(hold_ms) => GuardAction::Extend { hold_ms },
        };
        let (queue_name, key_name) = (QUEUES[queue].into(), format!("g{key}").into());
        let reply = self.world.run(&Command::GuardUse(GuardUse { queue: queue_name, key: key_name, token, action }));
        if !self.model.queues.contains_key(&queue) {
            assert_eq!(refusal(&reply.expect_err("no queue")), "not-found");
            return;
        }
        let (now, elapsed, skew) = (self.model.now, self.model.elapsed(), self.model.skew);
        let expected = match (self.model.guards.get_mut(&(queue, key)), say) {
            (None, SayOfGuard::Abort) => Ok((true, None)),
            (None, _) => Err("expired"),
            (Some(guard), _) if guard.token != number => Err("key-taken"),
            (Some(Guard { done: Some(done), .. }), SayOfGuard::Complete(result)) if *done == result => Ok((true, None)),
            (Some(Guard { done: Some(_), .. }), _) => Err("settled"),
            (Some(guard), SayOfGuard::Complete(result)) => {
                (guard.done, guard.until) = (Some(result), now + guard.ttl);
                Ok((false, None))
            }
            (Some(guard), SayOfGuard::Extend(hold)) => {
                (guard.hold, guard.ends, guard.until) = (hold, elapsed + hold, guard.until.max(now + hold));
                Ok((false, Some(guard.ends.saturating_add_signed(skew))))
            }
            (Some(_), SayOfGuard::Abort) => {
                self.model.guards.remove(&(queue, key));
                Ok((false, None))
            }
        };
        // A queue that was deleted and made again has other keys: its tokens prove nothing.
        let is_foreign = matches!(&reply, Err(rejection) if refusal(rejection) == "forged");
        match (reply, expected) {
            (Ok(Reply::Guarded { repeated, until }), expected) => assert_eq!(Ok((repeated, until)), expected),
            (Err(_), Ok((true, None)) | Err(_)) if is_foreign => {}
            (Err(rejection), Err(reason)) => assert_eq!(refusal(&rejection), reason),
            (reply, expected) => panic!("core: {reply:?}\nmodel: {expected:?}"),
        }
    }
}
