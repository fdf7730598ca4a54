//! Job types and their versions as a worker declares them: `mail.send`, `mail.send@2`, `mail.send@1-3`.

use recado_core::TypeRange;

use crate::limits::SCHEMA_VERSION_MAX;
use crate::name::check_name;

/// Reads a declaration.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<TypeRange, String> {
    let range = range(text).ok_or("write a type, type@2 or type@1-3")?;
    check_name(&range.kind)?;
    Ok(range)
}

/// As it is read.
pub fn text(range: &TypeRange) -> String {
    match range {
        TypeRange { kind, from, to } if from == to => format!("{kind}@{from}"),
        TypeRange { kind, from: 1, to: u32::MAX } => kind.to_string(),
        TypeRange { kind, from, to } => format!("{kind}@{from}-{to}"),
    }
}

fn range(text: &str) -> Option<TypeRange> {
    let Some((kind, versions)) = text.split_once('@') else {
        return Some(TypeRange { kind: text.into(), from: 1, to: u32::MAX });
    };
    let (from, to) = versions.split_once('-').unwrap_or((versions, versions));
    let version = |text: &str| text.parse().ok().filter(|version| (1..=SCHEMA_VERSION_MAX as u32).contains(version));
    let (from, to) = (version(from)?, version(to)?);
    (from <= to).then(|| TypeRange { kind: kind.into(), from, to })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_with_versions() {
        for (declared, expected) in [
            ("mail.send", Some((1, u32::MAX))),
            ("mail.send@2", Some((2, 2))),
            ("mail.send@1-3", Some((1, 3))),
            ("mail.send@3-1", None),
            ("mail.send@0", None),
            ("mail.send@", None),
            ("mail.send@x", None),
            ("mail.send@1-", None),
            ("recado.own", None),
            ("", None),
        ] {
            let read = parse(declared).ok();
            assert_eq!(read.as_ref().map(|range| (range.from, range.to)), expected, "{declared}");
            assert!(read.is_none_or(|range| text(&range) == declared));
        }
    }
}
