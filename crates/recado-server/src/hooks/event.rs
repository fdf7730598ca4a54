//! What was sent, and the job that is made of it: only what the hook names goes into the job.

use std::borrow::Cow;
use std::collections::HashMap;

use axum::http::{HeaderMap, HeaderName};
use recado_core::{Dedup, NewJob, OnDuplicate};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Hook;
use super::signature::Scheme;
use crate::faults::Faults;
use crate::json;
use crate::limits::{HOOK_EVENT_ID_BYTES_MAX, HOOK_VALUE_BYTES_MAX};
use crate::problem::Problem;

/// An event that came twice makes no second job for so long: longer than senders try again by themselves.
pub(crate) const REMEMBERED_MS: u64 = 7 * 86_400_000;

/// What stands before the name of a header.
const HEADER_PREFIX: &str = "header:";
/// Length of a place.
const PLACE_BYTES_MAX: usize = 256;

/// Where something is in what was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A JSON pointer into the body (RFC 6901), taken apart.
    Body(Box<str>, Vec<String>),
    Header(HeaderName),
}

impl Place {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "write a JSON pointer like \"/data/id\", or \"header:NAME\"".to_owned();
        if text.len() > PLACE_BYTES_MAX {
            return Err(format!("a place has at most {PLACE_BYTES_MAX} bytes"));
        }
        if let Some(name) = text.strip_prefix(HEADER_PREFIX) {
            return HeaderName::from_bytes(name.as_bytes()).map(Self::Header).map_err(|_| wrong());
        }
        let path = text.strip_prefix('/').ok_or_else(wrong)?;
        let parts: Option<Vec<String>> = path.split('/').map(unescape).collect();
        parts.map(|parts| Self::Body(text.into(), parts)).ok_or_else(wrong)
    }

    /// As it is shown to whoever sent something else.
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Body(text, _) => Cow::Borrowed(text),
            Self::Header(name) => Cow::Owned(format!("{HEADER_PREFIX}{name}")),
        }
    }
}

/// A part of a pointer; none when a `~` stands for nothing.
fn unescape(part: &str) -> Option<String> {
    let is_sound = part.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    is_sound.then(|| part.replace("~1", "/").replace("~0", "~"))
}

/// What was sent, and is proven.
pub(crate) struct Event<'a> {
    headers: &'a HeaderMap,
    body: &'a RawValue,
}

/// What becomes of an event.
#[derive(Debug, PartialEq)]
pub(crate) enum Made {
    Job(Box<NewJob>),
    /// Slack asks whether somebody is there.
    Challenge(String),
    /// It is answered, and nothing comes of it: `ping`, or `only`.
    Ignored(&'static str),
}

impl<'a> Event<'a> {
    /// Reads a body.
    pub(crate) fn read(headers: &'a HeaderMap, body: &'a [u8]) -> Result<Self, Problem> {
        let body: &RawValue = json::parse(body)?;
        json::check_free(body, "").map_err(|error| Problem::invalid(vec![error]))?;
        Ok(Self { headers, body })
    }

    /// What the hook makes of it.
    pub(crate) fn make(&self, hook: &Hook) -> Result<Made, Problem> {
        let definition = &hook.definition;
        match definition.scheme {
            Scheme::Github if self.is_ping() => return Ok(Made::Ignored("ping")),
            Scheme::Slack => {
                if let Some(challenge) = self.challenge() {
                    return Ok(Made::Challenge(challenge));
                }
            }
            _ => {}
        }
        let mut faults = Faults::default();
        let is_wanted = definition.only.iter().all(|(place, values)| {
            let found = self.plain(place, &mut faults).and_then(|text| serde_json::from_str::<Value>(&text).ok());
            found.is_some_and(|found| values.contains(&found))
        });
        if !is_wanted {
            return Ok(Made::Ignored("only"));
        }
        let id = self.id(hook, &mut faults);
        let payload = self.payload(&definition.payload, &mut faults);
        let business_id = definition.business_id.as_ref().and_then(|place| self.word(place, &mut faults));
        faults.finish()?;
        Ok(Made::Job(Box::new(NewJob {
            kind: definition.kind.clone(),
            schema_version: definition.schema_version,
            payload,
            business_id: business_id.map(Into::into),
            dedup: Some(Dedup {
                // A name has no slash, so that no two hooks have a key in common.
                key: format!("{}/{id}", hook.name).into(),
                for_ms: Some(REMEMBERED_MS),
                on_duplicate: OnDuplicate::Keep,
            }),
            ..NewJob::default()
        })))
    }

    fn is_ping(&self) -> bool {
        self.headers.get("x-github-event").is_some_and(|event| event == "ping")
    }

    fn challenge(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Question {
            r#type: String,
            challenge: String,
        }
        let question: Question = serde_json::from_str(self.body.get()).ok()?;
        (question.r#type == "url_verification").then_some(question.challenge)
    }

    fn id(&self, hook: &Hook, faults: &mut Faults) -> String {
        let place = &hook.definition.event_id;
        let id = self.word(place, faults).unwrap_or_default();
        if id.is_empty() || id.len() > HOOK_EVENT_ID_BYTES_MAX {
            let message =
                format!("the id of an event has 1 to {HOOK_EVENT_ID_BYTES_MAX} bytes; correct eventId of the hook");
            faults.at(&place.text(), message);
        }
        id
    }

    fn payload(&self, fields: &[(String, Place)], faults: &mut Faults) -> Vec<u8> {
        let mut text = String::from("{");
        for (index, (field, place)) in fields.iter().enumerate() {
            let value = self.plain(place, faults).unwrap_or(Cow::Borrowed("null"));
            let comma = if index == 0 { "" } else { "," };
            text.push_str(&format!("{comma}{}:{value}", Value::from(field.as_str())));
        }
        text.push('}');
        text.into_bytes()
    }

    /// A text or a number, as text.
    fn word(&self, place: &Place, faults: &mut Faults) -> Option<String> {
        let text = self.plain(place, faults)?;
        match serde_json::from_str(&text) {
            Ok(Value::String(word)) => Some(word),
            Ok(Value::Number(_)) => Some(text.into_owned()),
            _ => {
                faults.at(&place.text(), "a text or a number is needed here");
                None
            }
        }
    }

    /// The JSON text of what is at a place; none where there is nothing, or null.
    fn plain(&self, place: &Place, faults: &mut Faults) -> Option<Cow<'a, str>> {
        let text = match place {
            Place::Header(name) => Cow::Owned(Value::from(self.headers.get(name)?.to_str().ok()?).to_string()),
            Place::Body(_, parts) => {
                let found = parts.iter().try_fold(self.body, |value, part| member(value, part))?;
                Cow::Borrowed(found.get())
            }
        };
        if text.starts_with(['{', '[']) || text.len() > HOOK_VALUE_BYTES_MAX {
            let message = format!(
                "only ids go into a job: this is an object, an array, or longer than {HOOK_VALUE_BYTES_MAX} bytes"
            );
            faults.at(&place.text(), message);
            return None;
        }
        (text != "null").then_some(text)
    }
}

/// A member of an object, or an entry of an array.
fn member<'a>(value: &'a RawValue, part: &str) -> Option<&'a RawValue> {
    match value.get().as_bytes().first()? {
        b'{' => serde_json::from_str::<HashMap<String, &RawValue>>(value.get()).ok()?.remove(part),
        b'[' => {
            let is_index = part == "0" || !part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit());
            let index: usize = part.parse().ok().filter(|_| is_index)?;
            serde_json::from_str::<Vec<&RawValue>>(value.get()).ok()?.get(index).copied()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
