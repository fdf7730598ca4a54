//! `/v1/types`: the schemas of job types, by version.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use recado_contract::schema::{SCHEMA_BYTES_MAX, Schema};
use recado_core::{Actor, Answer, Command, PutSchema, Query, Reply, Source, TypeView, VersionView};
use serde::Serialize;
use utoipa::ToSchema;

use super::queues::source_word;
use super::{App, answer, body, path_param, unexpected};
use crate::json;
use crate::limits::SCHEMA_VERSION_MAX;
use crate::openapi::Everywhere;
use crate::problem::{Code, Problem};
use crate::query::Params;

/// The `{type}` and `{n}` of a path.
pub(crate) struct Version {
    kind: Box<str>,
    number: u32,
}

impl<S: Send + Sync> FromRequestParts<S> for Version {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let kind = path_param(parts, state, "type").await?;
        crate::name::check_name(&kind).map_err(Problem::name)?;
        let text = path_param(parts, state, "n").await?;
        let number = text.parse().ok().filter(|number| (1..=SCHEMA_VERSION_MAX).contains(&u64::from(*number)));
        let wrong = || Problem::field("", format!("a version is a whole number from 1 to {SCHEMA_VERSION_MAX}"));
        Ok(Self { kind: kind.into(), number: number.ok_or_else(wrong)? })
    }
}

/// Types that have a schema.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Types)]
pub(crate) struct TypesBody {
    /// By name.
    types: Vec<TypeBody>,
    /// Null on the last page.
    cursor: Option<String>,
}

/// A type and its versions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Type)]
struct TypeBody {
    /// Its name.
    #[serde(rename = "type")]
    kind: String,
    /// Those with a schema, and those of which there are jobs.
    versions: Vec<VersionBody>,
}

/// One version of a type.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TypeVersion)]
struct VersionBody {
    /// Its number.
    version: u32,
    /// It has a schema.
    registered: bool,
    /// `api` or `file`; null without a schema.
    source: Option<&'static str>,
    /// Unfinished and dead jobs over all queues: while there are any, workers must know this version.
    jobs: u64,
}

/// A schema that is gone.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SchemaRemoved)]
pub(crate) struct RemovedBody {
    /// Of this type.
    #[serde(rename = "type")]
    kind: Box<str>,
    /// Of this version.
    version: u32,
    /// Always true.
    deleted: bool,
}

impl From<&TypeView> for TypeBody {
    fn from(view: &TypeView) -> Self {
        let version = |version: &VersionView| VersionBody {
            version: version.version,
            registered: version.source.is_some(),
            source: version.source.map(source_word),
            jobs: version.jobs,
        };
        Self { kind: view.kind.to_string(), versions: view.versions.iter().map(version).collect() }
    }
}

/// List types that have a schema, and how many jobs there are of each version.
#[utoipa::path(
    get, path = "/v1/types", operation_id = "listTypes", tag = "types",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, description = "a page", body = TypesBody), Everywhere),
)]
pub(crate) async fn list(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let params = Params::parse(request.uri().query(), &["limit", "cursor"])?;
    match app.shard.query(Query::Types(params.page()?)).await.map_err(|error| Problem::from(error).single())? {
        Answer::Types { types, cursor } => {
            Ok(answer(StatusCode::OK, &TypesBody { types: types.iter().map(TypeBody::from).collect(), cursor }))
        }
        other => Err(unexpected(&other)),
    }
}

/// Give a version of a type its schema: from now on every job of it is checked, in every queue.
#[utoipa::path(
    put, path = "/v1/types/{type}/versions/{n}", operation_id = "putSchema", tag = "types",
    params(("type" = String, Path, description = "name of the type"), ("n" = u32, Path, description = "version")),
    request_body(content = Object, content_type = "application/json", description = "a JSON Schema 2020-12, at most 64 KiB"),
    responses(
        (status = 201, description = "the version had none", body = Object),
        (status = 200, description = "it is there", body = Object),
        (status = 409, description = "schema-in-use, managed-by-file", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 429, description = "queue-full: too many schemas", body = crate::problem::Body, content_type = "application/problem+json"),
        Everywhere,
    ),
)]
pub(crate) async fn put(State(app): State<App>, version: Version, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let body = body::json(request).await?;
    let text: Box<str> = json::text(&body)?.into();
    if text.len() > SCHEMA_BYTES_MAX {
        return Err(Problem::too_large(Code::RequestTooLarge, "a schema has", SCHEMA_BYTES_MAX, Some(text.len())));
    }
    json::parse::<json::Free>(&body)?;
    Schema::compile(&text).map_err(|error| Problem::invalid(vec![error]))?;
    let Version { kind, number } = version;
    let put = PutSchema { kind, version: number, text: text.clone(), source: Source::Api, actor: Actor::default() };
    match app.shard.call(Command::PutSchema(put)).await? {
        Reply::SchemaPut { created } => Ok(schema(if created { StatusCode::CREATED } else { StatusCode::OK }, &text)),
        other => Err(unexpected(&other)),
    }
}

/// Look at the schema of a version.
#[utoipa::path(
    get, path = "/v1/types/{type}/versions/{n}", operation_id = "getSchema", tag = "types",
    params(("type" = String, Path, description = "name of the type"), ("n" = u32, Path, description = "version")),
    responses(
        (status = 200, description = "as it was put", body = Object),
        (status = 404, description = "not-found", body = crate::problem::Body, content_type = "application/problem+json"),
        Everywhere,
    ),
)]
pub(crate) async fn get(State(app): State<App>, version: Version, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let Version { kind, number } = version;
    let schemas = match app.shard.query(Query::Schemas).await? {
        Answer::Schemas(schemas) => schemas,
        other => return Err(unexpected(&other)),
    };
    match schemas.iter().find(|schema| schema.kind == kind && schema.version == number) {
        Some(found) => Ok(schema(StatusCode::OK, &found.text)),
        None => Err(recado_core::Rejection::SchemaNotFound { kind, version: number }.into()),
    }
}

/// Take the schema of a version away, once there are no jobs of it.
#[utoipa::path(
    delete, path = "/v1/types/{type}/versions/{n}", operation_id = "removeSchema", tag = "types",
    params(("type" = String, Path, description = "name of the type"), ("n" = u32, Path, description = "version")),
    responses(
        (status = 200, description = "it is gone", body = RemovedBody),
        (status = 404, description = "not-found", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 409, description = "schema-in-use, managed-by-file", body = crate::problem::Body, content_type = "application/problem+json"),
        Everywhere,
    ),
)]
pub(crate) async fn delete(State(app): State<App>, version: Version, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let Version { kind, number } = version;
    let actor = Actor::default();
    let removed = RemovedBody { kind: kind.clone(), version: number, deleted: true };
    app.shard.call(Command::RemoveSchema { kind, version: number, source: Source::Api, actor }).await?;
    Ok(answer(StatusCode::OK, &removed))
}

fn schema(status: StatusCode, text: &str) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], text.to_owned()).into_response()
}
