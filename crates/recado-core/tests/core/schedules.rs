//! Schedules: each instant is decided once, and makes its job or says why not.
//!
//! A schedule of these scripts has equal intervals. `fire s a` does what the edge does for the instant that is next: it
//! says which follow, and brings a job called `a`.

use recado_core::{
    Actor, Answer, CatchUp, Command, FireSchedule, NewJob, OCCURRENCES_KEPT_MAX, Occurrence, Overlap, Page,
    PutSchedule, Query, Reply, RunSchedule, SCHEDULE_BYTES_SUM_MAX, SCHEDULES_MAX, ScheduleOptions, ScheduleView, Skip,
    Source,
};

use crate::script::{Between, Play, check};
use crate::words::{Line, ms, new_job, show_at};
use crate::world::EPOCH;

const WINDOW: &str = "1h";

/// The first instant of a schedule after another.
fn next_of(view: &ScheduleView, after: u64) -> u64 {
    let every = ms(view.text.split(' ').next().unwrap_or_default());
    view.since + (after.saturating_sub(view.since) / every + 1) * every
}

impl Play {
    pub fn schedule(&mut self, verb: &str, line: &mut Line) -> String {
        match verb {
            "schedules" => return self.schedules(),
            "occurrences" => return self.occurrences(line.word(0)),
            "fire" => return self.fire(line),
            "run" => return self.run_schedule(line),
            _ => {}
        }
        let source = if line.flag("file") { Source::File } else { Source::Api };
        let (schedule, actor): (Box<str>, _) = (line.word(0).into(), Actor::default());
        if verb == "unschedule" {
            return self.done(&Command::RemoveSchedule { schedule, source, actor });
        }
        let create = !line.flag("nocreate");
        let every = line.take("every").expect("every=10s");
        let text = line.take("text").map_or_else(|| every.clone(), |text| format!("{every} {text}"));
        let options = ScheduleOptions {
            text: text.into(),
            queue: line.word(1).into(),
            overlap: if line.take("overlap").is_some() { Overlap::Allow } else { Overlap::Skip },
            catch_up: match line.take("catchup").as_deref() {
                Some("none") => CatchUp::None,
                Some("all") => CatchUp::All,
                _ => CatchUp::One,
            },
            catch_up_window_ms: ms(&line.take("window").unwrap_or_else(|| WINDOW.into())),
        };
        let since = self.world.now;
        let next = line.take_as("next", |at| EPOCH + ms(at)).unwrap_or(since + ms(&every));
        let put = PutSchedule { schedule, options, since, next: Some(next), create, source, actor };
        match self.world.act(&Command::PutSchedule(put)) {
            Ok(Reply::SchedulePut { created }) => if created { "created" } else { "ok" }.into(),
            Ok(other) => panic!("not an answer to a schedule: {other:?}"),
            Err(rejection) => self.refused(&rejection),
        }
    }

    pub fn pause_schedule(&mut self, verb: &str, line: &mut Line) -> String {
        let (schedule, actor) = (line.word(0).into(), Actor::default());
        let command = Command::PauseSchedule { schedule, paused: verb == "pause", reason: line.boxed("reason"), actor };
        self.done(&command)
    }

    fn look(&self, name: &str) -> ScheduleView {
        match self.world.ask(&Query::Schedule(name.into())) {
            Ok(Answer::Schedule(view)) => *view,
            other => panic!("not a schedule: {other:?}"),
        }
    }

    fn job_of(name: &str, line: &mut Line) -> NewJob {
        let options = ["dedup", "key", "payload", "p"].map(|option| Some((option, line.take(option)?)));
        let options: Vec<String> =
            options.into_iter().flatten().map(|(name, value)| format!("{name}={value}")).collect();
        new_job(Line::parse(&format!("{name} {}", options.join(" "))))
    }

    fn fire(&mut self, line: &mut Line) -> String {
        let (view, now) = (self.look(line.word(0)), self.world.now);
        let at = line.take_as("at", |at| EPOCH + ms(at)).or(view.next).expect("it is due at some time");
        let version = if line.flag("stale") { view.version - 1 } else { view.version };
        let refused = line.take_as("refused", |word| Skip::ALL.into_iter().find(|skip| skip.word() == word).unwrap());
        let following = next_of(&view, at);
        let passed = |at: &u64| *at <= now;
        let latest = std::iter::successors(Some(at), |at| Some(next_of(&view, *at))).take_while(passed).last();
        let window_at = now.saturating_sub(view.catch_up_window_ms);
        let in_window = (following <= now).then(|| next_of(&view, at.max(window_at - 1)));
        let name = line.word(1).to_owned();
        let job = Self::job_of(&name, line);
        let fire = FireSchedule {
            schedule: view.name,
            version,
            at,
            following: Some(following),
            latest: latest.unwrap_or(at),
            in_window,
            job: refused.map_or(Ok(job), Err),
            create: !line.flag("nocreate"),
        };
        match self.world.act(&Command::FireSchedule(Box::new(fire))) {
            Ok(Reply::Occurred { occurrence, next }) => {
                let next = next.map_or_else(|| "-".into(), show_at);
                let what = occurrence.map_or_else(|| "-".into(), |it| self.show_occurrence(&name, &it));
                format!("{what} next={next}")
            }
            Ok(other) => panic!("not an answer to a firing: {other:?}"),
            Err(rejection) => self.refused(&rejection),
        }
    }

    fn run_schedule(&mut self, line: &mut Line) -> String {
        let view = self.look(line.word(0));
        let name = line.word(1).to_owned();
        let job = Self::job_of(&name, line);
        let (create, actor) = (!line.flag("nocreate"), Actor::default());
        let run = RunSchedule { schedule: view.name, version: view.version, job, create, actor };
        match self.world.act(&Command::RunSchedule(Box::new(run))) {
            Ok(Reply::Occurred { occurrence: Some(occurrence), .. }) => self.show_occurrence(&name, &occurrence),
            Ok(other) => panic!("not an answer to a run: {other:?}"),
            Err(rejection) => self.refused(&rejection),
        }
    }

    /// `a`, `overlap(a)`, `catch-up:10s-30s`.
    fn show_occurrence(&mut self, name: &str, occurrence: &Occurrence) -> String {
        let job = occurrence.job.map(|id| {
            if occurrence.skip.is_none() && name != "?" {
                self.call(name, id);
            }
            self.name(id)
        });
        let before = occurrence.before.map_or_else(String::new, |before| format!("-{}", show_at(before)));
        match (occurrence.skip, job) {
            (None, Some(job)) => job + if occurrence.manual { "!" } else { "" },
            (Some(skip), Some(job)) => format!("{}({job})", skip.word()),
            (Some(skip), None) => format!("{}:{}{before}", skip.word(), show_at(occurrence.at)),
            (None, None) => panic!("an occurrence without a job says why: {occurrence:?}"),
        }
    }

    fn schedules(&mut self) -> String {
        let page = Page { cursor: None, limit: 1_000 };
        let Ok(Answer::Schedules { schedules, .. }) = self.world.ask(&Query::Schedules(page)) else {
            panic!("schedules are asked for");
        };
        let one = |view: &ScheduleView| {
            let next = view.next.map_or_else(|| "-".into(), show_at);
            let paused = if view.paused { " paused" } else { "" };
            format!("{} next={next} {}/{}{paused}", view.name, view.fired, view.skipped)
        };
        schedules.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Newest first, each with its instant.
    fn occurrences(&mut self, name: &str) -> String {
        let (mut shown, mut cursor) = (Vec::new(), None);
        loop {
            // Small pages, so that every list of these scripts has several.
            let query = Query::Occurrences { schedule: name.into(), page: Page { cursor, limit: 2 } };
            let (page, next) = match self.world.ask(&query) {
                Ok(Answer::Occurrences { occurrences, cursor }) => (occurrences, cursor),
                Ok(other) => panic!("not occurrences: {other:?}"),
                Err(rejection) => return self.refused(&rejection),
            };
            for it in page {
                shown.push(format!("{}={}", show_at(it.at), self.show_occurrence("?", &it)));
            }
            if next.is_none() {
                return shown.join(" ");
            }
            cursor = next;
        }
    }
}

#[test]
fn an_instant_is_decided_once() {
    check(
        r#"
        t=0 schedule s q every=10s           -> created
        schedule s q every=10s               -> ok
        schedules                            -> s next=10s 0/0
        t=10s fire s a                       -> a next=20s
        // Told again, by whoever did not hear the answer.
        fire s b at=10s                      -> - next=20s
        restart
        fire s b at=10s                      -> - next=20s
        jobs q                               -> a
        // Told of an older definition.
        t=20s fire s b stale                 -> - next=-
        receive q                            -> a
        ack a                                -> ok
        fire s b                             -> b next=30s
        occurrences s                        -> 20s=b 10s=a
        schedules                            -> s next=30s 2/0
        job b                                -> ready
        "#,
    );
}

#[test]
fn an_occurrence_beside_an_unfinished_job_is_skipped() {
    check(
        r#"
        t=0 schedule s q every=10s           -> created
        queue q attempts=1 keep=0s visibility=1h -> created 1
        t=10s fire s a                       -> a next=20s
        t=20s fire s b                       -> overlap(a) next=30s
        receive q                            -> a
        t=30s fire s b                       -> overlap(a) next=40s
        ack a                                -> ok
        t=40s fire s b                       -> b next=50s
        receive q                            -> b
        fail b                               -> ok
        // Dead is done: somebody has to see to it.
        t=50s fire s c                       -> c next=1m
        cancel c                             -> c cancelled
        t=1m fire s d                        -> d next=70s
        schedule s q every=10s overlap=allow -> ok
        schedules                            -> s next=70s 4/2
        t=70s fire s e                       -> e next=80s
        t=80s fire s f                       -> f next=90s
        jobs q state=ready                   -> d e f
        occurrences s                        -> 80s=f 70s=e 1m=d 50s=c 40s=b 30s=overlap(a) 20s=overlap(a) 10s=a
        "#,
    );
}

#[test]
fn a_run_by_hand_hides_no_unfinished_job() {
    check(
        r#"
        t=0 schedule s q every=10s           -> created
        t=10s fire s a                       -> a next=20s
        run s b                              -> b!
        receive q                            -> a
        receive q                            -> b
        ack b                                -> ok
        t=20s fire s c                       -> overlap(a) next=30s
        ack a                                -> ok
        // What was run by hand is in the way too.
        run s c                              -> c!
        t=30s fire s d                       -> overlap(c) next=40s
        receive q                            -> c
        ack c                                -> ok
        schedule s q every=10s overlap=allow -> ok
        t=40s fire s d                       -> d next=50s
        t=50s fire s e                       -> e next=1m
        receive q                            -> d
        receive q                            -> e
        ack e                                -> ok
        t=55s schedule s q every=10s         -> ok
        t=65s fire s f                       -> overlap(d) next=75s
        "#,
    );
    let mut play = Play::new(Between::Copy);
    play.line("t=0 schedule s q every=1s");
    play.line("run s a");
    play.line("run s b");
    for _ in 0..2 * OCCURRENCES_KEPT_MAX + 10 {
        assert!(play.line("+1s fire s c").starts_with("overlap("), "neither is forgotten");
    }
    for first in ["a", "b"] {
        play.line("receive q");
        assert!(play.line("+1s fire s c").starts_with("overlap("));
        play.line(&format!("ack {first}"));
    }
    assert!(play.line("+1s fire s c").starts_with("c "), "both are done");
}

#[test]
fn what_is_due_is_decided_before_the_definition_changes() {
    check(
        r#"
        t=0 schedule s q every=10s catchup=all overlap=allow -> created
        t=25s schedule s q every=1h          -> ! PreconditionFailed
        // The same definition goes on where it was.
        schedule s q every=10s catchup=all overlap=allow file -> ok
        schedule s q every=1h file           -> ! PreconditionFailed
        fire s a                             -> a next=20s
        schedule s q every=1h file           -> ! PreconditionFailed
        fire s b                             -> b next=30s
        schedule s q every=1h file           -> ok
        schedules                            -> s next=3625s 2/0
        "#,
    );
}

#[test]
fn of_what_was_missed_one_is_made_up_for() {
    check(
        r#"
        t=0 schedule s q every=10s           -> created
        t=10s fire s a                       -> a next=20s
        receive q                            -> a
        ack a                                -> ok
        restart down=1m
        // 20s to 60s stand behind 70s, which is due now.
        fire s b                             -> catch-up:20s-70s next=70s
        fire s b                             -> b next=80s
        t=101s fire s c                      -> catch-up:80s-100s next=100s
        receive q                            -> b
        ack b                                -> ok
        fire s c                             -> c next=110s
        // The only one that was missed, and not longer ago than the window.
        schedule t q every=1h                -> created
        t=90m fire t d                       -> d next=7301s
        "#,
    );
}

#[test]
fn of_what_was_missed_all_or_none_is_made_up_for() {
    check(
        r#"
        t=0 schedule all q every=10s catchup=all overlap=allow -> created
        schedule none q every=10s catchup=none -> created
        t=40s fire all a                     -> a next=20s
        fire all b                           -> b next=30s
        fire all c                           -> c next=40s
        fire all d                           -> d next=50s
        fire none e                          -> catch-up:10s-40s next=40s
        // On time is what is decided within ten seconds.
        t=50s fire none e                    -> e next=50s
        receive q max=9                      -> a b c d e
        ack e                                -> ok
        t=60001ms fire none f                -> catch-up:50s next=1m
        fire none f                          -> f next=70s
        "#,
    );
}

#[test]
fn what_was_missed_too_long_ago_is_skipped() {
    check(
        r#"
        t=0 schedule s q every=10s catchup=all window=25s -> created
        schedule u q every=1h catchup=all window=0s -> created
        t=1m fire s a                        -> catch-up-window:10s-40s next=40s
        fire s a                             -> a next=50s
        t=10m fire s b                       -> catch-up-window:50s-580s next=580s
        // None is left in the window; the next one is to come.
        schedule r q every=1h window=20s     -> created
        t=100m fire r c                      -> catch-up-window:70m next=130m
        // A window of nothing still lets in what is on time.
        t=120m fire u d                      -> catch-up-window:1h next=2h
        t=7210s fire u d                     -> d next=3h
        t=10811s fire u e                    -> catch-up-window:3h next=4h
        "#,
    );
}

#[test]
fn a_paused_schedule_skips_and_can_be_run() {
    check(
        r#"
        t=0 schedule s q every=10s overlap=allow -> created
        pause schedule s reason=later        -> ok
        pause schedule s reason=later        -> ok
        pause schedule s                     -> ok
        schedules                            -> s next=10s 0/0 paused
        t=10s fire s a                       -> paused:10s next=20s
        t=45s fire s a                       -> paused:20s-40s next=40s
        run s a                              -> a!
        resume schedule s                    -> ok
        fire s b                             -> b next=50s
        run s c                              -> c!
        schedules                            -> s next=50s 3/2
        occurrences s                        -> 45s=c! 40s=b 45s=a! 20s=paused:20s-40s 10s=paused:10s
        audit                                -> schedule-run schedule-resumed schedule-run schedule-paused schedule-put
        "#,
    );
}

#[test]
fn a_queue_that_takes_no_job_is_the_reason() {
    check(
        r#"
        t=0 schedule s q every=10s overlap=allow nocreate -> ! not-found
        queue q depth=1                      -> created 1
        schedule s q every=10s overlap=allow nocreate -> created
        t=10s fire s a                       -> a next=20s
        t=20s fire s b                       -> queue-full:20s next=30s
        run s b                              -> ! full max-depth 2/1
        t=30s fire s b refused=schema-violation -> schema-violation:30s next=40s
        receive q                            -> a
        delete q                             -> ! QueueScheduled
        delete q force                       -> task 1 running 0/0
        t=40s fire s b nocreate              -> not-found:40s next=50s
        t=50s fire s b                       -> b next=1m
        queue q                              -> 2
        t=1m fire s c dedup=k:1h             -> c next=70s
        t=70s fire s d dedup=k:1h            -> deduplicated(c) next=80s
        run s d dedup=k:1h                   -> deduplicated(c)
        t=80s fire s e dedup=k:1h:conflict payload=1 -> duplicate-conflict:80s next=90s
        stats q                              -> ready=2
        "#,
    );
}

#[test]
fn another_definition_never_decides_an_instant_again() {
    check(
        r#"
        t=0 schedule s q every=10s overlap=allow -> created
        t=10s fire s a                       -> a next=20s
        // The clock was set back; what was decided stays so.
        stepclock -9s                        -> 1s
        schedule s q every=9s overlap=allow  -> ! PreconditionFailed
        schedule s q every=9s overlap=allow next=19s -> ok
        t=19s fire s b                       -> b next=28s
        unschedule t                         -> ! ScheduleNotFound
        unschedule s                         -> ok
        unschedule s                         -> ! ScheduleNotFound
        schedules                            ->
        jobs q                               -> a b
        schedule s q every=10s file          -> created
        schedule s q every=5s                -> ! ManagedByFile
        unschedule s                         -> ! ManagedByFile
        schedule s q every=10s               -> ! ManagedByFile
        occurrences s                        ->
        occurrences t                        -> ! ScheduleNotFound
        "#,
    );
}

#[test]
fn the_last_hundred_occurrences_are_kept() {
    let mut play = Play::new(Between::Copy);
    play.line("t=0 schedule s q every=1s");
    play.line("+1s fire s a");
    for _ in 0..OCCURRENCES_KEPT_MAX + 20 {
        assert!(play.line("+1s fire s b").starts_with("overlap(a)"), "the first job is not forgotten");
    }
    let kept = play.line("occurrences s");
    assert_eq!(kept.split(' ').count(), OCCURRENCES_KEPT_MAX);
    assert!(kept.starts_with("121s=") && kept.ends_with("22s=overlap(a)"), "{kept}");
    assert_eq!(play.line("schedules"), "s next=122s 1/120");
}

#[test]
fn schedules_have_limits() {
    let mut play = Play::new(Between::Nothing);
    for n in 0..SCHEDULES_MAX {
        assert_eq!(play.line(&format!("t=0 schedule s{n} q every=1s")), "created");
    }
    assert_eq!(play.line("schedule more q every=1s"), "! TooManySchedules");
    assert_eq!(play.line("schedule s1 q every=2s"), "ok");
    let mut play = Play::new(Between::Nothing);
    let half = "x".repeat(SCHEDULE_BYTES_SUM_MAX / 2);
    assert_eq!(play.line(&format!("t=0 schedule a q every=1s text={half}")), "created");
    assert_eq!(play.line(&format!("schedule b q every=1s text={half}")), "! TooManySchedules");
    assert_eq!(play.line(&format!("schedule a q every=2s text={half}")), "ok");
}
