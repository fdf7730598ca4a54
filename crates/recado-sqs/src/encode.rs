//! From an [`Answer`] or an [`SqsError`] to bytes.
//!
//! What an answer's members are stands with the answer, once for all forms (`answer/members.rs`); here is how each
//! form writes members.

mod json;
mod xml;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};

use crate::answer::Answer;
use crate::call::{Call, Protocol};
use crate::error::{Code, SqsError};

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// AWS JSON 1.0.
    Json,
    /// The XML of the Query protocol.
    Xml,
    /// JSON in the shape of that XML, with null for what is absent, for callers of the Query protocol that accept JSON.
    QueryJson,
}

impl Form {
    /// What the caller reads.
    #[must_use]
    pub fn of(call: &Call<'_>, protocol: Protocol) -> Self {
        let accepts_json = || {
            let kinds = call.text_header(ACCEPT.as_str()).unwrap_or_default().split(',');
            kinds.filter_map(|kind| kind.split(';').next()).any(|kind| kind.trim() == "application/json")
        };
        match protocol {
            Protocol::Json => Self::Json,
            Protocol::Query if accepts_json() => Self::QueryJson,
            Protocol::Query => Self::Xml,
        }
    }
}

/// Names of a list, map or structure: in JSON, and of each item in XML.
pub(crate) type Names = (&'static str, &'static str);

/// Takes the members of an answer, or of a structure in it. What is empty is left out, or null, as the service does.
pub(crate) trait Members {
    fn text(&mut self, name: &str, value: &str);
    fn number(&mut self, name: &str, value: u64);
    fn flag(&mut self, name: &str, value: bool);
    fn texts(&mut self, names: Names, values: &[String]);
    fn structures<T>(&mut self, names: Names, items: &[T], each: impl Fn(&T, &mut Self));
    /// In XML an entry's two halves have names too.
    fn map<'m>(
        &mut self,
        name: &str,
        in_query: (&str, &str, &str),
        entries: impl IntoIterator<Item = (&'m str, &'m str)>,
    );
    fn structure_map<'m, T: 'm>(
        &mut self,
        names: Names,
        entries: impl IntoIterator<Item = (&'m str, &'m T)>,
        each: impl Fn(&T, &mut Self),
    );

    fn optional_text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    fn optional_number(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.number(name, value);
        }
    }
}

/// The answer to a call.
pub fn encode(form: Form, result: &Result<Answer, SqsError>, request_id: &str) -> Response<Vec<u8>> {
    let (kind, body) = match (form, result) {
        (Form::Json, Ok(answer)) => (AWS_JSON, json::answer(answer)),
        (Form::Json, Err(error)) => (AWS_JSON, json::error(error)),
        (Form::Xml, Ok(answer)) => (XML, xml::answer(answer, request_id)),
        // Whatever is accepted.
        (Form::QueryJson, Err(error)) if error.code() == Code::UnknownOperation => (XML, xml::error(error, request_id)),
        (Form::Xml, Err(error)) => (XML, xml::error(error, request_id)),
        (Form::QueryJson, Ok(answer)) => (JSON, json::query_answer(answer, request_id)),
        (Form::QueryJson, Err(error)) => (JSON, json::query_error(error, request_id)),
    };
    let mut response = Response::new(body);
    *response.status_mut() = result.as_ref().map_or_else(|error| error.code().status(), |_| StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert("x-amzn-requestid", id);
    }
    if let (Form::Json, Err(error)) = (form, result) {
        let text = format!("{};{}", error.code().query_code(), fault(error));
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert("x-amzn-query-error", value);
        }
    }
    response
}

const AWS_JSON: &str = "application/x-amz-json-1.0";
const JSON: &str = "application/json";
const XML: &str = "text/xml";

/// Whose fault an error is.
fn fault(error: &SqsError) -> &'static str {
    if error.code().is_senders_fault() { "Sender" } else { "Receiver" }
}
