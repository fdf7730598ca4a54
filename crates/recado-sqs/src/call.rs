//! What came in, and which protocol it speaks.

use http::{HeaderMap, Method, header};

use crate::url::Address;

/// An HTTP request, as received.
#[derive(Clone, Copy, Debug)]
pub struct Call<'c> {
    /// `POST`, or `GET` in the Query protocol.
    pub method: &'c Method,
    /// Not decoded: it is signed as it stands.
    pub path: &'c str,
    /// What stands behind `?`, not decoded; empty without one.
    pub query: &'c str,
    /// Names in lower case, as the type has them.
    pub headers: &'c HeaderMap,
    /// All of it.
    pub body: &'c [u8],
}

/// How a call is written, and so its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// AWS JSON 1.0.
    Json,
    /// Query parameters in, XML out.
    Query,
}

/// Names the action of a JSON call.
pub(crate) const TARGET_HEADER: &str = "x-amz-target";

/// What stands before the action in [`TARGET_HEADER`].
pub(crate) const TARGET_PREFIX: &str = "AmazonSQS.";

impl Protocol {
    /// Of a call; `None` when it is not SQS. The body is not looked at, so it may be empty yet: a form sent to `/`
    /// or to a queue's path is SQS.
    pub fn of(call: &Call<'_>) -> Option<Self> {
        if call.text_header(TARGET_HEADER).is_some_and(|target| target.starts_with(TARGET_PREFIX)) {
            return Some(Self::Json);
        }
        let at_queue = Address::of_path(call.path).is_some();
        if call.path != "/" && !at_queue {
            return None;
        }
        let names_action = form_urlencoded::parse(call.query.as_bytes()).any(|(name, _)| name == "Action");
        let query = match *call.method {
            Method::GET => names_action || at_queue,
            Method::POST => names_action || call.is_form(),
            _ => false,
        };
        query.then_some(Self::Query)
    }
}

impl Call<'_> {
    /// A header that is text.
    pub(crate) fn text_header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether the body is a form.
    pub(crate) fn is_form(&self) -> bool {
        let kind = self.text_header(header::CONTENT_TYPE.as_str()).and_then(|kind| kind.split(';').next());
        kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded"))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(method: Method, target: &str, headers: &[(&'static str, &'static str)]) -> Option<Protocol> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        Protocol::of(&Call { method: &method, path, query, headers: &headers.collect(), body: b"" })
    }

    #[test]
    fn the_request_chooses() {
        const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded; charset=utf-8");
        let json = [("x-amz-target", "AmazonSQS.ListQueues"), ("content-type", "application/x-amz-json-1.0")];
        assert_eq!(of(Method::POST, "/", &json), Some(Protocol::Json));
        assert_eq!(of(Method::POST, "/000000000000/email", &json), Some(Protocol::Json));
        assert_eq!(of(Method::POST, "/", &[FORM]), Some(Protocol::Query));
        assert_eq!(of(Method::POST, "/000000000000/email", &[FORM]), Some(Protocol::Query));
        assert_eq!(of(Method::GET, "/?Action=ListQueues", &[]), Some(Protocol::Query));
        assert_eq!(of(Method::GET, "/000000000000/email?Action=GetQueueUrl", &[]), Some(Protocol::Query));
        assert_eq!(
            of(Method::GET, "/000000000000/email", &[]),
            Some(Protocol::Query),
            "to be refused as the service does"
        );
        assert_eq!(of(Method::POST, "/?Action=ListQueues", &[]), Some(Protocol::Query));
    }

    #[test]
    fn what_is_not_sqs() {
        assert_eq!(of(Method::GET, "/", &[]), None);
        assert_eq!(of(Method::GET, "/v1/queues?Action=x", &[]), None);
        assert_eq!(of(Method::POST, "/v1/hooks/slack", &[("content-type", "application/x-www-form-urlencoded")]), None);
        assert_eq!(of(Method::POST, "/", &[("x-amz-target", "DynamoDB_20120810.ListTables")]), None);
        assert_eq!(of(Method::PUT, "/000000000000/email", &[]), None);
        assert_eq!(of(Method::POST, "/", &[("content-type", "application/json")]), None);
    }
}
