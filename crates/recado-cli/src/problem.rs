//! Problems (RFC 9457) as the server answers them, for people and as exit codes.

use std::fmt;

use serde_json::Value;

use crate::failure::{Exit, Failure};
use crate::ui::{cell, list, plain, printable};

/// A refusal by the server.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The body.
    pub(crate) value: Value,
}

impl Problem {
    /// Reads an answer's body; something else than a problem (a proxy's page) becomes one.
    pub(crate) fn read(status: u16, body: &str) -> Self {
        let value = match serde_json::from_str::<Value>(body) {
            Ok(value) if value.get("code").is_some() => value,
            _ => {
                let start: String = printable(body).chars().take(200).collect();
                serde_json::json!({
                    "code": format!("http-{status}"),
                    "status": status,
                    "detail": format!("the answer is not Recado's, is this its address? it begins: {start}"),
                })
            }
        };
        Self { status, value }
    }

    /// The stable word to match on.
    pub(crate) fn code(&self) -> &str {
        self.value.get("code").and_then(Value::as_str).unwrap_or("internal")
    }

    /// What a script sees.
    pub(crate) fn exit(&self) -> Exit {
        match (self.status, self.code()) {
            (401 | 403, _) => Exit::NotAllowed,
            (408 | 429 | 503 | 507, _) | (_, "idempotency-in-progress") => Exit::TryAgain,
            (400..=499, _) => Exit::BadData,
            _ => Exit::Unavailable,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&describe(&self.value))
    }
}

/// `code: detail`, then each error with its place, then what helps.
pub(crate) fn describe(problem: &Value) -> String {
    let text = |member: &str| problem.get(member).filter(|value| !value.is_null()).map(plain);
    let code = text("code").unwrap_or_else(|| "internal".to_owned());
    let detail = text("detail").or_else(|| text("title")).unwrap_or_default();
    let errors = list(problem, "errors");
    // The detail of a 400 is its first error, which is told once: here if it is alone, unless its line is known.
    let says_first = errors.first().is_some_and(|error| detail.contains(&cell(error, "message")));
    let is_listed = !says_first || errors.len() > 1 || errors[0].get("line").is_some();
    let detail = if says_first && is_listed { text("title").unwrap_or(detail) } else { detail };
    let mut lines = vec![format!("{code}: {detail}")];
    for error in errors.iter().filter(|_| is_listed) {
        let line = error.get("line").map(|line| format!("line {line} "));
        let index = error.get("index").map(|index| format!("job {index} "));
        let index = line.or(index).unwrap_or_default();
        let pointer = error.get("pointer").and_then(Value::as_str).unwrap_or_default();
        let place = if pointer.is_empty() { "(whole)" } else { pointer };
        let message = error.get("message").map(plain).unwrap_or_default();
        lines.push(format!("  {index}{}: {message}", printable(place)));
    }
    for (member, words) in [
        ("reason", "reason"),
        ("nearest", "nearest"),
        ("limit", "limit"),
        ("actual", "actual"),
        ("retryAfter", "retry after"),
    ] {
        if let Some(value) = text(member).filter(|value| !says(&lines, value)) {
            lines.push(format!("  {words}: {value}"));
        }
    }
    if let (Some(line), Some(column)) = (text("line"), text("column"))
        && !detail.starts_with("line ")
    {
        lines.push(format!("  at line {line}, column {column}"));
    }
    lines.join("\n")
}

/// The word stands in what is printed already.
fn says(lines: &[String], word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_.:-".contains(c);
    lines.iter().flat_map(|line| line.split(|c| !is_part(c))).any(|said| said == word)
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self { exit: problem.exit(), message: problem.to_string(), problem: Some(problem.value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes() {
        for (status, code, expected) in [
            (400, "invalid-request", Exit::BadData),
            (401, "unauthenticated", Exit::NotAllowed),
            (403, "forbidden", Exit::NotAllowed),
            (404, "not-found", Exit::BadData),
            (409, "stale-receipt", Exit::BadData),
            (409, "idempotency-in-progress", Exit::TryAgain),
            (413, "payload-too-large", Exit::BadData),
            (422, "schema-violation", Exit::BadData),
            (429, "queue-full", Exit::TryAgain),
            (500, "internal", Exit::Unavailable),
            (503, "overloaded", Exit::TryAgain),
            (507, "storage-full", Exit::TryAgain),
        ] {
            let problem = Problem::read(status, &format!("{{\"code\":\"{code}\"}}"));
            assert_eq!(problem.exit(), expected, "{status} {code}");
        }
    }

    #[test]
    fn every_part_that_helps_is_printed() {
        let body = r#"{"code":"invalid-request","detail":"two jobs are wrong","retryAfter":"2s","nearest":"delay",
            "errors":[{"index":3,"pointer":"/dealy","message":"unknown field"},{"pointer":"","message":"no type"}]}"#;
        assert_eq!(
            Problem::read(400, body).to_string(),
            "invalid-request: two jobs are wrong\n  job 3 /dealy: unknown field\n  (whole): no type\n  \
             nearest: delay\n  retry after: 2s"
        );
    }

    #[test]
    fn nothing_is_printed_twice() {
        let one = r#"{"code":"invalid-request","detail":"/dealy: unknown field `dealy`; did you mean `delay`?","nearest":"delay",
            "errors":[{"pointer":"/dealy","message":"unknown field `dealy`; did you mean `delay`?"}]}"#;
        assert_eq!(
            Problem::read(400, one).to_string(),
            "invalid-request: /dealy: unknown field `dealy`; did you mean `delay`?"
        );
        let two = r#"{"code":"invalid-request","title":"The request is not valid","detail":"[0]/a: bad (and 1 more in `errors`)",
            "errors":[{"index":0,"pointer":"/a","message":"bad"},{"index":1,"pointer":"/b","message":"worse"}]}"#;
        assert_eq!(
            Problem::read(400, two).to_string(),
            "invalid-request: The request is not valid\n  job 0 /a: bad\n  job 1 /b: worse"
        );
        let full = r#"{"code":"queue-full","detail":"queue `q` is full: max-depth 11 of 10","reason":"max-depth","limit":10,"actual":11,"retryAfter":"1s"}"#;
        assert_eq!(
            Problem::read(429, full).to_string(),
            "queue-full: queue `q` is full: max-depth 11 of 10\n  retry after: 1s"
        );
    }

    #[test]
    fn a_page_of_something_else_is_named() {
        let problem = Problem::read(502, "<html>\u{1b}bad gateway");
        assert_eq!(problem.code(), "http-502");
        assert!(problem.to_string().contains("is this its address?"));
        assert_eq!(problem.exit(), Exit::Unavailable);
    }
}
