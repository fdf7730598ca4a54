//! What a queue asks of its jobs, checked in one place for every edge: no secrets, a schema, a business id, a key.
//!
//! Settings and schemas are asked of the shard once and kept until it says that they have changed
//! ([`recado_shard::Handle::config_version`]), so that an enqueue costs no question. A job that comes in while its queue is
//! being configured is checked by what held before or by what holds after.
//!
//! Results, progress and error messages are not refused: what a worker has done is done. They are masked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use recado_core::{Answer, GuardAction, GuardUse, NewJob, NewRelative, OnFinding, Outcome, Query, Settings};
use recado_shard::{Error, Handle};

use crate::faults::{Faults, Refused};
use crate::job::relatives;
use crate::json::escape;
use crate::limits::QUEUES_KNOWN_MAX;
use crate::problem::FieldError;
use crate::scan::{Finding, Kind, Wanted, mask_json, mask_text, scan_json, scan_text};
use crate::schema::Schemas;

/// Rule of what must be there.
const REQUIRED: &str = "required";

/// Stands for any one part of an allowed pointer.
const ANY: &str = "*";

/// Schemas by type and version.
type Types = HashMap<Box<str>, HashMap<u32, Arc<str>>>;

/// Keeps what the shard's queues ask for.
pub struct Gate {
    shard: Handle,
    schemas: Arc<Schemas>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// As of when; see [`Handle::config_version`].
    at: Option<u64>,
    types: Arc<Types>,
    queues: HashMap<Box<str>, Arc<Policy>>,
}

impl Gate {
    /// Before a shard. `schemas` are those by which its bulk actions check what they patch.
    #[must_use]
    pub fn new(shard: Handle, schemas: Arc<Schemas>) -> Self {
        Self { shard, schemas, known: Mutex::default() }
    }

    /// What holds for a queue now, also for one that is still to be made.
    ///
    /// # Errors
    /// [`Error`] when the shard does not answer.
    pub async fn policy(&self, queue: &str) -> Result<Arc<Policy>, Error> {
        let at = self.shard.config_version();
        let types = match self.known(at, queue) {
            (Some(policy), _) => return Ok(policy),
            (None, Some(types)) => types,
            (None, None) => self.ask_types().await?,
        };
        let settings = match self.shard.query(Query::Settings(queue.into())).await? {
            Answer::Settings(settings) => *settings,
            other => unreachable!("asked for settings, not {other:?}"),
        };
        let policy = Arc::new(Policy { settings, types: Arc::clone(&types), schemas: Arc::clone(&self.schemas) });
        self.keep(at, types, queue, &policy);
        Ok(policy)
    }

    /// What holds for a queue, and for those that jobs for it bring other jobs to.
    ///
    /// # Errors
    /// [`Error`] when the shard does not answer.
    pub async fn policies(&self, queue: &str, jobs: &[NewJob]) -> Result<Policies, Error> {
        let mut others = HashMap::new();
        let mut left: Vec<&NewRelative> = jobs.iter().flat_map(NewJob::relatives).collect();
        while let Some(relative) = left.pop() {
            left.extend(relative.job.relatives());
            if let Some(name) = relative.queue.as_ref().filter(|name| !others.contains_key(*name)) {
                others.insert(name.clone(), self.policy(name).await?);
            }
        }
        Ok(Policies { own: self.policy(queue).await?, others })
    }

    fn known(&self, at: u64, queue: &str) -> (Option<Arc<Policy>>, Option<Arc<Types>>) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.at != Some(at) {
            return (None, None);
        }
        (known.queues.get(queue).cloned(), Some(Arc::clone(&known.types)))
    }

    fn keep(&self, at: u64, types: Arc<Types>, queue: &str, policy: &Arc<Policy>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.at != Some(at) {
            *known = Known { at: Some(at), types, queues: HashMap::new() };
        }
        // Names that no queue has must not grow it.
        if known.queues.len() >= QUEUES_KNOWN_MAX {
            known.queues.clear();
        }
        known.queues.insert(queue.into(), Arc::clone(policy));
    }

    async fn ask_types(&self) -> Result<Arc<Types>, Error> {
        let mut types = Types::new();
        match self.shard.query(Query::Schemas).await? {
            Answer::Schemas(schemas) => {
                for schema in schemas {
                    types.entry(schema.kind).or_default().insert(schema.version, schema.text);
                }
            }
            other => unreachable!("asked for schemas, not {other:?}"),
        }
        Ok(Arc::new(types))
    }
}

/// Jobs that were taken although something in them should not be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warned {
    /// Jobs with secrets.
    pub secrets: u64,
    /// Jobs with data about people.
    pub personal: u64,
}

impl Warned {
    /// The counts by their words.
    #[must_use]
    pub fn by_reason(self) -> [(&'static str, u64); 2] {
        [(Refused::Secret.reason(), self.secrets), (Refused::Personal.reason(), self.personal)]
    }
}

/// What holds for the queues of one enqueue.
pub struct Policies {
    own: Arc<Policy>,
    /// Queues of children and of what ends batches.
    others: HashMap<Box<str>, Arc<Policy>>,
}

impl Policies {
    /// That of the queue of the request.
    #[must_use]
    pub fn own(&self) -> &Policy {
        &self.own
    }

    /// Checks a job that is well formed, and all that are enqueued with it, each by what its queue asks.
    pub fn check(&self, job: &NewJob, faults: &mut Faults, warned: &mut Warned) {
        self.visit(&self.own, job, faults, &mut |policy, job, faults| policy.check(job, faults, warned));
    }

    /// Shows `look` a job and all that are enqueued with it, with what holds for the queue of each.
    pub fn visit(
        &self,
        policy: &Policy,
        job: &NewJob,
        faults: &mut Faults,
        look: &mut dyn FnMut(&Policy, &NewJob, &mut Faults),
    ) {
        look(policy, job, faults);
        for (path, relative) in relatives(job) {
            let policy = relative.queue.as_ref().and_then(|name| self.others.get(name)).map_or(policy, |it| it);
            faults.within(&path, |faults| self.visit(policy, &relative.job, faults, look));
        }
    }
}

/// What holds for a queue.
pub struct Policy {
    settings: Settings,
    types: Arc<Types>,
    schemas: Arc<Schemas>,
}

impl Policy {
    /// The queue's settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Checks a job that is well formed.
    pub fn check(&self, job: &NewJob, faults: &mut Faults, warned: &mut Warned) {
        let is_missing = |pointer: &str| FieldError {
            pointer: pointer.to_owned(),
            rule: Some(REQUIRED.to_owned()),
            message: "is missing; this queue takes no job without".to_owned(),
            ..FieldError::default()
        };
        if self.settings.require_business_id && job.business_id.is_none() {
            faults.refuse(Refused::Schema, is_missing("/businessId"));
        }
        if self.settings.require_key && job.idempotency_key.is_none() {
            faults.refuse(Refused::Schema, is_missing("/idempotencyKey"));
        }
        self.check_schema(&job.kind, job.schema_version, &job.payload, faults);
        let wanted = self.wanted();
        let mut found = scan_json(&job.payload, "/payload", wanted);
        if let Some(headers) = &job.headers {
            found.extend(scan_json(headers, "/headers", wanted));
        }
        let keys = [
            ("/businessId", job.business_id.as_deref()),
            ("/group", job.group.as_deref()),
            ("/dedup/key", job.dedup.as_ref().map(|dedup| &*dedup.key)),
            ("/idempotencyKey", job.idempotency_key.as_deref()),
        ];
        found.extend(keys.iter().filter_map(|(at, key)| Some(scan_text((*key)?, at, wanted))).flatten());
        self.judge(found, "", faults, warned);
    }

    /// Checks another payload of a job that is there.
    pub fn check_payload(&self, kind: &str, version: u32, payload: &[u8], faults: &mut Faults, warned: &mut Warned) {
        self.check_schema(kind, version, payload, faults);
        self.judge(scan_json(payload, "/payload", self.wanted()), "", faults, warned);
    }

    /// Checks a merge patch for payloads, which stands at `pointer` in its request.
    pub fn check_patch(&self, patch: &[u8], pointer: &str, faults: &mut Faults, warned: &mut Warned) {
        self.judge(scan_json(patch, "/payload", self.wanted()), pointer, faults, warned);
    }

    /// Checks a payload by its schema alone.
    pub fn check_schema(&self, kind: &str, version: u32, payload: &[u8], faults: &mut Faults) {
        let Some(text) = self.types.get(kind).and_then(|versions| versions.get(&version)) else {
            if self.settings.require_schema {
                faults.refuse(Refused::UnknownVersion, self.unknown_version(kind, version));
            }
            return;
        };
        let found = self.schemas.get(text).map(|schema| schema.faults(payload, "/payload"));
        found.into_iter().flatten().for_each(|error| faults.refuse(Refused::Schema, error));
    }

    fn unknown_version(&self, kind: &str, version: u32) -> FieldError {
        let known = self.types.get(kind);
        let pointer = if known.is_some() { "/schemaVersion" } else { "/type" };
        let nearest = crate::nearest::nearest(kind, self.types.keys().map(|kind| &**kind)).map(str::to_owned);
        FieldError {
            pointer: pointer.to_owned(),
            rule: Some("requireSchema".to_owned()),
            message: format!(
                "`{kind}` version {version} has no schema; put it first, or correct type and schemaVersion"
            ),
            nearest: nearest.filter(|_| known.is_none()),
            ..FieldError::default()
        }
    }

    fn wanted(&self) -> Wanted {
        let looks = |on: OnFinding| on != OnFinding::Off;
        Wanted { secrets: looks(self.settings.secrets), personal: looks(self.settings.personal_data) }
    }

    /// Refuses or counts what was found. `instead` is what stands for `/payload` in the request.
    fn judge(&self, found: Vec<Finding>, instead: &str, faults: &mut Faults, warned: &mut Warned) {
        let mut kinds = [false; 2];
        for finding in found.into_iter().filter(|finding| !self.is_allowed(&finding.pointer)) {
            let on = match finding.kind {
                Kind::Secret => self.settings.secrets,
                Kind::Personal => self.settings.personal_data,
            };
            if on == OnFinding::Reject {
                let (refused, error) = refusal(&finding, instead);
                faults.refuse(refused, error);
            } else {
                kinds[finding.kind as usize] = true;
            }
        }
        warned.secrets += u64::from(kinds[Kind::Secret as usize]);
        warned.personal += u64::from(kinds[Kind::Personal as usize]);
    }

    fn is_allowed(&self, pointer: &str) -> bool {
        let fits = |allowed: &str| {
            allowed.split('/').count() == pointer.split('/').count()
                && allowed.split('/').zip(pointer.split('/')).all(|(allowed, part)| allowed == ANY || allowed == part)
        };
        self.settings.allow.iter().any(|allowed| fits(allowed))
    }
}

fn refusal(finding: &Finding, instead: &str) -> (Refused, FieldError) {
    let (refused, what) = match finding.kind {
        Kind::Secret => (Refused::Secret, "a secret: keep it where secrets are kept and send its name"),
        Kind::Personal => (Refused::Personal, "data about a person: send the id of the record that has it"),
    };
    let allow = serde_json::to_string(&any_entry(&finding.pointer)).unwrap_or_default();
    let message = format!(
        "looks like {what}; if this field may hold it, let it pass with allow=[{allow}] in the queue's payload options"
    );
    let pointer = match finding.pointer.strip_prefix("/payload") {
        Some(rest) if !instead.is_empty() => format!("{instead}{rest}"),
        _ => finding.pointer.clone(),
    };
    (refused, FieldError { pointer, rule: Some(finding.rule.to_owned()), message, ..FieldError::default() })
}

/// The pointer for all entries of its arrays.
fn any_entry(pointer: &str) -> String {
    let part = |part: &str| {
        let is_index = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if is_index { ANY.to_owned() } else { part.to_owned() }
    };
    pointer.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// Checks an `allow` list.
pub fn check_allow(allow: &[String], pointer: &str, faults: &mut Faults) {
    const ENTRIES_MAX: usize = 100;
    const ENTRY_BYTES_MAX: usize = 256;
    if allow.len() > ENTRIES_MAX {
        faults.at(pointer, format!("at most {ENTRIES_MAX} fields"));
    }
    for (index, entry) in allow.iter().enumerate() {
        if !entry.starts_with('/') || entry.len() > ENTRY_BYTES_MAX {
            let message = format!("a JSON pointer from the job, as in \"/payload/{}\"", escape("resetToken"));
            faults.at(&format!("{pointer}/{index}"), message);
        }
    }
}

/// Masks what a settle stores of a worker's words.
pub fn mask(outcome: &mut Outcome) {
    match outcome {
        Outcome::Ack { result: Some(json) } | Outcome::Extend { progress: Some(json), .. } => mask_bytes(json),
        Outcome::Fail(failure) => {
            mask_boxed(&mut failure.kind);
            mask_boxed(&mut failure.message);
        }
        Outcome::Release { reason: Some(reason), .. } => mask_boxed(reason),
        Outcome::Ack { .. } | Outcome::Extend { .. } | Outcome::Release { .. } => {}
    }
}

/// Masks what a guard keeps as the result of its work.
pub fn mask_guard(wanted: &mut GuardUse) {
    if let GuardAction::Complete { result: Some(json) } = &mut wanted.action {
        mask_bytes(json);
    }
}

fn mask_bytes(json: &mut Vec<u8>) {
    if let std::borrow::Cow::Owned(masked) = mask_json(json) {
        *json = masked;
    }
}

fn mask_boxed(text: &mut Box<str>) {
    if let std::borrow::Cow::Owned(masked) = mask_text(text) {
        *text = masked.into();
    }
}
