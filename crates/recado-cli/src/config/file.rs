//! `recado.toml`, read so that every later complaint can name its line.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};

use recado_contract::nearest::hint;
use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::failure::Failure;

/// The sections a file may have.
const SECTIONS: &[&str] = &["server", "sqs", "defaults", "queues", "limits", "types", "schedules"];
/// The keys of `[sqs]`.
const SQS_KEYS: &[&str] = &["isolate", "sixtySecondRules", "keys"];
/// The keys of `[server]`.
const SERVER_KEYS: &[&str] = &[
    "listen",
    "data",
    "durability",
    "payloadCache",
    "memory",
    "publicUrl",
    "logFormat",
    "autoCreateQueues",
    "insecureNoAuth",
];

/// A file's content as JSON values, with the line of everything in it.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// Where it was read from.
    pub(crate) path: PathBuf,
    /// `[server]`.
    pub(crate) server: Map<String, Value>,
    /// `[sqs]`.
    pub(crate) sqs: Map<String, Value>,
    /// `[defaults]`: options of every queue.
    pub(crate) defaults: Value,
    /// `[queues.NAME]`.
    pub(crate) queues: BTreeMap<String, Value>,
    /// `[limits.NAME]`.
    pub(crate) limits: BTreeMap<String, Value>,
    /// `[types."NAME"]`.
    pub(crate) types: BTreeMap<String, Value>,
    /// `[schedules.NAME]`.
    pub(crate) schedules: BTreeMap<String, Value>,
    /// Line by JSON pointer.
    lines: HashMap<String, usize>,
}

/// A place in the file: `recado.toml line 3`.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    path: PathBuf,
    line: usize,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}", self.path.display(), self.line)
    }
}

impl File {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::io(format!("cannot read {}", path.display()), &error))?;
        Self::parse(path, &text)
    }

    /// Takes a file's text apart.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, Failure> {
        let starts: Vec<usize> = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let line_at = |offset: usize| starts.partition_point(|start| *start <= offset);
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_at(span.start));
            Failure::bad_data(format!("{} line {line}: {}", path.display(), error.message()))
        })?;
        let mut lines = HashMap::new();
        let root = object(table.get_ref(), "", &line_at, &mut lines);
        let mut file = Self {
            path: path.to_owned(),
            server: Map::new(),
            sqs: Map::new(),
            defaults: Value::Object(Map::new()),
            queues: BTreeMap::new(),
            limits: BTreeMap::new(),
            types: BTreeMap::new(),
            schedules: BTreeMap::new(),
            lines,
        };
        for (section, value) in root {
            file.take(&section, value)?;
        }
        Ok(file)
    }

    fn take(&mut self, section: &str, value: Value) -> Result<(), Failure> {
        let pointer = format!("/{}", escape(section));
        if !SECTIONS.contains(&section) {
            return Err(self.wrong(&pointer, format!("unknown section [{section}]; {}", hint(section, SECTIONS))));
        }
        let Value::Object(members) = value else {
            return Err(self.wrong(&pointer, format!("{section} is a section: write [{section}]")));
        };
        match section {
            "server" => {
                self.check_keys(section, &members, SERVER_KEYS)?;
                self.server = members;
            }
            "sqs" => {
                self.check_keys(section, &members, SQS_KEYS)?;
                self.sqs = members;
            }
            "defaults" => self.defaults = Value::Object(members),
            "types" => self.types.extend(members),
            "schedules" => self.schedules = self.sections(section, "schedule", members)?,
            "limits" => self.limits = self.sections(section, "limit", members)?,
            _ => self.queues = self.sections(section, "queue", members)?,
        }
        Ok(())
    }

    /// Members that are sections themselves.
    fn sections(
        &self,
        section: &str,
        what: &str,
        members: Map<String, Value>,
    ) -> Result<BTreeMap<String, Value>, Failure> {
        if let Some(name) = members.iter().find(|(_, value)| !value.is_object()).map(|(name, _)| name) {
            let pointer = format!("/{section}/{}", escape(name));
            return Err(self.wrong(&pointer, format!("a {what} is a section: write [{section}.{name}]")));
        }
        Ok(members.into_iter().collect())
    }

    fn check_keys(&self, section: &str, members: &Map<String, Value>, known: &[&str]) -> Result<(), Failure> {
        let Some(key) = members.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
        let why = format!("unknown key `{key}` in [{section}]; {}", hint(key, known));
        Err(self.wrong(&format!("/{section}/{}", escape(key)), why))
    }

    /// The place of what `pointer` names, or of the nearest thing around it.
    pub(crate) fn line(&self, pointer: &str) -> Line {
        let mut pointer = pointer;
        let line = loop {
            if let Some(line) = self.lines.get(pointer) {
                break *line;
            }
            match pointer.rfind('/') {
                Some(at) => pointer = &pointer[..at],
                None => break 1,
            }
        };
        Line { path: self.path.clone(), line }
    }

    /// A complaint about what `pointer` names.
    pub(crate) fn wrong(&self, pointer: &str, why: impl fmt::Display) -> Failure {
        Failure::bad_data(format!("{}: {why}", self.line(pointer)))
    }
}

fn object(
    table: &DeTable<'_>,
    pointer: &str,
    line_at: &impl Fn(usize) -> usize,
    lines: &mut HashMap<String, usize>,
) -> Map<String, Value> {
    let mut members = Map::new();
    for (key, value) in table {
        let pointer = format!("{pointer}/{}", escape(key.get_ref()));
        lines.insert(pointer.clone(), line_at(key.span().start));
        members.insert(key.get_ref().to_string(), convert(value, &pointer, line_at, lines));
    }
    members
}

fn convert(
    value: &Spanned<DeValue<'_>>,
    pointer: &str,
    line_at: &impl Fn(usize) -> usize,
    lines: &mut HashMap<String, usize>,
) -> Value {
    match value.get_ref() {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::from(number),
            Err(_) => Value::String(number.to_string()),
        },
        DeValue::Float(number) => {
            let parsed = number.as_str().parse().ok().and_then(Number::from_f64);
            parsed.map_or_else(|| Value::String(number.to_string()), Value::Number)
        }
        DeValue::Boolean(yes) => Value::Bool(*yes),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(entries) => {
            let mut values = Vec::new();
            for (index, entry) in entries.iter().enumerate() {
                let pointer = format!("{pointer}/{index}");
                lines.insert(pointer.clone(), line_at(entry.span().start));
                values.push(convert(entry, &pointer, line_at, lines));
            }
            Value::Array(values)
        }
        DeValue::Table(table) => Value::Object(object(table, pointer, line_at, lines)),
    }
}

/// A name as a part of a JSON pointer (RFC 6901).
pub(crate) fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let failure = File::parse(Path::new("recado.toml"), text).expect_err("must be refused");
        assert_eq!(failure.message, expected);
    }

    #[test]
    fn complaints_name_the_line() {
        check(
            "[server]\nlisten = \"127.0.0.1:1\"\nlistne = \"x\"\n",
            "recado.toml line 3: unknown key `listne` in [server]; did you mean `listen`?",
        );
        check("\n[sever]\n", "recado.toml line 2: unknown section [sever]; did you mean `server`?");
        check("[queues]\nemail = 3\n", "recado.toml line 2: a queue is a section: write [queues.email]");
        let failure = File::parse(Path::new("recado.toml"), "[server]\nlisten = \n").expect_err("no value");
        assert!(failure.message.starts_with("recado.toml line 2: "), "{}", failure.message);
    }

    #[test]
    fn values_keep_their_kind_and_their_line() {
        let text = "[defaults]\nmaxAttempts = 1_000\n[queues.email]\nlimits = [\n \"a\",\n \"b\"]\n\
                    backoff = { kind = \"fixed\", factor = 1.5 }\n[queues.email.groups]\nordered = true\n";
        let file = File::parse(Path::new("recado.toml"), text).expect("parses");
        assert_eq!(file.defaults, serde_json::json!({ "maxAttempts": 1000 }));
        assert_eq!(
            file.queues["email"],
            serde_json::json!({ "limits": ["a", "b"], "backoff": { "kind": "fixed", "factor": 1.5 },
                "groups": { "ordered": true } })
        );
        for (pointer, line) in [
            ("/queues/email/limits/1", 6),
            ("/queues/email/backoff/factor", 7),
            ("/queues/email/groups/ordered", 9),
            ("/queues/email/groups/absent", 8),
            ("/defaults", 1),
        ] {
            assert_eq!(file.line(pointer).line, line, "{pointer}");
        }
    }
}
