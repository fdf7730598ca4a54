//! How scripts show answers.

use recado_core::{
    Actor, Answer, BreakerView, Command, HeldBack, JobsQuery, LimitView, Page, Query, Rejection, TaskState, TaskView,
};

use crate::script::Play;
use crate::words::{Line, ms, show_at, show_ms};
use crate::world::EPOCH;

impl Play {
    /// `task 1 completed 3/4 max-replays=1`.
    pub fn show_task(&mut self, view: &TaskView) -> String {
        if !self.tasks.contains(&view.id) {
            self.tasks.push(view.id);
        }
        let number = self.tasks.iter().position(|id| *id == view.id).map_or(0, |at| at + 1);
        let state = match view.state {
            TaskState::Running => "running",
            TaskState::Completed => "completed",
            TaskState::Halted => "halted",
            TaskState::Cancelled => "cancelled",
        };
        let mut text = format!("task {number} {state} {}/{}", view.acted, view.matched);
        if view.succeeded + view.failed > 0 {
            text += &format!(" succeeded={} failed={}", view.succeeded, view.failed);
        }
        for (reason, count) in &view.skipped {
            text += &format!(" {reason}={count}");
        }
        text
    }

    pub fn refused(&self, rejection: &Rejection) -> String {
        match rejection {
            Rejection::QueueNotFound { nearest, .. } => {
                format!("! not-found{}", nearest.as_ref().map_or_else(String::new, |name| format!(" nearest={name}")))
            }
            Rejection::QueueFull { reason, limit, actual, .. } => format!("! full {reason} {actual}/{limit}"),
            Rejection::PayloadTooLarge { index, limit, actual, .. } => {
                format!("! too-large [{index}] {actual}/{limit}")
            }
            Rejection::Invalid { index, pointer, .. } => format!("! invalid [{index}] {pointer}"),
            Rejection::DuplicateConflict { index, id } => format!("! conflict [{index}] {}", self.name(*id)),
            Rejection::Entries(all) => all.iter().map(|one| self.refused(one)).collect::<Vec<_>>().join(" "),
            Rejection::ProducerGap { expected, .. } => format!("! gap expected={expected}"),
            Rejection::JobNotWaiting { state, .. } => format!("! not-waiting {state}"),
            Rejection::JobGone(_) => "! gone".into(),
            Rejection::QueueNotEmpty { jobs, .. } => format!("! not-empty {jobs}"),
            Rejection::Stale { reason, state } => {
                format!("! stale {reason}{}", state.map_or_else(String::new, |state| format!(" ({state})")))
            }
            Rejection::TokenOutdated { reason } => format!("! outdated {reason}"),
            other => format!("! {other:?}").split([' ', '(', '{']).take(2).collect::<Vec<_>>().join(" "),
        }
    }

    /// State, attempts/deliveries, and what is not as usual.
    pub fn job(&mut self, line: &Line) -> String {
        let view = match self.view(line.word(0)) {
            Ok(view) => view,
            Err(rejection) => return self.refused(&rejection),
        };
        let mut words = vec![view.state.to_string()];
        if view.deliveries > 0 {
            words.push(format!("{}/{}", view.attempts, view.deliveries));
        }
        if view.state == recado_core::JobState::Delayed {
            words.push(format!("until={}", show_at(view.run_at)));
        }
        words.extend(view.visible_at.map(|at| format!("until={}", show_at(at))));
        // Most scripts have no workers between their receives.
        let held = view.held_back.filter(|reason| *reason != HeldBack::NoWorker);
        words.extend(held.map(|reason| format!("held={}", reason.word())));
        if view.priority > 0 {
            words.push(format!("p={}", view.priority));
        }
        let errors: Vec<String> = view.errors.iter().map(|place| self.error(*place)).collect();
        if !errors.is_empty() {
            words.push(format!("errors={}", errors.join(",")));
        }
        if let Some(from) = &view.handed_off_by {
            words.push(format!("by={from} first={}", view.first_received_at.map_or_else(|| "-".into(), show_at)));
        }
        if view.replays > 0 {
            words.push(format!("replays={}", view.replays));
        }
        let payload = self.text(view.payload);
        if payload != format!("\"{}\"", line.word(0)) {
            words.push(format!("payload={payload}"));
        }
        if let Some(place) = view.result {
            words.push(format!("result={}", self.text(place)));
        }
        if let Some(place) = view.progress {
            words.push(format!("progress={}", self.text(place)));
        }
        if let Some(it) = &view.children {
            assert_eq!(it.total, it.pending + it.completed + it.failed, "children of {}", view.id);
            words.push(format!("children={}+{}/{}", it.completed, it.failed, it.total));
        }
        words.extend(view.parent.map(|parent| format!("of={}", self.name(parent))));
        if view.cancel_requested {
            words.push("cancel-requested".into());
        }
        words.join(" ")
    }

    /// `c1:completed=42 c2:ready`.
    pub fn children(&mut self, line: &Line) -> String {
        let children = match self.view(line.word(0)) {
            Ok(view) => view.children.expect("it has children"),
            Err(rejection) => return self.refused(&rejection),
        };
        let mut words = Vec::new();
        for child in &children.jobs {
            let result = child.result.map(|place| format!("={}", self.text(place))).unwrap_or_default();
            words.push(format!("{}:{}{result}", self.name(child.id), child.state));
        }
        words.join(" ")
    }

    pub fn error(&mut self, place: recado_core::Place) -> String {
        let bytes = self.world.bytes(place);
        recado_core::ErrorEntry::from_bytes(&bytes).expect("an error can be read").kind.into()
    }

    /// Names of a queue's jobs, in the order of the list.
    pub fn jobs(&mut self, line: &mut Line) -> String {
        let states = line.take("state");
        let of = |word: &str| recado_core::JobState::ALL.into_iter().find(|state| state.word() == word);
        let query = Query::Jobs(JobsQuery {
            queue: line.word(0).into(),
            states: states.iter().flat_map(|words| words.split(',')).filter_map(of).collect(),
            business_id: line.boxed("biz"),
            group: line.boxed("group"),
            page: Page { cursor: None, limit: 1_000 },
            ..JobsQuery::default()
        });
        match self.world.ask(&query) {
            Ok(Answer::Jobs { jobs, .. }) => jobs.iter().map(|job| self.name(job.id)).collect::<Vec<_>>().join(" "),
            Ok(other) => panic!("not jobs: {other:?}"),
            Err(rejection) => self.refused(&rejection),
        }
    }

    /// Counts that are not 0.
    pub fn stats(&mut self, line: &Line) -> String {
        let stats = match self.world.ask(&Query::Stats(line.word(0).into())) {
            Ok(Answer::Stats(stats)) => stats,
            Ok(other) => panic!("not figures: {other:?}"),
            Err(rejection) => return self.refused(&rejection),
        };
        let counts = [
            ("ready", stats.ready),
            ("delayed", stats.delayed),
            ("blocked", stats.blocked),
            ("inFlight", stats.in_flight),
            ("dead", stats.dead),
            ("completed", stats.completed),
            ("cancelled", stats.cancelled),
            ("expired", stats.expired),
        ];
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        let mut words: Vec<String> = counts.map(|(name, count)| format!("{name}={count}")).collect();
        words.extend(stats.breaker.map(|breaker| Self::breaker(&breaker)));
        if words.is_empty() { "empty".into() } else { words.join(" ") }
    }

    /// `breaker=closed:1/3`, with the failures of the ended attempts.
    fn breaker(breaker: &BreakerView) -> String {
        let until = breaker.until.map_or_else(String::new, |until| format!(":until={}", show_at(until)));
        format!("breaker={:?}:{}/{}{until}", breaker.state, breaker.failures, breaker.jobs).to_lowercase()
    }

    /// `stripe 1/2 q r`: jobs in flight, how many may be, queues that name it; `held` when it hands out nothing.
    pub fn limits(&mut self) -> String {
        let Ok(Answer::Limits(limits)) = self.world.ask(&Query::Limits) else { panic!("limits are asked for") };
        let one = |limit: &LimitView| {
            let max = limit.figures.max_in_flight.map_or_else(String::new, |max| format!("/{max}"));
            let mut text = format!("{} {}{max}", limit.figures.name, limit.figures.in_flight);
            if let Some((_, tokens)) = limit.figures.rate {
                text += &format!(" tokens={tokens}");
            }
            limit.queues.iter().for_each(|queue| text += &format!(" {queue}"));
            text += &limit.figures.breaker.as_ref().map_or_else(String::new, |it| format!(" {}", Self::breaker(it)));
            if limit.figures.held_back.is_some() { text + " held" } else { text }
        };
        limits.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    pub fn audit(&mut self) -> String {
        let page = Page { cursor: None, limit: 1_000 };
        match self.world.ask(&Query::Audit { queue: None, actor: None, action: None, page }) {
            Ok(Answer::Audit { entries, .. }) => {
                entries.iter().map(|entry| entry.action.to_string()).collect::<Vec<_>>().join(" ")
            }
            other => panic!("not an audit trail: {other:?}"),
        }
    }

    /// Groups of alike failures, or a note on the one of a dead job.
    pub fn fingerprints(&mut self, verb: &str, line: &Line) -> String {
        if verb == "acknowledge" {
            let view = self.view(line.word(1)).expect("a job");
            let fingerprint = view.fingerprint.unwrap_or(0);
            let (queue, note) = (line.word(0).into(), line.word(2).into());
            return self.done(&Command::Acknowledge { queue, fingerprint, note, actor: Actor::default() });
        }
        let page = Page { cursor: None, limit: 100 };
        match self.world.ask(&Query::Fingerprints { queue: line.word(0).into(), page }) {
            Ok(Answer::Fingerprints { groups, .. }) => {
                let note = |note: Option<Box<str>>| note.map_or_else(String::new, |note| format!("({note})"));
                let one = |group: recado_core::FingerprintView| {
                    let kind = group.error.map_or_else(|| "?".into(), |place| self.error(place));
                    format!("{}:{kind}x{}{}", group.kind, group.count, note(group.note))
                };
                groups.into_iter().map(one).collect::<Vec<_>>().join(" ")
            }
            other => panic!("not groups: {other:?}"),
        }
    }

    /// The wall clock is stepped, and the core is told.
    pub fn step_clock(&mut self, by: &str) -> String {
        let delta_ms = match by.strip_prefix('-') {
            Some(back) => -(ms(back) as i64),
            None => ms(by) as i64,
        };
        self.world.now = self.world.now.saturating_add_signed(delta_ms);
        // The shard tells of a step before anything else happens at the new time.
        self.world.run(&Command::StepClock { delta_ms }).expect("a step is never refused");
        self.world.tick();
        show_ms(self.world.now - EPOCH)
    }
}
