//! AWS JSON 1.0, and the Query protocol's answers as JSON.

use serde::Serialize;

use super::{Members, Names, fault};
use crate::answer::Answer;
use crate::call::Protocol;
use crate::error::SqsError;

pub(super) fn answer(answer: &Answer) -> Vec<u8> {
    object(false, |json| answer.members(json))
}

pub(super) fn error(error: &SqsError) -> Vec<u8> {
    object(false, |json| {
        json.text("__type", &error.code().json_type());
        json.text("message", error.message(Protocol::Json));
    })
}

pub(super) fn query_answer(answer: &Answer, request_id: &str) -> Vec<u8> {
    let action = answer.action().name();
    object(true, |json| {
        json.structure(&format!("{action}Response"), |json| {
            if answer.has_members() {
                json.structure(&format!("{action}Result"), |json| answer.members(json));
            }
            json.structure("ResponseMetadata", |json| json.text("RequestId", request_id));
        });
    })
}

pub(super) fn query_error(error: &SqsError, request_id: &str) -> Vec<u8> {
    object(true, |json| {
        json.structure("Error", |json| {
            json.text("Type", fault(error));
            json.text("Code", error.code().query_code());
            json.text("Message", error.message(Protocol::Query));
        });
        json.text("RequestId", request_id);
    })
}

/// Room that is made at once: most answers need no more.
const BYTES: usize = 1 << 10;

fn object(in_query: bool, members: impl FnOnce(&mut Json)) -> Vec<u8> {
    let mut json = Json { out: Vec::with_capacity(BYTES), first: true, in_query };
    json.between(b'{', b'}', members);
    json.out
}

struct Json {
    out: Vec<u8>,
    /// Nothing stands yet in the object or list that is open.
    first: bool,
    /// Of the Query protocol: a map is a list of its entries, as XML has it, and what is empty is null.
    in_query: bool,
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

    /// A member that is not there.
    fn nothing(&mut self, name: &str) {
        if self.in_query {
            self.member(name, ());
        }
    }

    /// Two lists have another name in the Query protocol.
    fn list_name<'n>(&self, name: &'n str) -> &'n str {
        match name {
            "Messages" if self.in_query => "messages",
            "QueueUrls" if self.in_query => "queueUrls",
            _ => name,
        }
    }

    fn between(&mut self, open: u8, close: u8, inner: impl FnOnce(&mut Self)) {
        self.out.push(open);
        self.first = true;
        inner(self);
        self.first = false;
        self.out.push(close);
    }

    fn structure(&mut self, name: &str, inner: impl FnOnce(&mut Self)) {
        self.name(name);
        self.between(b'{', b'}', inner);
    }

    /// A map, whose entries have names for their halves where it is written as a list.
    fn entries<'m, T>(
        &mut self,
        name: &str,
        (key_name, value_name): (&str, &str),
        entries: impl IntoIterator<Item = (&'m str, T)>,
        write: impl Fn(&mut Self, &str, T),
    ) {
        let mut entries = entries.into_iter().peekable();
        if entries.peek().is_none() {
            return self.nothing(name);
        }
        self.name(name);
        if !self.in_query {
            return self.between(b'{', b'}', |json| entries.for_each(|(key, value)| write(json, key, value)));
        }
        self.between(b'[', b']', |json| {
            for (key, value) in entries {
                json.comma();
                json.between(b'{', b'}', |json| {
                    json.text(key_name, key);
                    write(json, value_name, value);
                });
            }
        });
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

    fn optional_text(&mut self, name: &str, value: Option<&str>) {
        match value {
            Some(value) => self.text(name, value),
            None => self.nothing(name),
        }
    }

    fn optional_number(&mut self, name: &str, value: Option<u64>) {
        match value {
            Some(value) => self.number(name, value),
            None => self.nothing(name),
        }
    }

    fn texts(&mut self, (name, _): Names, values: &[String]) {
        let name = self.list_name(name);
        if values.is_empty() {
            return self.nothing(name);
        }
        self.member(name, values);
    }

    fn structures<T>(&mut self, (name, _): Names, items: &[T], each: impl Fn(&T, &mut Self)) {
        let name = self.list_name(name);
        if items.is_empty() {
            return self.nothing(name);
        }
        self.name(name);
        self.between(b'[', b']', |json| {
            for item in items {
                json.comma();
                json.between(b'{', b'}', |json| each(item, json));
            }
        });
    }

    fn map<'m>(
        &mut self,
        name: &str,
        (_, key, value): (&str, &str, &str),
        entries: impl IntoIterator<Item = (&'m str, &'m str)>,
    ) {
        self.entries(name, (key, value), entries, |json, name, value| json.text(name, value));
    }

    fn structure_map<'m, T: 'm>(
        &mut self,
        (name, _): Names,
        entries: impl IntoIterator<Item = (&'m str, &'m T)>,
        each: impl Fn(&T, &mut Self),
    ) {
        self.entries(name, ("Name", "Value"), entries, |json, name, value| {
            json.structure(name, |json| each(value, json));
        });
    }
}
