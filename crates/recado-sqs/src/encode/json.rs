//! AWS JSON 1.0.

use serde::Serialize;

use super::{Members, Names};
use crate::answer::Answer;
use crate::call::Protocol;
use crate::error::SqsError;

pub(super) fn answer(answer: &Answer) -> Vec<u8> {
    object(|json| answer.members(json))
}

pub(super) fn error(error: &SqsError) -> Vec<u8> {
    object(|json| {
        json.text("__type", &error.code().json_type());
        json.text("message", error.message(Protocol::Json));
    })
}

fn object(members: impl FnOnce(&mut Json)) -> Vec<u8> {
    let mut json = Json { out: Vec::new(), first: true };
    json.between(b'{', b'}', members);
    json.out
}

struct Json {
    out: Vec<u8>,
    /// Nothing stands yet in the object or list that is open.
    first: bool,
}

impl Json {
    fn comma(&mut self) {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
    }

    fn name(&mut self, name: &str) {
        self.comma();
        self.value(name);
        self.out.push(b':');
    }

    fn value(&mut self, value: impl Serialize) {
        // A vector takes everything, and what is written here are texts, numbers and flags.
        let _ = serde_json::to_writer(&mut self.out, &value);
    }

    fn member(&mut self, name: &str, value: impl Serialize) {
        self.name(name);
        self.value(value);
    }

    fn between(&mut self, open: u8, close: u8, inner: impl FnOnce(&mut Self)) {
        self.out.push(open);
        self.first = true;
        inner(self);
        self.first = false;
        self.out.push(close);
    }

    fn entries<T>(&mut self, name: &str, entries: impl IntoIterator<Item = T>, write: impl Fn(&mut Self, T)) {
        let mut entries = entries.into_iter().peekable();
        if entries.peek().is_some() {
            self.name(name);
            self.between(b'{', b'}', |json| entries.for_each(|entry| write(json, entry)));
        }
    }
}

impl Members for Json {
    fn text(&mut self, name: &str, value: &str) {
        self.member(name, value);
    }

    fn number(&mut self, name: &str, value: u64) {
        self.member(name, value);
    }

    fn flag(&mut self, name: &str, value: bool) {
        self.member(name, value);
    }

    fn texts(&mut self, (name, _): Names, values: &[String]) {
        if !values.is_empty() {
            self.member(name, values);
        }
    }

    fn structures<T>(&mut self, (name, _): Names, items: &[T], each: impl Fn(&T, &mut Self)) {
        if items.is_empty() {
            return;
        }
        self.name(name);
        self.between(b'[', b']', |json| {
            for item in items {
                json.comma();
                json.between(b'{', b'}', |json| each(item, json));
            }
        });
    }

    fn map<'m>(&mut self, name: &str, _: (&str, &str, &str), entries: impl IntoIterator<Item = (&'m str, &'m str)>) {
        self.entries(name, entries, |json, (key, value)| json.member(key, value));
    }

    fn structure_map<'m, T: 'm>(
        &mut self,
        (name, _): Names,
        entries: impl IntoIterator<Item = (&'m str, &'m T)>,
        each: impl Fn(&T, &mut Self),
    ) {
        self.entries(name, entries, |json, (key, value)| {
            json.name(key);
            json.between(b'{', b'}', |json| each(value, json));
        });
    }
}
