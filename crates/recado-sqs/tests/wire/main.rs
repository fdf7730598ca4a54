//! Bytes in, bytes out. What stands in `vectors/` was written by botocore: its serializers for the requests of both
//! protocols, its signer for the signatures.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]

mod answers;
mod attributes;
mod errors;
mod messages;
mod random;
mod refusals;
mod requests;
mod signatures;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use recado_sqs::{Action, Call, Protocol, Request, SqsError, decode};

/// A call that owns its parts.
struct Owned {
    method: Method,
    path: String,
    query: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Owned {
    fn call(&self) -> Call<'_> {
        Call { method: &self.method, path: &self.path, query: &self.query, headers: &self.headers, body: &self.body }
    }

    /// As a server reads it: the call says which protocol it is.
    fn read(&self) -> Result<Request, SqsError> {
        let call = self.call();
        decode(&call, Protocol::of(&call).expect("a call of SQS"))
    }

    fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
        self
    }
}

/// Sent to a path that may have a query behind it.
fn json_at(target: &str, action: &str, body: impl AsRef<[u8]>) -> Owned {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let call = Owned {
        method: Method::POST,
        path: path.to_owned(),
        query: query.to_owned(),
        headers: HeaderMap::new(),
        body: body.as_ref().to_vec(),
    };
    call.header("x-amz-target", &format!("AmazonSQS.{action}")).header("content-type", "application/x-amz-json-1.0")
}

fn json(action: Action, body: &serde_json::Value) -> Owned {
    json_at("/", action.name(), body.to_string())
}

fn form_at(path: &str, body: &str) -> Owned {
    let call = Owned {
        method: Method::POST,
        path: path.to_owned(),
        query: String::new(),
        headers: HeaderMap::new(),
        body: body.as_bytes().to_vec(),
    };
    call.header("content-type", "application/x-www-form-urlencoded; charset=utf-8")
}

fn get(target: &str) -> Owned {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Owned {
        method: Method::GET,
        path: path.to_owned(),
        query: query.to_owned(),
        headers: HeaderMap::new(),
        body: Vec::new(),
    }
}
