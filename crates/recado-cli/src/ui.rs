//! What people and scripts see: lines, tables, JSON, and colour on a terminal only.

use std::io::{self, IsTerminal, Write};

use serde_json::Value;

use crate::failure::Failure;

/// How to print.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ui {
    /// JSON for scripts instead of text for people.
    pub(crate) json: bool,
    /// Standard output is a terminal that wants colour.
    pub(crate) color: bool,
}

/// Colours that are readable on dark and on light.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Paint {
    /// Headings.
    Bold,
    /// What went well.
    Green,
    /// What failed.
    Red,
    /// What waits.
    Yellow,
    /// What is beside the point.
    Dim,
}

impl Ui {
    /// Looks at the terminal and at `NO_COLOR`.
    pub(crate) fn new(json: bool) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { json, color: !json && !refused && io::stdout().is_terminal() }
    }

    /// One line on standard output.
    pub(crate) fn line(self, text: impl AsRef<str>) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_ref().as_bytes())?;
        out.write_all(b"\n")?;
        out.flush()?;
        Ok(())
    }

    /// An answer: as the server sent it with `--json`, else what `human` makes of it.
    pub(crate) fn answer(self, text: &str, human: impl FnOnce(&Value) -> String) -> Result<(), Failure> {
        if self.json {
            return self.line(text.trim_end());
        }
        let value: Value = serde_json::from_str(text)
            .map_err(|error| Failure::bad_data(format!("the server's answer is not JSON: {error}")))?;
        self.line(human(&value).trim_end())
    }

    /// `text` in a colour, or as it is.
    pub(crate) fn paint(self, paint: Paint, text: &str) -> String {
        if !self.color {
            return text.to_owned();
        }
        let code = match paint {
            Paint::Bold => "1",
            Paint::Green => "32",
            Paint::Red => "31",
            Paint::Yellow => "33",
            Paint::Dim => "2",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// Columns under headings, two blanks between them.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|heading| (*heading).to_owned()).collect()] }
    }

    /// One more row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table, or `empty` when it has no rows.
    pub(crate) fn render(&self, empty: &str) -> String {
        if self.rows.len() == 1 {
            return empty.to_owned();
        }
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let lengths = self.rows.iter().filter_map(|row| row.get(column));
            lengths.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                let blanks = width + 2 - cell.chars().count();
                line.push_str(&" ".repeat(blanks));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// A member as a table cell: strings without quotes, nothing for null.
pub(crate) fn cell(value: &Value, member: &str) -> String {
    plain(value.get(member).unwrap_or(&Value::Null))
}

/// A value for people: strings without quotes, `-` for null.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => printable(text),
        other => other.to_string(),
    }
}

/// Text from elsewhere without control characters: a job must not be able to drive a terminal.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

/// The array under `member`, or an empty one.
pub(crate) fn list<'a>(value: &'a Value, member: &str) -> &'a [Value] {
    value.get(member).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_aligns_and_leaves_no_blanks_at_the_end() {
        let mut table = Table::new(&["NAME", "READY"]);
        table.row(vec!["e-mail".into(), "1".into()]);
        table.row(vec!["x".into(), "1000000".into()]);
        assert_eq!(table.render("none"), "NAME    READY\ne-mail  1\nx       1000000\n");
        assert_eq!(Table::new(&["NAME"]).render("none"), "none");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb"), "a\u{fffd}[31mb");
    }
}
