//! The API's description, generated from the routes and their types.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use utoipa::openapi::{ContentBuilder, InfoBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, PartialSchema, ToSchema};

use crate::problem::{Body, Code};

/// The document that the routes are added to.
pub(crate) fn base() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Recado")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("A durable job queue. Clients ignore unknown fields, states, kinds and codes in answers."))
        .build();
    let mut document = OpenApiBuilder::new().info(info).build();
    let components = document.components.get_or_insert_with(Default::default);
    let mut schemas = Vec::new();
    Body::schemas(&mut schemas);
    schemas.push((Body::name().into_owned(), Body::schema()));
    components.schemas.extend(schemas);
    document
}

/// The whole document, made once.
pub(crate) fn document() -> &'static OpenApi {
    static DOCUMENT: OnceLock<OpenApi> = OnceLock::new();
    DOCUMENT.get_or_init(|| crate::http::routes().split_for_parts().1)
}

/// Refusals that any route may give: by the connection, the origin, the body, or the shard.
pub(crate) struct Everywhere;

/// .. and a queue that does not exist.
pub(crate) struct OnQueue;

/// .. and an id that is not there.
pub(crate) struct OnJob;

const EVERYWHERE: [u16; 9] = [400, 403, 408, 413, 415, 431, 500, 503, 507];

impl IntoResponses for Everywhere {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals(&[])
    }
}

impl IntoResponses for OnQueue {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals(&[404, 409, 429])
    }
}

impl IntoResponses for OnJob {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals(&[404, 410])
    }
}

fn refusals(more: &[u16]) -> BTreeMap<String, RefOr<Response>> {
    let statuses = EVERYWHERE.iter().chain(more);
    statuses.map(|status| (status.to_string(), refusal(*status).into())).collect()
}

fn refusal(status: u16) -> Response {
    let codes: Vec<_> = Code::ALL.iter().filter(|code| code.status() == status).map(|code| code.word()).collect();
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(Body::name()))).build();
    ResponseBuilder::new().description(codes.join(", ")).content("application/problem+json", content).build()
}
