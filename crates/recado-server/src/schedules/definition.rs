//! What a schedule is, as JSON: what people put, what is kept, and what it means.

use recado_contract::job;
use recado_contract::schedule::{Dst, Given, Timing, zone_name};
use recado_core::{CatchUp, NewJob, Overlap, ScheduleOptions, When};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::faults::Faults;
use crate::http::new_job::NewJobBody;
use crate::limits::{BATCH_JOBS_MAX, DELAY_MS_MAX};
use crate::problem::{FieldError, Problem};
use crate::{duration, json, time};

const WINDOW_MS_DEFAULT: u64 = 3_600_000;

/// Headers of a scheduled job that say where it comes from.
const HEADER_SCHEDULE: &str = "recado-schedule";
const HEADER_SCHEDULED_FOR: &str = "recado-scheduled-for";

/// A schedule: a job, and when it is made.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ScheduleConfig)]
pub(crate) struct ScheduleBody<'a> {
    /// The queue that takes its jobs.
    queue: Box<str>,
    /// The job of each occurrence, as it would be enqueued; without `runAt`.
    #[serde(borrow)]
    #[schema(value_type = NewJobBody)]
    job: &'a RawValue,
    /// 5 fields (minute, hour, day of the month, month, weekday), or 6 with the second first.
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<Box<str>>,
    /// In equal intervals instead, from when it was put; from 1s.
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<Box<str>>,
    /// Name of the IANA database for `cron`; UTC by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_zone: Option<Box<str>>,
    /// Where the clock is moved, for a `cron` with fixed hours; `once` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    dst: Option<DstWord>,
    /// What becomes of occurrences that were missed; `one` by default.
    catch_up: Option<CatchUpWord>,
    /// Those that were missed longer ago are skipped; 1h by default.
    catch_up_window: Option<Box<str>>,
    /// While the job of an earlier occurrence is unfinished; `skip` by default.
    overlap: Option<OverlapWord>,
}

/// What holds where the clock is moved.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Dst)]
enum DstWord {
    /// A time that does not come is made up for after the gap; one that comes twice counts once.
    Once,
    /// A time that does not come is left out; one that comes twice counts once.
    Skip,
    /// A time that does not come is made up for after the gap; one that comes twice counts twice.
    Both,
}

/// What becomes of missed occurrences.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = CatchUp)]
enum CatchUpWord {
    /// The latest makes its job.
    One,
    /// None does.
    None,
    /// Each does.
    All,
}

/// What becomes of an occurrence beside an unfinished job.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Overlap)]
enum OverlapWord {
    /// It is skipped.
    Skip,
    /// It makes its job.
    Allow,
}

/// A definition that was understood.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    /// What is kept of it.
    pub(crate) options: ScheduleOptions,
    /// When it is due.
    pub(crate) timing: Timing,
    /// Its job, without what each occurrence adds.
    job: NewJob,
}

impl Definition {
    /// Reads and checks what somebody put under `name`.
    pub(crate) fn read(name: &str, body: &[u8], now: u64) -> Result<Self, Problem> {
        let given: ScheduleBody<'_> = json::parse(body)?;
        json::check_free(json::parse(body)?, "").map_err(|error| Problem::invalid(vec![error]))?;
        let mut faults = Faults::default();
        faults.check_name("/queue", &given.queue);
        let timing = given.timing(now, &mut faults);
        let window_ms = window(given.catch_up_window.as_deref(), &mut faults);
        let job = read_job(given.job, name, now).map_err(in_job);
        let own = faults.finish();
        match (timing, job, own) {
            (Some(timing), Ok(job), Ok(())) => Ok(Self { options: given.kept(window_ms), timing, job }),
            (_, Err(job), Err(own)) => Err(Problem::invalid([own.errors(), job.errors()].concat())),
            (_, Err(problem), Ok(())) | (_, Ok(_), Err(problem)) => Err(problem),
            (None, Ok(_), Ok(())) => Err(Problem::field("", "it is not said when")),
        }
    }

    /// Reads what was kept of one, which was checked when it was put.
    pub(crate) fn kept(text: &str, now: u64) -> Result<Self, Problem> {
        let given: ScheduleBody<'_> = json::parse(text.as_bytes())?;
        let mut faults = Faults::default();
        let timing = given.timing(now, &mut faults);
        let window_ms = window(given.catch_up_window.as_deref(), &mut faults);
        let job = json::parse::<NewJobBody<'_>>(given.job.get().as_bytes())?.check(now, &mut faults);
        let timing = timing.ok_or_else(|| Problem::invalid(faults.into_errors()))?;
        Ok(Self { options: given.kept(window_ms), timing, job })
    }

    /// The job of the occurrence at an instant.
    pub(crate) fn job(&self, schedule: &str, at: u64) -> NewJob {
        let headers = headers(self.job.headers.as_deref(), schedule, at);
        NewJob { headers: Some(headers), ..self.job.clone() }
    }
}

impl ScheduleBody<'_> {
    fn timing(&self, now: u64, faults: &mut Faults) -> Option<Timing> {
        let given = Given {
            cron: self.cron.as_deref(),
            every: self.every.as_deref(),
            time_zone: self.time_zone.as_deref(),
            dst: self.dst.map(|word| match word {
                DstWord::Once => Dst::Once,
                DstWord::Skip => Dst::Skip,
                DstWord::Both => Dst::Both,
            }),
        };
        Timing::read(&given, now, faults)
    }

    /// What is kept: every option with its value, so that it means the same whatever the defaults will be.
    fn kept(self, window_ms: u64) -> ScheduleOptions {
        let is_cron = self.cron.is_some();
        let zone = self.time_zone.as_deref().unwrap_or("UTC");
        let whole = ScheduleBody {
            time_zone: is_cron.then(|| zone_name(zone).unwrap_or_else(|_| zone.to_owned()).into()),
            dst: is_cron.then_some(self.dst.unwrap_or(DstWord::Once)),
            catch_up: self.catch_up.or(Some(CatchUpWord::One)),
            catch_up_window: Some(duration::text(window_ms).into()),
            overlap: self.overlap.or(Some(OverlapWord::Skip)),
            ..self
        };
        ScheduleOptions {
            text: serde_json::to_string(&whole).unwrap_or_default().into(),
            queue: whole.queue,
            overlap: match whole.overlap {
                Some(OverlapWord::Allow) => Overlap::Allow,
                Some(OverlapWord::Skip) | None => Overlap::Skip,
            },
            catch_up: match whole.catch_up {
                Some(CatchUpWord::None) => CatchUp::None,
                Some(CatchUpWord::All) => CatchUp::All,
                Some(CatchUpWord::One) | None => CatchUp::One,
            },
            catch_up_window_ms: window_ms,
        }
    }
}

fn window(text: Option<&str>, faults: &mut Faults) -> u64 {
    let Some(text) = text else { return WINDOW_MS_DEFAULT };
    match duration::parse(text) {
        Ok(ms) => {
            faults.time_range("/catchUpWindow", Some(ms), 0, DELAY_MS_MAX);
            ms
        }
        Err(message) => {
            faults.at("/catchUpWindow", message);
            WINDOW_MS_DEFAULT
        }
    }
}

/// Reads a job and checks it, also as an occurrence makes it.
fn read_job(raw: &RawValue, name: &str, now: u64) -> Result<NewJob, Problem> {
    let mut faults = Faults::default();
    let job = json::parse::<NewJobBody<'_>>(raw.get().as_bytes())?.check(now, &mut faults);
    if matches!(job.when, When::At(_)) {
        faults.at("/runAt", "leave it out: the schedule says when; a delay is counted from each occurrence");
    }
    let is_taken = |header: &&str| has_member(job.headers.as_deref(), header);
    if let Some(header) = [HEADER_SCHEDULE, HEADER_SCHEDULED_FOR].into_iter().find(is_taken) {
        faults.at("/headers", format!("leave `{header}` out: each occurrence sets it"));
    }
    let batch = job.ties.as_ref().and_then(|ties| ties.batch.as_ref());
    if batch.is_some_and(|batch| batch.on_complete.is_none()) {
        faults.at("/batch/onComplete", "is missing: an occurrence has to be able to begin its batch");
    }
    if job.family_size() > BATCH_JOBS_MAX {
        faults.at("/children", format!("an occurrence makes at most {BATCH_JOBS_MAX} jobs, children included"));
    }
    faults.finish()?;
    let mut faults = Faults::default();
    let made = NewJob { headers: Some(headers(job.headers.as_deref(), name, now)), ..job.clone() };
    job::check(&made, now, &mut faults);
    faults.finish().map(|()| job)
}

fn has_member(object: Option<&[u8]>, key: &str) -> bool {
    let read = object.and_then(|bytes| serde_json::from_slice::<serde_json::Value>(bytes).ok());
    read.is_some_and(|value| value.get(key).is_some())
}

/// What the producer of a schedule gave, byte for byte, and where the job comes from. Names and times need no escapes.
fn headers(given: Option<&[u8]>, schedule: &str, at: u64) -> Vec<u8> {
    let own = format!("\"{HEADER_SCHEDULE}\":\"{schedule}\",\"{HEADER_SCHEDULED_FOR}\":\"{}\"}}", time::text(at));
    let given = given.unwrap_or(b"{}").trim_ascii();
    let open = given.strip_suffix(b"}").unwrap_or(b"{").trim_ascii_end();
    let comma: &[u8] = if open == b"{" { b"" } else { b"," };
    [open, comma, own.as_bytes()].concat()
}

/// Where a fault of the job is in its schedule.
pub(crate) fn in_job(problem: Problem) -> Problem {
    let moved = |error: &FieldError| FieldError { pointer: format!("/job{}", error.pointer), ..error.clone() };
    let errors: Vec<FieldError> = problem.errors().iter().map(moved).collect();
    if errors.is_empty() {
        return problem;
    }
    if problem.status() == 400 { Problem::invalid(errors) } else { problem.with_errors(errors).single() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Definition, Problem> {
        Definition::read("nightly", text.as_bytes(), 1_780_000_000_000)
    }

    #[test]
    fn what_is_kept_has_every_option_and_means_the_same() {
        let put = r#"{"queue":"q","job":{"type":"t", "payload":{"b":1,"a":2}},"cron":"0 8 * * MON","timeZone":"europe/berlin"}"#;
        let definition = read(put).unwrap();
        let text = &definition.options.text;
        assert_eq!(
            **text,
            *r#"{"queue":"q","job":{"type":"t", "payload":{"b":1,"a":2}},"cron":"0 8 * * MON","timeZone":"Europe/Berlin","dst":"once","catchUp":"one","catchUpWindow":"1h","overlap":"skip"}"#
        );
        assert_eq!(read(text).unwrap().options, definition.options);
        assert_eq!(Definition::kept(text, 0).unwrap().options, definition.options);
        let every =
            read(r#"{"queue":"q","job":{"type":"t"},"every":"90s","catchUp":"all","overlap":"allow"}"#).unwrap();
        let rest = r#""every":"90s","catchUp":"all","catchUpWindow":"1h","overlap":"allow"}"#;
        assert!(every.options.text.ends_with(rest), "{}", every.options.text);
    }

    #[test]
    fn a_job_says_where_it_comes_from() {
        for (given, expected) in [
            ("", r#"{"recado-schedule":"nightly","recado-scheduled-for":"1970-01-01T00:00:00.000Z"}"#),
            (r#","headers":{}"#, r#"{"recado-schedule":"nightly","recado-scheduled-for":"1970-01-01T00:00:00.000Z"}"#),
            (
                r#","headers":{ "a" : 1 }"#,
                r#"{ "a" : 1,"recado-schedule":"nightly","recado-scheduled-for":"1970-01-01T00:00:00.000Z"}"#,
            ),
        ] {
            let definition = read(&format!(r#"{{"queue":"q","job":{{"type":"t"{given}}},"every":"1m"}}"#)).unwrap();
            let headers = definition.job("nightly", 0).headers.unwrap();
            assert_eq!(String::from_utf8(headers).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let many: Vec<String> = (0..31).map(|n| format!("\"h{n}\":1")).collect();
        let many = format!(r#"{{"queue":"q","job":{{"type":"t","headers":{{{}}}}},"every":"1m"}}"#, many.join(","));
        for (put, pointers) in [
            (r#"{"job":{"type":"t"},"every":"1m"}"#, "/queue"),
            (r#"{"queue":"q","every":"1m"}"#, "/job"),
            (r#"{"queue":"q q","job":{"type":"t"},"every":"1m"}"#, "/queue"),
            (r#"{"queue":"q","job":{"type":"t"}}"#, "/cron"),
            (r#"{"queue":"q","job":{"type":"t"},"cron":"x"}"#, "/cron"),
            (r#"{"queue":"q","job":{"type":"t"},"every":"x","catchUpWindow":"y"}"#, "/every /catchUpWindow"),
            (r#"{"queue":"q","job":{"type":"t"},"every":"1m","catchUpWindow":"366d"}"#, "/catchUpWindow"),
            (r#"{"queue":"q","job":{"type":"t"},"every":"1m","catchup":"one"}"#, "/catchup"),
            (r#"{"queue":"q","job":{"type":"t"},"every":"1m","overlap":"yes"}"#, "/overlap"),
            (r#"{"queue":"q","job":{"kind":"t"},"every":"x"}"#, "/every /job/kind"),
            (r#"{"queue":"q","job":{"type":"t","priority":256},"every":"1m"}"#, "/job/priority"),
            (r#"{"queue":"q","job":{"type":"t","payload":{"a":1,"a":2}},"every":"1m"}"#, "/job/payload/a"),
            (r#"{"queue":"q","job":{"type":"t","runAt":"2026-06-02T00:00:00Z"},"every":"1m"}"#, "/job/runAt"),
            (r#"{"queue":"q","job":{"type":"t","headers":{"recado-schedule":1}},"every":"1m"}"#, "/job/headers"),
            (many.as_str(), "/job/headers"),
            (r#"{"queue":"q","job":{"type":"t","batch":{"id":"b"}},"every":"1m"}"#, "/job/batch/onComplete"),
        ] {
            let problem = read(put).unwrap_err();
            let found: Vec<&str> = problem.errors().iter().map(|error| error.pointer.as_str()).collect();
            assert_eq!(found.join(" "), pointers, "{put}: {problem:?}");
        }
    }
}
