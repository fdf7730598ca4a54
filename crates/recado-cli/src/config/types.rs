//! `[types."NAME"]`: the schemas of a job type, by version.
//!
//! ```toml
//! [types."email.send"]
//! versions.1 = "schemas/email.send-1.json"   # a file beside this one
//! versions.2 = { type = "object", required = ["deliveryId"] }
//! ```

use std::collections::BTreeMap;

use serde_json::Value;

use super::file::{File, escape};
use crate::failure::Failure;
use crate::server;
use recado_contract::nearest::hint;

/// Text of schemas by type and version.
pub(crate) type Schemas = BTreeMap<String, BTreeMap<u32, String>>;

/// The keys of a section.
const KEYS: &[&str] = &["versions"];

/// Reads the sections and the files that they name.
pub(super) fn read(file: &File) -> Result<Schemas, Failure> {
    file.types.iter().map(|(kind, section)| Ok((kind.clone(), versions(file, kind, section)?))).collect()
}

fn versions(file: &File, kind: &str, section: &Value) -> Result<BTreeMap<u32, String>, Failure> {
    let pointer = format!("/types/{}", escape(kind));
    if let Err(why) = server::check_name(kind) {
        return Err(file.wrong(&pointer, format!("type `{kind}`: {why}")));
    }
    let form = || file.wrong(&pointer, "a type is a section with its schemas: versions.1 = \"schema.json\"");
    let members = section.as_object().ok_or_else(form)?;
    if let Some(key) = members.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let pointer = format!("{pointer}/{}", escape(key));
        let why = format!(
            "unknown key `{key}` of a type (a type with a dot in its name is written in quotes, as in \
             [types.\"email.send\"]); {}",
            hint(key, KEYS)
        );
        return Err(file.wrong(&pointer, why));
    }
    let versions = members.get("versions").and_then(Value::as_object).ok_or_else(form)?;
    let read = |(number, value): (&String, &Value)| {
        let pointer = format!("{pointer}/versions/{}", escape(number));
        let wrong = |why: String| file.wrong(&pointer, format!("`{kind}` version {number}: {why}"));
        schema(file, number, value).map_err(wrong)
    };
    versions.iter().map(read).collect()
}

fn schema(file: &File, number: &str, value: &Value) -> Result<(u32, String), String> {
    let parsed = number.parse().ok().filter(|number| (1..=i32::MAX as u32).contains(number));
    let version = parsed.ok_or("a version is a whole number from 1")?;
    let text = match value {
        Value::String(name) => {
            let path = file.path.parent().unwrap_or(&file.path).join(name);
            std::fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?
        }
        Value::Object(_) => value.to_string(),
        _ => return Err("a schema is the name of a file, or an inline table".to_owned()),
    };
    server::check_schema(&text)?;
    Ok((version, text))
}
