//! `/v1/hooks`: what other services send becomes jobs.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use recado_contract::gate::Warned;
use recado_contract::job;
use recado_core::{Actor, Command, Enqueue, NewJob, Query, Reply, Source};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::enqueue::refused;
use super::queues::source_word;
use super::{App, answer, body, path_param, unexpected};
use crate::faults::Faults;
use crate::hooks::{Definition, Event, Hook, HookBody, Made, Refused, Secret};
use crate::json;
use crate::limits::{HOOK_BODY_BYTES_MAX, HOOK_TEXT_BYTES_MAX, HOOKS_AT_ONCE_MAX};
use crate::openapi::Everywhere;
use crate::problem::{Code, Problem};
use crate::query::Params;
use crate::time;

/// When what is sent to a hook without a secret is worth another try.
const SECRET_RETRY: std::time::Duration = std::time::Duration::from_secs(60);

/// The `{hook}` of a path: the name of an inbound webhook.
pub(crate) struct Name(Box<str>);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let name = path_param(parts, state, "hook").await?;
        crate::name::check_name(&name).map_err(Problem::name)?;
        Ok(Self(name.into()))
    }
}

/// All inbound webhooks.
#[derive(Serialize, ToSchema)]
#[schema(as = Hooks)]
pub(crate) struct HooksBody {
    /// By name.
    hooks: Vec<ShownBody>,
}

/// An inbound webhook.
#[derive(Serialize, ToSchema)]
#[schema(as = Hook)]
pub(crate) struct ShownBody {
    /// Its name.
    name: String,
    /// Where to send, if the server knows its own address (--public-url); null: `/v1/hooks/{name}` there.
    url: Option<String>,
    /// `file` or `api`.
    source: &'static str,
    /// What was put.
    config: HookBody,
    /// Whether the environment has its secrets. None is ever shown.
    secrets: Vec<SecretBody>,
    /// What keeps it from taking what is sent.
    warnings: Vec<String>,
}

/// Whether a secret is there.
#[derive(Serialize, ToSchema)]
#[schema(as = HookSecret)]
struct SecretBody {
    /// The variable of the server's environment.
    variable: String,
    /// It holds a secret.
    set: bool,
}

/// A hook that is gone.
#[derive(Serialize, ToSchema)]
#[schema(as = HookRemoved)]
pub(crate) struct RemovedBody {
    /// Its name.
    name: Box<str>,
    /// It is gone.
    deleted: bool,
}

/// What became of an event.
#[derive(Serialize, ToSchema)]
#[schema(as = HookAnswer)]
pub(crate) struct TakenBody {
    /// Its job; null: there is none.
    id: Option<String>,
    /// It came before, and this is the job of then.
    deduplicated: bool,
    /// Why there is no job: `ping`, or `only`.
    #[serde(skip_serializing_if = "Option::is_none")]
    ignored: Option<&'static str>,
}

/// The answer that Slack waits for.
#[derive(Serialize, ToSchema)]
#[schema(as = HookChallenge)]
pub(crate) struct ChallengeBody {
    /// As it came.
    challenge: String,
}

impl ShownBody {
    fn new(app: &App, hook: &Hook) -> Self {
        let secret =
            |secret: &Secret| SecretBody { variable: secret.variable().to_owned(), set: secret.fault().is_none() };
        Self {
            name: hook.name.to_string(),
            url: app.public.as_ref().map(|public| format!("{}/v1/hooks/{}", public.origin(), hook.name)),
            source: source_word(hook.source),
            config: hook.config.clone(),
            secrets: hook.secrets.iter().map(secret).collect(),
            warnings: hook.secrets.iter().filter_map(Secret::fault).map(warning).collect(),
        }
    }
}

fn warning((variable, why): (&str, &str)) -> String {
    format!(
        "the variable {variable} of this server's environment holds no secret ({why}): set it and start the server again"
    )
}

/// List inbound webhooks by name.
#[utoipa::path(
    get, path = "/v1/hooks", operation_id = "listHooks", tag = "hooks",
    responses((status = 200, description = "all of them", body = HooksBody), Everywhere),
)]
pub(crate) async fn list(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let all = app.hooks.all(&app.shard).await?;
    let hooks = all.values().flatten().map(|hook| ShownBody::new(&app, hook)).collect();
    Ok(answer(StatusCode::OK, &HooksBody { hooks }))
}

/// Look at an inbound webhook.
#[utoipa::path(
    get, path = "/v1/hooks/{hook}", operation_id = "getHook", tag = "hooks",
    params(("hook" = String, Path, description = "name of the hook")),
    responses(
        (status = 200, description = "as it is now", body = ShownBody),
        (status = 404, description = "not-found", body = crate::problem::Body, content_type = "application/problem+json"),
        Everywhere,
    ),
)]
pub(crate) async fn get(State(app): State<App>, Name(name): Name, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let hook = app.hooks.get(&app.shard, &name).await?;
    Ok(answer(StatusCode::OK, &ShownBody::new(&app, &hook)))
}

/// Create an inbound webhook or replace it.
#[utoipa::path(
    put, path = "/v1/hooks/{hook}", operation_id = "putHook", tag = "hooks",
    params(("hook" = String, Path, description = "name of the hook")),
    request_body(content = HookBody, content_type = "application/json"),
    responses(
        (status = 200, description = "replaced", body = ShownBody),
        (status = 201, description = "created", body = ShownBody),
        (status = 404, description = "not-found: its queue, where queues are not created by the first job", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 409, description = "managed-by-file", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 429, description = "queue-full: too many hooks", body = crate::problem::Body, content_type = "application/problem+json"),
        Everywhere,
    ),
)]
pub(crate) async fn put(State(app): State<App>, Name(name): Name, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let body = body::json(request).await?;
    let raw: &RawValue = json::parse(&body)?;
    json::check_free(raw, "").map_err(|error| Problem::invalid(vec![error]))?;
    let value: Value = json::parse(&body)?;
    let (config, definition) = HookBody::read(&value).map_err(Problem::invalid)?;
    check_secrets(&definition)?;
    if !app.create_queues {
        app.shard.query(Query::Queue(definition.queue.clone())).await?;
    }
    let text = serde_json::to_string(&config).map_err(|error| unexpected(&error))?;
    if text.len() > HOOK_TEXT_BYTES_MAX {
        return Err(Problem::field("", format!("a hook has at most {HOOK_TEXT_BYTES_MAX} bytes")));
    }
    let put =
        recado_core::PutHook { hook: name.clone(), text: text.into(), source: Source::Api, actor: Actor::default() };
    match app.shard.call(Command::PutHook(put)).await? {
        Reply::HookPut { created } => {
            let hook = app.hooks.get(&app.shard, &name).await?;
            let status = if created { StatusCode::CREATED } else { StatusCode::OK };
            Ok(answer(status, &ShownBody::new(&app, &hook)))
        }
        other => Err(unexpected(&other)),
    }
}

/// A hook that could prove nothing is not put: whoever puts it learns it, and not the sender.
fn check_secrets(definition: &Definition) -> Result<(), Problem> {
    let mut faults = Faults::default();
    for (index, secret) in definition.secrets().iter().enumerate() {
        if let Some(fault) = secret.fault() {
            faults.at(&format!("/secrets/{index}"), warning(fault));
        }
    }
    faults.finish()
}

/// Remove an inbound webhook; the jobs that it made stay.
#[utoipa::path(
    delete, path = "/v1/hooks/{hook}", operation_id = "removeHook", tag = "hooks",
    params(("hook" = String, Path, description = "name of the hook")),
    responses(
        (status = 200, description = "it is gone", body = RemovedBody),
        (status = 404, description = "not-found", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 409, description = "managed-by-file", body = crate::problem::Body, content_type = "application/problem+json"),
        Everywhere,
    ),
)]
pub(crate) async fn delete(State(app): State<App>, Name(name): Name, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let actor = Actor::default();
    app.shard.call(Command::RemoveHook { hook: name.clone(), source: Source::Api, actor }).await?;
    Ok(answer(StatusCode::OK, &RemovedBody { name, deleted: true }))
}

/// What can be answered to a sender.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = HookTaken)]
#[allow(dead_code)] // only described
pub(crate) enum SentBody {
    Taken(TakenBody),
    Challenge(ChallengeBody),
}

/// Send an event. It needs no key of this server, but the signature that the hook's scheme asks for.
#[utoipa::path(
    post, path = "/v1/hooks/{hook}", operation_id = "sendToHook", tag = "hooks",
    params(("hook" = String, Path, description = "name of the hook")),
    request_body(content = Object, content_type = "application/json", description = "as the sender has signed it, at most 4 MiB"),
    responses(
        (status = 200, description = "its job is durable, or it needs none", body = SentBody),
        (status = 401, description = "unauthenticated: no signature, a wrong one, or an old one", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 404, description = "not-found", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 422, description = "secret-in-payload, schema-violation, unknown-type-version", body = crate::problem::Body, content_type = "application/problem+json"),
        Everywhere,
    ),
)]
pub(crate) async fn send(State(app): State<App>, Name(name): Name, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let hook = app.hooks.get(&app.shard, &name).await?;
    let _place = Arc::clone(&app.hook_places).try_acquire_owned().map_err(|_| {
        Problem::new(Code::Overloaded, format!("{HOOKS_AT_ONCE_MAX} events are on their way in; send it again"))
    })?;
    match take(&hook, request).await.inspect_err(|problem| app.rejected.count(&hook.definition.queue, problem))? {
        Made::Challenge(challenge) => Ok(answer(StatusCode::OK, &ChallengeBody { challenge })),
        Made::Ignored(why) => {
            Ok(answer(StatusCode::OK, &TakenBody { id: None, deduplicated: false, ignored: Some(why) }))
        }
        Made::Job(job) => enqueue(&app, &hook, *job).await.map_err(later),
    }
}

/// Proves who sent it, then reads it.
async fn take(hook: &Hook, request: Request) -> Result<Made, Problem> {
    let definition = &hook.definition;
    let (parts, sent) = request.into_parts();
    if hook.secrets.iter().all(|secret| secret.fault().is_some()) {
        let detail = "this server's environment lacks the secret of the hook; send it again later";
        return Err(Problem::new(Code::Overloaded, detail).retry_after(SECRET_RETRY));
    }
    // Without a signature nothing of the body is read.
    let claim = definition.scheme.claim(&parts.headers).map_err(unproven)?;
    body::expect_json(&parts.headers)?;
    let sent = body::read(sent, HOOK_BODY_BYTES_MAX).await?;
    claim.verify(&hook.secrets, &sent, time::now() / 1_000, definition.tolerance_s).map_err(unproven)?;
    Event::read(&parts.headers, &sent)?.make(hook)
}

fn unproven(why: Refused) -> Problem {
    Problem::new(
        Code::Unauthenticated,
        match why {
            Refused::Missing => "there is no signature as the scheme of this hook asks for",
            Refused::Wrong => "the signature is wrong: it was made with another secret, or the body was changed",
            Refused::Old => "the signature is too old, or its time has not come: look at the clocks, or sign again",
        },
    )
}

async fn enqueue(app: &App, hook: &Hook, new: NewJob) -> Result<Response, Problem> {
    let queue = &hook.definition.queue;
    let (mut faults, mut warned) = (Faults::default(), Warned::default());
    job::check(&new, time::now(), &mut faults);
    app.gate.policy(queue).await?.check(&new, &mut faults, &mut warned);
    faults.finish().inspect_err(|problem| app.rejected.count(queue, problem))?;
    let enqueue = Enqueue { queue: queue.clone(), create: app.create_queues, jobs: vec![new], ..Enqueue::default() };
    let (saved, _) = app.shard.enqueue(enqueue).await.map_err(|error| refused(app, queue, error).single())?;
    let Some(job) = saved.jobs.first() else { return Err(unexpected(&"an enqueue without its job")) };
    let deduplicated = job.duplicate.is_some();
    if !deduplicated {
        app.warned.add_taken(queue, warned);
    }
    Ok(answer(StatusCode::OK, &TakenBody { id: Some(job.id.to_string()), deduplicated, ignored: None }))
}

/// A sender tries again what is refused by 503; what it does after 429 or 507 it does not say.
fn later(problem: Problem) -> Problem {
    if !matches!(problem.status(), 429 | 507) {
        return problem;
    }
    let busy = Problem::new(Code::Overloaded, problem.detail());
    match problem.retry_after_ms() {
        Some(ms) => busy.retry_after(std::time::Duration::from_millis(ms)),
        None => busy,
    }
}
