//! The XML of the Query protocol.

use super::{Members, Names, fault};
use crate::answer::Answer;
use crate::call::Protocol;
use crate::error::{Code, SqsError};

const DECLARATION: &str = "<?xml version=\"1.0\"?>";
const NAMESPACE: &str = "http://queue.amazonaws.com/doc/2012-11-05/";

pub(super) fn answer(answer: &Answer, request_id: &str) -> Vec<u8> {
    let action = answer.action().name();
    document(&format!("{action}Response"), |xml| {
        if answer.has_members() {
            xml.element(&format!("{action}Result"), |xml| answer.members(xml));
        }
        xml.element("ResponseMetadata", |xml| xml.text("RequestId", request_id));
    })
}

pub(super) fn error(error: &SqsError, request_id: &str) -> Vec<u8> {
    if error.code() == Code::UnknownOperation {
        return b"<UnknownOperationException/>\n".to_vec();
    }
    document("ErrorResponse", |xml| {
        xml.element("Error", |xml| {
            xml.text("Type", fault(error));
            xml.text("Code", error.code().query_code());
            xml.text("Message", error.message(Protocol::Query));
            xml.element("Detail", |_| {});
        });
        xml.text("RequestId", request_id);
    })
}

fn document(name: &str, inner: impl FnOnce(&mut Xml)) -> Vec<u8> {
    let mut xml = Xml(DECLARATION.to_owned());
    xml.0.push_str(&format!("<{name} xmlns=\"{NAMESPACE}\">"));
    inner(&mut xml);
    xml.0.push_str(&format!("</{name}>"));
    xml.0.into_bytes()
}

struct Xml(String);

impl Xml {
    fn element(&mut self, name: &str, inner: impl FnOnce(&mut Self)) {
        let start = self.0.len();
        self.open(name);
        let content = self.0.len();
        inner(self);
        if self.0.len() == content {
            self.0.truncate(start);
            self.0.extend(["<", name, "/>"]);
        } else {
            self.0.extend(["</", name, ">"]);
        }
    }

    fn open(&mut self, name: &str) {
        self.0.extend(["<", name, ">"]);
    }
}

impl Members for Xml {
    fn text(&mut self, name: &str, value: &str) {
        self.open(name);
        escape(value, &mut self.0);
        self.0.extend(["</", name, ">"]);
    }

    fn number(&mut self, name: &str, value: u64) {
        self.text(name, &value.to_string());
    }

    fn flag(&mut self, name: &str, value: bool) {
        self.text(name, &value.to_string());
    }

    fn texts(&mut self, (_, name): Names, values: &[String]) {
        for value in values {
            self.text(name, value);
        }
    }

    fn structures<T>(&mut self, (_, name): Names, items: &[T], each: impl Fn(&T, &mut Self)) {
        for item in items {
            self.element(name, |xml| each(item, xml));
        }
    }

    fn map<'m>(
        &mut self,
        _: &str,
        (name, key, value): (&str, &str, &str),
        entries: impl IntoIterator<Item = (&'m str, &'m str)>,
    ) {
        for entry in entries {
            self.element(name, |xml| {
                xml.text(key, entry.0);
                xml.text(value, entry.1);
            });
        }
    }

    fn structure_map<'m, T: 'm>(
        &mut self,
        (_, name): Names,
        entries: impl IntoIterator<Item = (&'m str, &'m T)>,
        each: impl Fn(&T, &mut Self),
    ) {
        for (key, value) in entries {
            self.element(name, |xml| {
                xml.text("Name", key);
                xml.element("Value", |xml| each(value, xml));
            });
        }
    }
}

/// A parser reads a bare carriage return as a line feed, so it is written as a reference. What XML has no way to
/// hold at all becomes the replacement character.
fn escape(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find(needs_escape) {
        let (plain, special) = rest.split_at(at);
        out.push_str(plain);
        let mut characters = special.chars();
        out.push_str(match characters.next() {
            Some('&') => "&amp;",
            Some('<') => "&lt;",
            Some('>') => "&gt;",
            Some('"') => "&quot;",
            Some('\r') => "&#xD;",
            _ => "\u{FFFD}",
        });
        rest = characters.as_str();
    }
    out.push_str(rest);
}

fn needs_escape(c: char) -> bool {
    match c {
        '\t' | '\n' => false,
        '&' | '<' | '>' | '"' | '\u{FFFE}' | '\u{FFFF}' => true,
        _ => c < ' ',
    }
}
