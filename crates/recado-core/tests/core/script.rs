//! Scripts: one operation a line, then `->` and its reply. [`check`] runs one several times: as it is, with the
//! state made anew from the log after every line, and with all items written again and the rest of the log
//! freed after every line. The replies must not differ.
//!
//! `t=5s` sets the clock, `+5s` moves it; every operation stands between two ticks unless `ticks off`. Jobs
//! are called by the names they were enqueued under; `a#1` is the first delivery of `a`, `a` its last one.

use std::collections::BTreeMap;

use recado_core::{
    Action, Actor, Answer, Cancel, CancelTarget, Cancelled, Command, Condition, Configure, Enqueue, Enqueued, JobId,
    JobView, NewTask, Outcome, Patch, Producer, PutLimit, Query, Receive, Rejection, Replay, Reply, RequestKey,
    Revisions, Select, Settle, Source, decode_saved,
};

use crate::words::{self, Line, Named, ms, show_at};
use crate::world::{EPOCH, World};

/// What happens to the state after every line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// Nothing.
    Nothing,
    /// It is made anew from the log.
    Replay,
    /// All items are written again, the log before is freed.
    Copy,
    /// Both.
    CopyAndReplay,
}

/// Runs a script in all ways.
pub fn check(script: &str) {
    check_between(script, &[Between::Nothing, Between::Replay, Between::Copy, Between::CopyAndReplay]);
}

/// Runs a script in these ways.
pub fn check_between(script: &str, ways: &[Between]) {
    for way in ways {
        let mut play = Play::new(*way);
        let (mut all, mut wrong) = (String::new(), 0);
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")) {
            let (operation, expected) = line.split_once("->").unwrap_or((line, ""));
            let reply = play.line(operation.trim());
            let is_right = reply == expected.trim();
            wrong += usize::from(!is_right);
            all += &format!("{} {:<60} -> {reply}\n", if is_right { ' ' } else { '*' }, operation.trim());
            if !is_right {
                all += &format!("  {:<60} .. {}\n", "", expected.trim());
            }
        }
        assert_eq!(wrong, 0, "{wrong} replies differ ({way:?}); expected ones are marked `..`\n{all}");
    }
}

/// A script at work.
pub struct Play {
    pub world: World,
    way: Between,
    names: BTreeMap<String, JobId>,
    /// Deliveries of each job, receipt and nonce.
    receipts: BTreeMap<JobId, Vec<(String, u64)>>,
    steps: bool,
    /// Bulk actions in the order in which the script met them; it calls them 1, 2, ..
    pub tasks: Vec<u64>,
    /// Tokens of guards in the order in which they were given; a script calls them 1, 2, ..
    pub tokens: Vec<Box<str>>,
}

impl Play {
    pub fn new(way: Between) -> Self {
        Self {
            world: World::new(7),
            way,
            names: BTreeMap::new(),
            receipts: BTreeMap::new(),
            steps: true,
            tasks: Vec::new(),
            tokens: Vec::new(),
        }
    }

    /// One line: its reply.
    pub fn line(&mut self, text: &str) -> String {
        let mut rest = text;
        loop {
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            if let Some(at) = word.strip_prefix("t=") {
                self.world.now = EPOCH + ms(at);
            } else if let Some(by) = word.strip_prefix('+') {
                self.world.now += ms(by);
            } else {
                break;
            }
            rest = after.trim_start();
        }
        self.world.tick();
        let reply = self.operation(rest);
        if self.steps {
            self.world.step_tasks(usize::MAX);
        }
        self.between();
        reply
    }

    fn between(&mut self) {
        self.world.close();
        if matches!(self.way, Between::Copy | Between::CopyAndReplay) {
            self.world.copy_all();
        }
        if matches!(self.way, Between::Replay | Between::CopyAndReplay) {
            self.world.check_replay();
            self.world.swap();
        }
    }

    fn operation(&mut self, text: &str) -> String {
        let mut line = Line::parse(text);
        if line.words.is_empty() {
            return String::new();
        }
        let verb = line.words.remove(0);
        let reply = match verb.as_str() {
            "enqueue" => return self.enqueue(text),
            "queue" | "defaults" => self.configure(&verb, &mut line),
            "limit" | "unlimit" => self.limit(&verb, &mut line),
            "limits" => self.limits(),
            "schedule" | "unschedule" | "schedules" | "fire" | "run" | "occurrences" => self.schedule(&verb, &mut line),
            "receive" => self.receive(&mut line),
            "ack" | "fail" | "release" | "extend" => self.settle(&verb, &mut line),
            "giveback" => self.give_back(&line),
            "begin" => self.begin(&mut line),
            "complete" | "abort" | "hold" => self.use_guard(&verb, &mut line),
            "cancel" => self.cancel(&mut line),
            "patch" => self.patch(&mut line),
            "pause" | "resume" if line.flag("schedule") => self.pause_schedule(&verb, &mut line),
            "pause" | "resume" | "delete" => self.operate(&verb, &mut line),
            "purge" | "replay" | "discard" | "move" => self.start_task(&verb, &mut line),
            "task" | "canceltask" => self.task(&verb, &line),
            "acknowledge" | "groups" => self.fingerprints(&verb, &line),
            "job" => self.job(&line),
            "children" => self.children(&line),
            "jobs" => self.jobs(&mut line),
            "stats" => self.stats(&line),
            "audit" => self.audit(),
            "restart" => {
                self.world.restart(line.take_as("down", ms).unwrap_or(0));
                String::new()
            }
            "stepclock" => self.step_clock(line.word(0)),
            "step" => {
                self.world.step_tasks(line.word(0).parse().expect("a number"));
                String::new()
            }
            "ticks" => {
                self.world.ticks = line.word(0) == "on";
                self.world.tick();
                String::new()
            }
            "steps" => {
                self.steps = line.word(0) == "on";
                String::new()
            }
            "due" => self.world.state.next_due(self.world.now).map_or_else(|| "-".into(), show_at),
            other => panic!("unknown operation `{other}`"),
        };
        line.end(text);
        reply
    }

    pub fn name(&self, id: JobId) -> String {
        self.names.iter().find(|(_, named)| **named == id).map_or_else(|| "?".into(), |(name, _)| name.clone())
    }

    /// Calls a job by this name, unless it has one.
    pub fn call(&mut self, name: &str, id: JobId) {
        self.names.entry(name.to_owned()).or_insert(id);
    }

    pub fn id(&self, name: &str) -> JobId {
        *self.names.get(name).unwrap_or_else(|| panic!("no job is called `{name}`"))
    }

    fn enqueue(&mut self, text: &str) -> String {
        let mut parts = text.split(" ; ");
        let mut children = parts.next().unwrap_or_default().split(" > ");
        let mut first = Line::parse(children.next().unwrap_or_default());
        let queue = first.word(1).to_owned();
        first.words.drain(..2);
        let producer = first.take_as("producer", |text| {
            let (name, seq) = text.split_once(':').expect("producer=name:seq");
            Producer { name: name.into(), seq: seq.parse().expect("a number") }
        });
        let request = first.take_as("request", |text| {
            let (key, body) = text.split_once(':').expect("request=key:body");
            RequestKey { key: key.into(), body: recado_core::Secret(1, 2).hash(0, 0, &[body.as_bytes()]) }
        });
        let create = !first.flag("nocreate");
        let first = words::family(first, children);
        let families: Vec<Named> = [first].into_iter().chain(parts.map(words::new_family)).collect();
        let jobs = families.iter().map(|family| family.job.clone()).collect();
        let command = Enqueue { queue: queue.into(), create, jobs, producer, request };
        let (created, duplicate, jobs, saved) = match self.world.act(&Command::Enqueue(command)) {
            Ok(Reply::Enqueued { created, duplicate, jobs }) => (created, duplicate, jobs, false),
            Ok(Reply::Saved(place)) => {
                let answer = decode_saved(&self.world.bytes(place)).expect("a saved answer can be read");
                (answer.created, answer.duplicate, answer.jobs, true)
            }
            Ok(other) => panic!("not an answer to an enqueue: {other:?}"),
            Err(rejection) => return self.refused(&rejection),
        };
        let mut words: Vec<String> = Vec::new();
        for (family, job) in families.iter().zip(jobs) {
            let result = job.result();
            words.push(match (job.duplicate.clone(), job.queued_behind) {
                (None, behind) => {
                    self.name_family(family, &job);
                    let behind = behind.map_or_else(String::new, |id| format!("(behind {})", self.name(id)));
                    self.family(&job) + &behind
                }
                (Some(first), _) => {
                    let state = first.state.map_or("gone", |state| state.word());
                    let same = if first.same_payload { "same" } else { "differs" };
                    let result = result.map_or_else(String::new, |place| " ".to_owned() + &self.text(place));
                    format!("dup({} {same} {state}{result})", self.name(job.id))
                }
            });
        }
        let notes = [(saved, "saved"), (duplicate, "duplicate"), (created, "created")];
        words.extend(notes.into_iter().filter(|(is, _)| *is).map(|(_, word)| word.to_owned()));
        words.join(" ")
    }

    fn name_family(&mut self, family: &Named, job: &Enqueued) {
        self.names.entry(family.label.clone()).or_insert(job.id);
        for (child, job) in family.children.iter().zip(&job.children) {
            self.name_family(child, job);
        }
        if let Some(last) = &family.last
            && let Ok(Answer::Job(view)) = self.world.ask(&Query::Job(job.id))
            && let Some(id) = view.parent
        {
            self.names.entry(last.clone()).or_insert(id);
        }
    }

    /// `p(c1 c2(g))`.
    fn family(&self, job: &Enqueued) -> String {
        let children: Vec<String> = job.children.iter().map(|child| self.family(child)).collect();
        self.name(job.id) + &if children.is_empty() { String::new() } else { format!("({})", children.join(" ")) }
    }

    pub fn text(&mut self, place: recado_core::Place) -> String {
        String::from_utf8(self.world.bytes(place)).expect("text")
    }

    fn configure(&mut self, verb: &str, line: &mut Line) -> String {
        if verb == "defaults" {
            let options = words::queue_options(line);
            return self.done(&Command::SetDefaults(options));
        }
        let source = if line.flag("file") { Source::File } else { Source::Api };
        let condition = condition(line);
        let queue: Box<str> = line.word(0).into();
        let options = words::queue_options(line);
        match self.world.act(&Command::Configure(Configure {
            queue,
            options,
            source,
            condition,
            actor: Actor::default(),
        })) {
            Ok(Reply::Configured { created, revision }) => {
                format!("{}{revision}", if created { "created " } else { "" })
            }
            Ok(other) => panic!("not an answer to a configuration: {other:?}"),
            Err(rejection) => self.refused(&rejection),
        }
    }

    fn limit(&mut self, verb: &str, line: &mut Line) -> String {
        let source = if line.flag("file") { Source::File } else { Source::Api };
        let (limit, actor) = (line.word(0).into(), Actor::default());
        if verb == "unlimit" {
            return self.done(&Command::RemoveLimit { limit, source, actor });
        }
        let options = words::limit_options(line);
        match self.world.act(&Command::PutLimit(PutLimit { limit, options, source, actor })) {
            Ok(Reply::LimitPut { created }) => if created { "created" } else { "ok" }.into(),
            Ok(other) => panic!("not an answer to a limit: {other:?}"),
            Err(rejection) => self.refused(&rejection),
        }
    }

    pub fn done(&mut self, command: &Command) -> String {
        match self.world.act(command) {
            Ok(Reply::Done) => "ok".into(),
            Ok(Reply::Task(view)) => self.show_task(&view),
            Ok(other) => panic!("not a plain answer: {other:?}"),
            Err(rejection) => self.refused(&rejection),
        }
    }

    fn receive(&mut self, line: &mut Line) -> String {
        let queues = line.take("from").unwrap_or_else(|| line.word(0).to_owned());
        let weighted = |text: &str| {
            let (name, weight) = text.split_once(':').unwrap_or((text, "1"));
            (name.into(), weight.parse().expect("a weight"))
        };
        let worker = line.boxed("worker");
        let receive = Receive {
            queues: queues.split(',').map(weighted).collect(),
            strict: line.flag("strict"),
            create: !line.flag("nocreate"),
            max: line.take_as("max", |text| text.parse().expect("a number")).unwrap_or(1),
            max_bytes: line.take_as("bytes", |text| text.parse().expect("a number")).unwrap_or(u64::MAX),
            worker: worker.clone(),
            visibility_ms: line.take_as("visibility", ms),
            types: line.take_as("types", words::types),
            attempt_id: line.boxed("attempt"),
            by_group: line.flag("bygroup"),
        };
        let (given, because) = match self.world.receive(&receive) {
            Ok(given) => given,
            Err(rejection) => return self.refused(&rejection),
        };
        for (name, _) in &receive.queues {
            if let Some(number) = self.world.state.queue_number(name) {
                self.world.presence.seen(number, worker.as_deref(), receive.types.as_deref(), self.world.now);
            }
        }
        if given.is_empty() {
            return because.map_or_else(|| "-".into(), |reason| format!("- {}", reason.word()));
        }
        let mut words = Vec::new();
        for given in given {
            let all = self.receipts.entry(given.id).or_default();
            let again = all.iter().any(|(_, nonce)| *nonce == given.nonce);
            if !again {
                all.push((given.receipt, given.nonce));
            }
            let attempt = if given.attempts == 1 { String::new() } else { format!("@{}", given.attempts) };
            words.push(format!("{}{attempt}{}", self.name(given.id), if again { "(again)" } else { "" }));
        }
        words.join(" ")
    }

    /// The job and receipt that `a` or `a#1` means.
    pub fn receipt(&self, word: &str) -> Option<(JobId, String, u64)> {
        let (name, number) = word.split_once('#').unwrap_or((word, ""));
        let id = self.id(name);
        let all = self.receipts.get(&id)?;
        let at = number.parse::<usize>().unwrap_or(all.len()) - 1;
        Some((id, all[at].0.clone(), all[at].1))
    }

    fn settle(&mut self, verb: &str, line: &mut Line) -> String {
        let Some((mut job, mut receipt, _)) = self.receipt(line.word(0)) else {
            return "? never received".into();
        };
        if let Some(other) = line.take("as") {
            job = self.id(&other);
        }
        if line.flag("forged") {
            let last = if receipt.ends_with('0') { "1" } else { "0" };
            receipt.replace_range(receipt.len() - 1.., last);
        }
        let outcome = match verb {
            "ack" => Outcome::Ack { result: line.words.get(1).map(|text| text.clone().into_bytes()) },
            "fail" => Outcome::Fail(words::failure(line)),
            "release" => Outcome::Release { delay_ms: line.take_as("delay", ms), reason: line.boxed("reason") },
            _ => Outcome::Extend {
                visibility_ms: line.take_as("visibility", ms),
                progress: line.take("progress").map(String::into_bytes),
            },
        };
        match self.world.act(&Command::Settle(Settle { job: Some(job), receipt: receipt.into(), outcome })) {
            Ok(Reply::Settled(settled)) => {
                let mut reply = "ok".to_owned();
                if settled.repeated {
                    reply += " repeated";
                }
                if let Some(at) = settled.visible_at {
                    reply += &format!(" until={}", show_at(at));
                }
                if settled.cancel_requested {
                    reply += " cancel-requested";
                }
                reply
            }
            Ok(other) => panic!("not an answer to a settle: {other:?}"),
            Err(rejection) => self.refused(&rejection),
        }
    }

    fn give_back(&mut self, line: &Line) -> String {
        let (job, _, nonce) = self.receipt(line.word(0)).expect("it was received");
        self.done(&Command::GiveBack { job, nonce, delay_ms: None })
    }

    fn cancel(&mut self, line: &mut Line) -> String {
        let reason = line.boxed("reason");
        let target = match line.boxed("biz") {
            Some(business) => CancelTarget::BusinessId(business),
            None => CancelTarget::Ids(line.words.iter().map(|name| self.id(name)).collect()),
        };
        match self.world.act(&Command::Cancel(Cancel { target, reason, actor: Actor::default() })) {
            Ok(Reply::Cancelled(all)) => {
                let one = |one: &Cancelled| match one {
                    Cancelled::Done(id) => format!("{} cancelled", self.name(*id)),
                    Cancelled::Requested(id) => format!("{} requested", self.name(*id)),
                    Cancelled::Refused(id, state) => format!("{} refused {state}", self.name(*id)),
                    Cancelled::Gone(id) => format!("{} gone", self.name(*id)),
                };
                all.iter().map(one).collect::<Vec<_>>().join(", ")
            }
            Ok(other) => panic!("not an answer to a cancel: {other:?}"),
            Err(rejection) => self.refused(&rejection),
        }
    }

    fn patch(&mut self, line: &mut Line) -> String {
        let when = line.take_as("delay", |text| recado_core::When::After(ms(text)));
        let at = line.take_as("at", |text| recado_core::When::At(EPOCH + ms(text)));
        self.done(&Command::Patch(Patch {
            job: self.id(line.word(0)),
            priority: line.take_as("p", |text| text.parse().expect("a priority")),
            when: when.or(at),
            payload: line.take("payload").map(String::into_bytes),
        }))
    }

    fn operate(&mut self, verb: &str, line: &mut Line) -> String {
        let (reason, force, condition) = (line.boxed("reason"), line.flag("force"), condition(line));
        let queue: Box<str> = line.word(0).into();
        let actor = Actor::default();
        self.done(&match verb {
            "delete" => Command::DeleteQueue { queue, force, condition, actor },
            verb => Command::SetPaused { queue, paused: verb == "pause", reason, actor },
        })
    }

    fn select(&self, line: &mut Line) -> Select {
        if let Some(ids) = line.take("ids") {
            return Select::Ids(ids.split(',').map(|name| self.id(name)).collect());
        }
        let is_all = line.flag("all");
        let filter = words::filter(line);
        assert!(is_all || filter != recado_core::Filter::default(), "which jobs?");
        Select::Filter(filter)
    }

    fn start_task(&mut self, verb: &str, line: &mut Line) -> String {
        let reason = line.boxed("reason");
        let action = match verb {
            "purge" => {
                let states = line.take("states").unwrap_or_else(|| "ready,delayed".into());
                let of = |word: &str| recado_core::JobState::ALL.into_iter().find(|state| state.word() == word);
                Action::Purge { states: states.split(',').filter_map(of).collect() }
            }
            "discard" => Action::Discard { select: self.select(line) },
            "move" => Action::Move { destination: line.boxed("to"), rate: line.take_as("rate", words::rate) },
            _ => Action::Replay(Replay {
                patch: line.take("patch").map(String::into_bytes),
                rate: line.take_as("rate", words::rate),
                halt_after: line.take_as("halt", |text| text.parse().expect("a number")).unwrap_or(5),
                ignore_key: line.flag("ignorekey"),
                force: line.flag("force"),
                select: self.select(line),
            }),
        };
        let new = NewTask { queue: line.word(0).into(), action, reason, actor: Actor::default() };
        match self.world.task(new) {
            Ok(view) => {
                if self.steps {
                    self.world.step_tasks(usize::MAX);
                }
                self.show_task_by_id(view.id)
            }
            Err(rejection) => self.refused(&rejection),
        }
    }

    fn show_task_by_id(&mut self, task: u64) -> String {
        match self.world.ask(&Query::Task(task)) {
            Ok(Answer::Task(view)) => self.show_task(&view),
            Ok(other) => panic!("not a task: {other:?}"),
            Err(rejection) => self.refused(&rejection),
        }
    }

    fn task(&mut self, verb: &str, line: &Line) -> String {
        let number: usize = line.word(0).parse().expect("a number");
        let task = self.tasks.get(number - 1).copied().unwrap_or(u64::MAX);
        if verb == "canceltask" {
            return self.done(&Command::CancelTask { task, actor: Actor::default() });
        }
        self.show_task_by_id(task)
    }

    pub fn view(&mut self, name: &str) -> Result<JobView, Rejection> {
        match self.world.ask(&Query::Job(self.id(name)))? {
            Answer::Job(view) => Ok(*view),
            other => panic!("not a job: {other:?}"),
        }
    }
}

/// `if=1,2` and `ifnot=any`.
fn condition(line: &mut Line) -> Condition {
    let revisions = |text: &str| match text {
        "any" => Revisions::Any,
        text => Revisions::These(text.split(',').filter_map(|n| n.parse().ok()).collect()),
    };
    Condition { is: line.take_as("if", revisions), is_not: line.take_as("ifnot", revisions) }
}
