//! Strict reading of the part after `?`.

use std::borrow::Cow;

use crate::limits::{PAGE_DEFAULT, PAGE_MAX};
use crate::nearest::nearest;
use crate::problem::{FieldError, Problem};
use crate::{duration, time};

/// Parameters of a request; only known ones, each at most once.
#[derive(Debug)]
pub(crate) struct Params<'q> {
    pairs: Vec<(Cow<'q, str>, Cow<'q, str>)>,
}

impl<'q> Params<'q> {
    /// Reads `query`; an empty value means absent.
    pub(crate) fn parse(query: Option<&'q str>, known: &[&str]) -> Result<Self, Problem> {
        let mut pairs: Vec<(Cow<'q, str>, Cow<'q, str>)> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if !known.contains(&name.as_ref()) {
                return Err(unknown(&name, known));
            }
            if value.contains('\u{fffd}') {
                return Err(wrong(&name, "the value is not UTF-8"));
            }
            if pairs.iter().any(|(earlier, _)| *earlier == name) {
                return Err(wrong(&name, "the parameter stands twice; separate several values by commas"));
            }
            if !value.is_empty() {
                pairs.push((name, value));
            }
        }
        Ok(Self { pairs })
    }

    /// The text of one parameter.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_ref())
    }

    /// The text of one parameter, owned.
    pub(crate) fn owned(&self, name: &str) -> Option<Box<str>> {
        self.text(name).map(Box::from)
    }

    /// True or false.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Problem> {
        match self.text(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(wrong(name, "must be true or false")),
        }
    }

    /// An instant.
    pub(crate) fn time(&self, name: &str) -> Result<Option<u64>, Problem> {
        self.text(name).map(|text| time::parse(text).map_err(|message| wrong(name, &message))).transpose()
    }

    /// A duration up to `max_ms`.
    pub(crate) fn duration(&self, name: &str, max_ms: u64) -> Result<Option<u64>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match duration::parse(text) {
            Ok(ms) if ms <= max_ms => Ok(Some(ms)),
            Ok(_) => Err(wrong(name, &format!("must be from 0s to {}", duration::text(max_ms)))),
            Err(message) => Err(wrong(name, &message)),
        }
    }

    /// `limit` and `cursor`.
    pub(crate) fn page(&self) -> Result<recado_core::Page, Problem> {
        let limit = match self.text("limit") {
            None => PAGE_DEFAULT,
            Some(text) => match text.parse() {
                Ok(limit) if (1..=PAGE_MAX).contains(&limit) => limit,
                _ => return Err(wrong("limit", &format!("must be from 1 to {PAGE_MAX}"))),
            },
        };
        let cursor = self.text("cursor").map(str::to_owned);
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        if cursor.as_deref().is_some_and(|cursor| cursor.len() > 512 || !cursor.bytes().all(fits)) {
            return Err(wrong("cursor", "this is not a cursor of an earlier answer; start without one"));
        }
        Ok(recado_core::Page { cursor, limit: limit as usize })
    }
}

/// A 400 about one parameter.
pub(crate) fn wrong(name: &str, message: &str) -> Problem {
    Problem::field(&format!("?{name}"), message)
}

fn unknown(name: &str, known: &[&str]) -> Problem {
    let nearest = nearest(name, known.iter().copied()).map(str::to_owned);
    let name: String = name.chars().take(100).collect();
    let message = match (&nearest, known) {
        (Some(nearest), _) => format!("unknown parameter; did you mean `{nearest}`?"),
        (None, []) => "unknown parameter; there are none here".to_owned(),
        (None, known) => format!("unknown parameter; there are {}", known.join(", ")),
    };
    Problem::invalid(vec![FieldError { pointer: format!("?{name}"), message, nearest, ..FieldError::default() }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_parameters_once() {
        let known = ["limit", "cursor", "state"];
        for (query, good) in [
            ("", true),
            ("limit=1&cursor=a_-9", true),
            ("limit=1000", true),
            ("state=", true),
            ("limit=0", false),
            ("limit=1001", false),
            ("limit=x", false),
            ("limt=1", false),
            ("limit=1&limit=2", false),
            ("cursor=%00", false),
            ("state=%ff", false),
        ] {
            let read = Params::parse(Some(query), &known).and_then(|params| params.page());
            assert_eq!(read.is_ok(), good, "{query}");
        }
    }
}
