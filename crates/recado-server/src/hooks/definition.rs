//! What a hook is told to be.

use std::collections::BTreeMap;

use axum::http::HeaderName;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::event::Place;
use super::secret::{self, Secret};
use super::signature::{Form, Scheme};
use crate::faults::Faults;
use crate::limits::{HOOK_FIELDS_MAX, HOOK_SECRETS_MAX, HOOK_TOLERANCE_MS, SCHEMA_VERSION_MAX};
use crate::problem::FieldError;
use crate::{duration, json};

/// Largest distance of the time that is signed, where the hook does not say, in milliseconds.
const TOLERANCE_MS_DEFAULT: u64 = 300_000;

/// An inbound webhook: who may send, and what becomes of it.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = HookOptions)]
pub(crate) struct HookBody {
    /// The queue that takes what is sent.
    queue: String,
    /// The type of its jobs.
    #[serde(rename = "type")]
    kind: String,
    /// Version of their payload's schema; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_version: Option<u64>,
    /// How the sender signs.
    scheme: SchemeWord,
    /// `env:NAME` of each secret, one or, while it is being changed, two: the variables of the server's environment that hold them.
    secrets: Vec<String>,
    /// How far the time that is signed may be from the server's, 1s to 1h; `5m` by default. Not with a scheme that signs no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    tolerance: Option<String>,
    /// Where the id of an event is: a JSON pointer into the body, or `header:NAME`. By default where the scheme has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<String>,
    /// Only events that have one of these values at each of these places; others are answered and dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, Vec<serde_json::Value>>>)]
    only: Option<BTreeMap<String, Value>>,
    /// The fields of the job's payload, and where in the event each is. Only texts, numbers, true and false are taken: ids.
    payload: BTreeMap<String, String>,
    /// Where the job's business id is.
    #[serde(skip_serializing_if = "Option::is_none")]
    business_id: Option<String>,
    /// How it is signed, with the scheme `hmac`.
    #[serde(skip_serializing_if = "Option::is_none")]
    hmac: Option<HmacBody>,
}

/// How a sender signs.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = HookScheme)]
enum SchemeWord {
    StandardWebhooks,
    Stripe,
    Github,
    Slack,
    Hmac,
}

/// HMAC-SHA256 over the body, or over time, a full stop and body.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = HookHmac)]
struct HmacBody {
    /// The header that holds the signature.
    header: String,
    /// What stands in it before the signature, like `sha256=`.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<String>,
    /// `hex` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<EncodingWord>,
    /// The header that holds the time, in seconds since 1970, where that is signed too.
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp_header: Option<String>,
}

/// How a signature is written.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = HookEncoding)]
enum EncodingWord {
    Hex,
    Base64,
}

/// What a hook does, checked.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) queue: Box<str>,
    pub(crate) kind: Box<str>,
    pub(crate) schema_version: u32,
    pub(crate) scheme: Scheme,
    /// Names of variables.
    variables: Vec<Box<str>>,
    /// None: the scheme signs no time.
    pub(crate) tolerance_s: Option<u64>,
    pub(super) event_id: Place,
    pub(super) only: Vec<(Place, Vec<Value>)>,
    pub(super) payload: Vec<(String, Place)>,
    pub(super) business_id: Option<Place>,
}

impl Definition {
    /// Its secrets, as far as the environment has them.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        self.variables.iter().map(|variable| Secret::look_up(variable, &self.scheme)).collect()
    }
}

impl HookBody {
    /// Reads a hook; every field that is wrong is named.
    pub(crate) fn read(value: &Value) -> Result<(Self, Definition), Vec<FieldError>> {
        let body: Self = json::from_value(value).map_err(|error| vec![error])?;
        let mut faults = Faults::default();
        let definition = body.check(&mut faults);
        match (definition, faults.into_errors()) {
            (Some(definition), errors) if errors.is_empty() => Ok((body, definition)),
            (_, errors) => Err(errors),
        }
    }

    /// None only if there is a fault.
    fn check(&self, faults: &mut Faults) -> Option<Definition> {
        faults.check_name("/queue", &self.queue);
        faults.check_name("/type", &self.kind);
        faults.range("/schemaVersion", self.schema_version, 1, SCHEMA_VERSION_MAX);
        let scheme = self.scheme(faults);
        let event_id = match (&self.event_id, self.scheme) {
            (Some(place), _) => place.clone(),
            (None, SchemeWord::StandardWebhooks) => "header:webhook-id".to_owned(),
            (None, SchemeWord::Github) => "header:x-github-delivery".to_owned(),
            (None, SchemeWord::Slack) => "/event_id".to_owned(),
            (None, SchemeWord::Stripe | SchemeWord::Hmac) => "/id".to_owned(),
        };
        let event_id = place("/eventId", &event_id, faults);
        let business_id = self.business_id.as_ref().map(|text| place("/businessId", text, faults));
        let (only, payload) = (self.only(faults), self.payload(faults));
        let variables = self.variables(faults);
        let scheme = scheme?;
        Some(Definition {
            queue: self.queue.as_str().into(),
            kind: self.kind.as_str().into(),
            schema_version: u32::try_from(self.schema_version.unwrap_or(1)).ok()?,
            tolerance_s: self.tolerance_s(&scheme, faults),
            scheme,
            variables,
            event_id: event_id?,
            only,
            payload,
            business_id: match business_id {
                Some(place) => Some(place?),
                None => None,
            },
        })
    }

    fn scheme(&self, faults: &mut Faults) -> Option<Scheme> {
        let plain = match self.scheme {
            SchemeWord::StandardWebhooks => Scheme::StandardWebhooks,
            SchemeWord::Stripe => Scheme::Stripe,
            SchemeWord::Github => Scheme::Github,
            SchemeWord::Slack => Scheme::Slack,
            SchemeWord::Hmac => {
                let Some(body) = &self.hmac else {
                    faults.at(
                        "/hmac",
                        "is missing: say which header holds the signature, as in {\"header\": \"x-signature\"}",
                    );
                    return None;
                };
                return body.form(faults).map(Scheme::Hmac);
            }
        };
        if self.hmac.is_some() {
            faults.at("/hmac", "goes with the scheme hmac only; leave it out");
        }
        Some(plain)
    }

    fn tolerance_s(&self, scheme: &Scheme, faults: &mut Faults) -> Option<u64> {
        if !scheme.has_time() {
            if self.tolerance.is_some() {
                faults.at("/tolerance", "this scheme signs no time that could be too old; leave it out");
            }
            return None;
        }
        let ms = match self.tolerance.as_deref().map(duration::parse) {
            None => TOLERANCE_MS_DEFAULT,
            Some(Ok(ms)) => ms,
            Some(Err(message)) => {
                faults.at("/tolerance", message);
                return None;
            }
        };
        faults.time_range("/tolerance", Some(ms), HOOK_TOLERANCE_MS.0, HOOK_TOLERANCE_MS.1);
        // Senders sign whole seconds.
        Some(ms.div_ceil(1_000))
    }

    fn variables(&self, faults: &mut Faults) -> Vec<Box<str>> {
        if self.secrets.is_empty() || self.secrets.len() > HOOK_SECRETS_MAX {
            faults.at("/secrets", format!("one secret, or {HOOK_SECRETS_MAX} while it is being changed"));
        }
        let mut variables = Vec::new();
        for (index, text) in self.secrets.iter().enumerate() {
            match secret::variable(text) {
                Ok(variable) => variables.push(variable.into()),
                Err(message) => faults.at(&format!("/secrets/{index}"), message),
            }
        }
        variables
    }

    fn only(&self, faults: &mut Faults) -> Vec<(Place, Vec<Value>)> {
        let only = self.only.iter().flatten();
        if only.clone().count() > HOOK_FIELDS_MAX {
            faults.at("/only", format!("at most {HOOK_FIELDS_MAX} places"));
        }
        let mut read = Vec::new();
        for (at, values) in only {
            let pointer = format!("/only/{}", json::escape(at));
            let values = match values {
                Value::Array(values) => values.clone(),
                value => vec![value.clone()],
            };
            let is_plain = |value: &Value| !value.is_array() && !value.is_object() && !value.is_null();
            if values.is_empty() || values.len() > HOOK_FIELDS_MAX || !values.iter().all(is_plain) {
                faults.at(&pointer, format!("a text, a number, true or false, or up to {HOOK_FIELDS_MAX} of them"));
            }
            read.extend(place(&pointer, at, faults).map(|place| (place, values)));
        }
        read
    }

    fn payload(&self, faults: &mut Faults) -> Vec<(String, Place)> {
        if self.payload.is_empty() || self.payload.len() > HOOK_FIELDS_MAX {
            faults.at("/payload", format!("1 to {HOOK_FIELDS_MAX} fields, each with its place in the event"));
        }
        let mut read = Vec::new();
        for (field, at) in &self.payload {
            let pointer = format!("/payload/{}", json::escape(field));
            if let Err(message) = crate::name::check_key(field) {
                faults.at(&pointer, message);
            }
            read.extend(place(&pointer, at, faults).map(|place| (field.clone(), place)));
        }
        read
    }
}

impl HmacBody {
    fn form(&self, faults: &mut Faults) -> Option<Form> {
        let header = header("/hmac/header", &self.header, faults);
        let timestamp = self.timestamp_header.as_ref().map(|name| self::header("/hmac/timestampHeader", name, faults));
        let prefix = self.prefix.as_deref().unwrap_or_default();
        if prefix.len() > 32 || !prefix.bytes().all(|byte| byte.is_ascii_graphic()) {
            faults.at("/hmac/prefix", "at most 32 visible characters");
        }
        Some(Form {
            header: header?,
            prefix: prefix.into(),
            is_base64: self.encoding == Some(EncodingWord::Base64),
            timestamp: match timestamp {
                Some(name) => Some(name?),
                None => None,
            },
        })
    }
}

fn place(pointer: &str, text: &str, faults: &mut Faults) -> Option<Place> {
    Place::parse(text).map_err(|message| faults.at(pointer, message)).ok()
}

fn header(pointer: &str, text: &str, faults: &mut Faults) -> Option<HeaderName> {
    let name = HeaderName::from_bytes(text.as_bytes()).ok().filter(|name| name.as_str().len() <= 100);
    if name.is_none() {
        faults.at(pointer, "the name of a header, like x-signature");
    }
    name
}
