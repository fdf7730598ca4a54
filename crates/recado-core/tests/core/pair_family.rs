//! Children and batches, on core and model.

use std::collections::BTreeMap;

use recado_core::{
    Answer, Command, Enqueue, Enqueued, JobView, NewBatch, NewJob, NewRelative, NewTies, OnChildDead, Query, Reply,
};

use crate::model::{At, Family, Model};
use crate::ops::Spec;
use crate::pair::{Pair, QUEUES, refusal};

impl Pair {
    pub fn family(&mut self, queue: usize, parent: &Spec, children: &[(bool, Spec)], continues: bool) {
        let place = |elsewhere: bool| if elsewhere { 1 - queue } else { queue };
        let relative = |(elsewhere, spec): &(bool, Spec)| self.relative(place(*elsewhere), spec);
        let ties = NewTies {
            children: children.iter().map(relative).collect(),
            on_child_dead: if continues { OnChildDead::Continue } else { OnChildDead::Fail },
            batch: None,
        };
        let job = NewJob { ties: Some(Box::new(ties)), ..self.new_job(parent) };
        let reply = self.world.run(&enqueue(queue, vec![job]));
        let expected = self.all_or_nothing(|pair| {
            pair.admit(queue)?;
            let first = pair.put(queue, parent, pair.ids.len())?;
            let mut numbers = Vec::new();
            let mut family = Family { continues, batch: None, children: BTreeMap::new() };
            if !first.1 {
                pair.model.job(first.0).at = At::Blocked;
                for (at, (elsewhere, spec)) in children.iter().enumerate() {
                    pair.admit(place(*elsewhere))?;
                    let (number, _) = pair.put(place(*elsewhere), spec, pair.ids.len() + 1 + at)?;
                    family.children.insert(number, (None, None));
                    numbers.push(number);
                }
                pair.model.families.insert(first.0, family);
                let others = children.iter().map(|(elsewhere, _)| place(*elsewhere));
                pair.check_depths(queue, others)?;
            }
            Ok((first, numbers))
        });
        match (reply, expected) {
            (Ok(Reply::Enqueued { jobs, .. }), Ok(((number, is_duplicate), numbers))) => {
                let [job] = &*jobs else { panic!("one job: {jobs:?}") };
                assert_eq!(job.duplicate.is_some(), is_duplicate, "a duplicate parent");
                if !is_duplicate {
                    self.know(number, job);
                }
                assert_eq!(self.numbers[&job.id], number, "the parent");
                assert_eq!(job.children.len(), numbers.len(), "children");
                job.children.iter().zip(numbers).for_each(|(child, number)| self.know(number, child));
            }
            (Err(rejection), Err(word)) => assert_eq!(refusal(&rejection), word),
            (reply, expected) => panic!("core: {reply:?}\nmodel: {expected:?}"),
        }
    }

    pub fn batch(&mut self, queue: usize, id: u8, jobs: &[Spec], last: Option<&(bool, Spec)>) {
        let place = |elsewhere: bool| if elsewhere { 1 - queue } else { queue };
        let on_complete = last.map(|(elsewhere, spec)| self.relative(place(*elsewhere), spec));
        let batch = NewBatch { id: format!("b{id}").into(), on_complete };
        let member = |spec: &Spec| {
            let ties = NewTies { batch: Some(batch.clone()), ..NewTies::default() };
            NewJob { ties: Some(Box::new(ties)), ..self.new_job(spec) }
        };
        let command = enqueue(queue, jobs.iter().map(member).collect());
        let reply = self.world.run(&command);
        let first = self.ids.len();
        let expected = self.all_or_nothing(|pair| {
            pair.admit(queue)?;
            pair.check_size(queue, jobs.len())?;
            let mut next = first;
            let mut numbers = Vec::new();
            let mut end = pair.model.end_of_batch((queue, id));
            for spec in jobs {
                if end.is_none() {
                    let (elsewhere, last) = last.ok_or("invalid")?;
                    pair.admit(place(*elsewhere))?;
                    end = Some(pair.put(place(*elsewhere), last, next)?.0);
                    next += 1;
                    pair.model.job(end.unwrap()).at = At::Blocked;
                    let family = Family { continues: true, batch: Some((queue, id)), children: BTreeMap::new() };
                    pair.model.families.insert(end.unwrap(), family);
                }
                let (number, _) = pair.put(queue, spec, next)?;
                next += 1;
                pair.model.families.get_mut(&end.unwrap()).unwrap().children.insert(number, (None, None));
                numbers.push(number);
            }
            let is_new = end.is_some_and(|end| end >= first);
            let elsewhere = last.filter(|_| is_new).map(|(elsewhere, _)| place(*elsewhere));
            pair.check_depths(queue, elsewhere.into_iter())?;
            Ok((end.filter(|_| is_new), numbers))
        });
        match (reply, expected) {
            (Ok(Reply::Enqueued { jobs, .. }), Ok((end, numbers))) => {
                if let Some(end) = end {
                    let Ok(Answer::Job(view)) = self.world.ask(&Query::Job(jobs[0].id)) else { panic!("it is new") };
                    let id = view.parent.expect("what ends the batch");
                    let job = Enqueued { id, duplicate: None, queued_behind: None, children: Vec::new() };
                    self.know(end, &job);
                }
                assert_eq!(jobs.len(), numbers.len(), "one entry a job");
                jobs.iter().zip(numbers).for_each(|(job, number)| self.know(number, job));
            }
            (Err(rejection), Err(word)) => assert_eq!(refusal(&rejection), word),
            (reply, expected) => panic!("core: {reply:?}\nmodel: {expected:?}"),
        }
    }

    fn relative(&self, queue: usize, spec: &Spec) -> NewRelative {
        NewRelative { queue: Some(QUEUES[queue].into()), job: self.new_job(spec) }
    }

    fn know(&mut self, number: usize, job: &Enqueued) {
        assert_eq!(self.ids.len(), number, "numbers follow");
        self.ids.push(job.id);
        self.numbers.insert(job.id, number);
    }

    /// A queue that takes a job: it is made if need be.
    fn admit(&mut self, queue: usize) -> Result<(), &'static str> {
        self.ensure(queue);
        let dead = self.model.find(queue, |job| job.at == At::Dead).len();
        if dead >= self.model.queues[&queue].policy.dead_max {
            return Err("dead-letter-max");
        }
        self.check_size(queue, 1)
    }

    fn check_size(&self, queue: usize, jobs: usize) -> Result<(), &'static str> {
        if jobs > self.model.queues[&queue].policy.depth { Err("max-depth") } else { Ok(()) }
    }

    fn put(&mut self, queue: usize, spec: &Spec, number: usize) -> Result<(usize, bool), &'static str> {
        if self.model.queues[&queue].policy.ordered && spec.priority != 0 {
            return Err("invalid");
        }
        self.expect_one(queue, spec, number).map(|it| (it.number, it.is_duplicate))
    }

    fn check_depths(&self, queue: usize, others: impl Iterator<Item = usize>) -> Result<(), &'static str> {
        for queue in others.chain([queue]) {
            let open = self.model.find(queue, |job| matches!(job.at, At::Waiting | At::Blocked | At::InFlight));
            self.check_size(queue, open.len())?;
        }
        Ok(())
    }

    fn all_or_nothing<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T, &'static str>) -> Result<T, &'static str> {
        let before = Model {
            families: self.model.families.clone(),
            queues: self.model.queues.clone(),
            jobs: self.model.jobs.clone(),
            windows: self.model.windows.clone(),
            saved: self.model.saved.clone(),
            guards: self.model.guards.clone(),
            ..self.model
        };
        let done = act(self);
        if done.is_err() {
            self.model = before;
        }
        done
    }

    pub fn compare_family(&mut self, number: usize, view: &JobView) {
        let is_over = |at: At| matches!(at, At::Completed | At::Cancelled | At::Expired);
        let holds = |(parent, family): (&usize, &Family)| {
            let is_known = family.children.contains_key(&number);
            is_known.then_some(*parent)
        };
        let parent = self.model.families.iter().find_map(holds);
        assert_eq!(view.parent, parent.map(|parent| self.ids[parent]), "parent of job {number}");
        let family = self.model.families.get(&number).cloned();
        let Some(children) = view.children.as_ref().filter(|_| !is_over(self.model.jobs[&number].at)) else {
            assert!(family.is_none(), "children of job {number}");
            return;
        };
        let family = family.expect("the model has them too");
        let shown = (children.total as usize, children.pending as usize, children.failed as usize);
        assert_eq!(shown, (family.children.len(), family.pending(), family.failed()), "children of job {number}");
        assert_eq!(children.jobs.is_empty(), family.batch.is_some(), "a batch shows no list");
        for child in &children.jobs {
            let (end, result) = family.children[&self.numbers[&child.id]];
            let is_saved =
                end == Some("completed") && self.model.jobs.get(&self.numbers[&child.id]).is_none_or(|job| job.skipped);
            if let Some(end) = end {
                assert_eq!(child.state, end, "a child of job {number}");
            }
            if !is_saved {
                let shown = child.result.map(|place| self.world.bytes(place));
                assert_eq!(shown, result.map(|byte| vec![byte]), "what a child left job {number}");
            }
        }
    }
}

fn enqueue(queue: usize, jobs: Vec<NewJob>) -> Command {
    Command::Enqueue(Enqueue { queue: QUEUES[queue].into(), create: true, jobs, ..Enqueue::default() })
}
