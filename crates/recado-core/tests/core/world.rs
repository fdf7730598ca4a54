//! A shard without a machine: a state, a log in memory, a clock moved by hand, luck from a seed.
//!
//! Every closed batch is checked on its way: its events decode to what was encoded, and the structures of
//! the state agree with each other. [`World::rebuild`] replays what is left of the log.

use std::collections::BTreeSet;

use recado_core::{
    Answer, Command, Draft, Event, HeldBack, JobId, Moment, NewTask, Place, Presence, Query, Rejection, Reply, State,
    TaskView, answer, apply, decode_batch, encode_batch, run,
};

/// The instant that scripts call 0.
pub const EPOCH: u64 = 1_700_000_000_000;

/// One batch of the log.
#[derive(Clone)]
pub struct Batch {
    pub position: u64,
    pub head: Vec<u8>,
    pub tail: Vec<u8>,
}

/// What a receive gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    pub id: JobId,
    pub receipt: String,
    pub nonce: u64,
    pub attempts: u32,
    pub visible_at: u64,
    pub timeout_at: Option<u64>,
    pub fence: u64,
}

/// See the module.
pub struct World {
    pub state: State,
    pub log: Vec<Batch>,
    pub draft: Draft,
    pub now: u64,
    pub presence: Presence,
    /// Kinds of events seen in batches.
    pub kinds: BTreeSet<u64>,
    /// Highest fencing token that was given out.
    pub fence: u64,
    entropy: u64,
    /// Nonces that were given out, to tell a repeated answer from a new delivery.
    nonces: BTreeSet<u64>,
    /// Timers run between commands.
    pub ticks: bool,
    /// Jobs of a bulk action in one step.
    pub task_chunk: usize,
    /// Payload bytes that replay with a patch found unfit.
    pub is_unpatchable: fn(&[u8]) -> bool,
}

impl World {
    /// An empty log, in service.
    pub fn new(seed: u64) -> Self {
        let mut world = Self {
            state: State::new(3),
            log: Vec::new(),
            draft: Draft::new(100),
            now: EPOCH,
            presence: Presence::default(),
            kinds: BTreeSet::new(),
            fence: 0,
            entropy: seed,
            nonces: BTreeSet::new(),
            ticks: true,
            task_chunk: 3,
            is_unpatchable: |_| false,
        };
        world.start(0);
        world
    }

    fn start(&mut self, served_until: u64) {
        let secret = (self.luck(), self.luck());
        self.run(&Command::Start { secret, served_until }).expect("a start is never refused");
        self.close();
    }

    /// 64 random bits (SplitMix64).
    pub fn luck(&mut self) -> u64 {
        self.entropy = self.entropy.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.entropy;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One command at this instant, and nothing else.
    pub fn run(&mut self, command: &Command) -> Result<Reply, Rejection> {
        let moment = Moment { at: self.now, entropy: self.luck() };
        let (before, was_empty) = (self.draft.len_bytes(), self.draft.is_empty());
        let reply = run(&mut self.state, moment, command, &mut self.draft);
        if reply.is_err() {
            assert_eq!(
                (self.draft.len_bytes(), self.draft.is_empty()),
                (before, was_empty),
                "{command:?} left a trace"
            );
        }
        if let Ok(Reply::Received { jobs, .. }) = &reply {
            for job in jobs {
                if self.nonces.insert(job.receipt.nonce) {
                    assert!(job.fencing_token > self.fence, "fencing tokens grow");
                    self.fence = job.fencing_token;
                }
            }
        }
        reply
    }

    /// All that is due, as the shard does it between commands; not always, since it serves many in one turn.
    pub fn tick(&mut self) {
        if !self.ticks {
            return;
        }
        for _ in 0..1_000 {
            if self.state.next_due(self.now).is_none_or(|due| due > self.now) {
                return;
            }
            self.run(&Command::Tick).expect("a tick is never refused");
        }
        panic!("ticking does not end: {:?} at {}", self.state.next_due(self.now), self.now);
    }

    /// A command between two ticks.
    pub fn act(&mut self, command: &Command) -> Result<Reply, Rejection> {
        self.tick();
        let reply = self.run(command);
        self.tick();
        reply
    }

    /// Ends the batch at hand.
    pub fn close(&mut self) {
        if self.draft.is_empty() {
            return;
        }
        let position = self.draft.position;
        let (head, tail) = self.draft.take(self.now);
        self.draft.position = position + 10;
        let mut again = encode_batch(self.now, &[]);
        let read = decode_batch(&head, |event| {
            let from = again.len();
            minicbor::encode(&event, &mut again).expect("a vector takes everything");
            self.kinds.insert(kind(&again[from..]));
        });
        assert_eq!(read.expect("a batch can be read").at, self.now);
        assert_eq!(again, head, "events come back as they were written");
        self.state.check();
        self.log.push(Batch { position, head, tail });
    }

    /// The bytes at a place.
    pub fn bytes(&mut self, place: Place) -> Vec<u8> {
        if place.position == self.draft.position {
            self.close();
        }
        let Ok(index) = self.log.binary_search_by_key(&place.position, |batch| batch.position) else {
            panic!("{place:?} is not in the log, which begins at {:?}", self.log.first().map(|batch| batch.position));
        };
        self.log[index].tail[place.offset as usize..][..place.length as usize].to_vec()
    }

    /// A state made from what is left of the log.
    pub fn rebuild(&self) -> State {
        self.rebuild_from(0)
    }

    /// A state made from the log without its first batches.
    pub fn rebuild_from(&self, first: usize) -> State {
        let mut state = State::new(3);
        for batch in &self.log[first..] {
            decode_batch(&batch.head, |event: Event| apply(&mut state, batch.position, event)).expect("readable");
        }
        state
    }

    /// What is left of the log says what the state says.
    pub fn check_replay(&mut self) {
        self.close();
        let again = self.rebuild();
        again.check();
        let (live, again) = (self.state.digest(), again.digest());
        if live != again {
            let differ = live.lines().zip(again.lines()).filter(|(a, b)| a != b);
            let differ: Vec<String> = differ.map(|(a, b)| format!("  live {a}\nreplay {b}")).take(5).collect();
            let lines = (live.lines().count(), again.lines().count());
            panic!("replay differs, {lines:?} lines:\n{}", differ.join("\n"));
        }
    }

    /// The state is lost and made anew from the log, as a standby does that takes over within the same service.
    pub fn swap(&mut self) {
        self.close();
        self.state = self.rebuild();
        self.state.check();
    }

    /// The process dies and is started again `down_ms` later; the batch at hand was written.
    pub fn restart(&mut self, down_ms: u64) {
        self.swap();
        let served_until = self.now;
        self.now += down_ms;
        self.presence = Presence::default();
        self.start(served_until);
    }

    /// Writes the `max` oldest items again and frees what no item needs.
    pub fn copy(&mut self, max: usize) {
        self.close();
        let below = self.draft.position;
        let mut plans = self.state.oldest_copies(below, max);
        for plan in &mut plans {
            let places = plan.places.clone();
            plan.bytes = places.into_iter().map(|place| self.bytes(place)).collect();
        }
        self.run(&Command::Copy(plans)).expect("a copy is never refused");
        self.close();
    }

    /// Frees what no item needs. Returns how many batches went.
    pub fn trim(&mut self) -> usize {
        self.close();
        let first = self.state.oldest_position().unwrap_or(self.draft.position);
        let gone = self.log.iter().take_while(|batch| batch.position < first).count();
        self.log.drain(..gone);
        gone
    }

    /// Writes all items again; what was written before is freed.
    pub fn copy_all(&mut self) {
        self.copy(usize::MAX);
        self.trim();
    }

    /// An answer about the state as it is.
    pub fn ask(&self, query: &Query) -> Result<Answer, Rejection> {
        answer(&self.state, &self.presence, self.now, query)
    }

    /// Steps bulk actions as the shard does, at most `jobs` of them.
    pub fn step_tasks(&mut self, jobs: usize) {
        for task in self.state.running_tasks() {
            let mut left = jobs;
            while left > 0 {
                let next = self.state.next_of_task(self.now, task, left.min(self.task_chunk));
                if next.due_at.is_some_and(|due_at| due_at > self.now) {
                    break;
                }
                left -= next.jobs.len().clamp(1, left);
                let mut unpatchable = 0;
                let mut jobs = Vec::new();
                for (seq, place) in &next.jobs {
                    let patched = next.patch.map(|patch| (self.bytes(*place), self.bytes(patch)));
                    match patched {
                        Some((payload, _)) if (self.is_unpatchable)(&payload) => unpatchable += 1,
                        patched => jobs.push((*seq, patched.map(|(_, patch)| patch))),
                    }
                }
                let step = Command::StepTask { task, jobs, unpatchable, cursor: next.cursor, last: next.last };
                self.run(&step).expect("a running task can be stepped");
                self.tick();
                if !self.state.running_tasks().contains(&task) {
                    break;
                }
            }
        }
    }

    /// Starts a bulk action and steps it as far as it goes now.
    pub fn task(&mut self, new: NewTask) -> Result<TaskView, Rejection> {
        let Reply::Task(view) = self.act(&Command::StartTask(new))? else { panic!("a task answers with itself") };
        Ok(view)
    }

    /// Receives: what was given, and why nothing was.
    pub fn receive(&mut self, receive: &recado_core::Receive) -> Result<(Vec<Given>, Option<HeldBack>), Rejection> {
        let Reply::Received { jobs, empty_because, .. } = self.act(&Command::Receive(receive.clone()))? else {
            panic!("a receive answers with jobs");
        };
        let secret = self.state.secret();
        let give = |job: recado_core::Delivered| Given {
            id: job.job.id,
            receipt: job.receipt.text(secret),
            nonce: job.receipt.nonce,
            attempts: job.job.attempts,
            visible_at: job.visible_at,
            timeout_at: job.timeout_at,
            fence: job.fencing_token,
        };
        Ok((jobs.into_iter().map(give).collect(), empty_because))
    }
}

/// The number of an encoded event's kind: it stands first in an array of two.
fn kind(event: &[u8]) -> u64 {
    let mut decoder = minicbor::Decoder::new(event);
    decoder.array().expect("an event is an array");
    decoder.u64().expect("an event begins with its kind")
}
