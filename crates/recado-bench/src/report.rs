//! The figures as a table for people and as JSON for programs.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::stats::median;

const PATH: &str = "target/bench/bench.json";

/// One figure, measured a few times.
pub(crate) struct Line {
    /// The row: `a` to `g`, `q`, `s` or `w`.
    pub(crate) row: char,
    /// What was measured.
    pub(crate) what: String,
    /// The rounds; their median is shown.
    pub(crate) rounds: Vec<f64>,
    /// Of the figure.
    pub(crate) unit: &'static str,
    /// What it is compared to.
    pub(crate) against: Option<Against>,
    /// A few words more.
    pub(crate) note: String,
}

/// What a figure is compared to, in the same unit and measured in turns with it.
pub(crate) struct Against {
    /// A word for it.
    pub(crate) what: &'static str,
    /// As often as the figure itself.
    pub(crate) rounds: Vec<f64>,
}

impl Line {
    /// A figure without a comparison.
    pub(crate) fn new(row: char, what: impl Into<String>, unit: &'static str, rounds: Vec<f64>) -> Self {
        Self { row, what: what.into(), rounds, unit, against: None, note: String::new() }
    }

    /// Compared to this.
    pub(crate) fn against(self, what: &'static str, rounds: Vec<f64>) -> Self {
        Self { against: Some(Against { what, rounds }), ..self }
    }

    /// With a note.
    pub(crate) fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// The median of the ratios of each round, so that both sides saw the same weather.
    fn ratio(&self) -> Option<f64> {
        let against = self.against.as_ref()?;
        let ratios: Vec<f64> = self.rounds.iter().zip(&against.rounds).map(|(own, other)| own / other).collect();
        Some(median(&ratios))
    }

    fn cells(&self) -> [String; 6] {
        let against = self.against.as_ref();
        [
            format!("({})", self.row),
            self.what.clone(),
            format!("{} {}", number(median(&self.rounds)), self.unit),
            against.map_or_else(String::new, |against| format!("{} {}", against.what, number(median(&against.rounds)))),
            self.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            self.note.clone(),
        ]
    }

    fn json(&self) -> Value {
        let against = self.against.as_ref();
        json!({
            "row": self.row.to_string(),
            "what": self.what,
            "value": median(&self.rounds),
            "unit": self.unit,
            "rounds": self.rounds,
            "against": against.map(|against| json!({
                "what": against.what, "value": median(&against.rounds), "rounds": against.rounds,
            })),
            "ratio": self.ratio(),
            "note": self.note,
        })
    }
}

/// All of one run.
pub(crate) struct Report {
    machine: String,
    is_quick: bool,
    lines: Vec<Line>,
}

impl Report {
    /// Nothing yet.
    pub(crate) fn new(machine: String, is_quick: bool) -> Self {
        Self { machine, is_quick, lines: Vec::new() }
    }

    /// Adds a figure and shows it at once.
    pub(crate) fn add(&mut self, line: Line) {
        let [row, what, figure, against, ratio, note] = line.cells();
        crate::progress(&format!("{row} {what}: {figure}  {against}  {ratio}  {note}"));
        self.lines.push(line);
    }

    /// Aligned, also as Markdown.
    pub(crate) fn table(&self) -> String {
        let mut rows: Vec<[String; 6]> =
            vec![["row", "what", "result", "beside it", "ratio", "remark"].map(Into::into)];
        rows.extend(self.lines.iter().map(Line::cells));
        let widths: Vec<usize> = (0..6)
            .map(|column| {
                rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let mut table = format!("{}{}\n\n", self.machine, if self.is_quick { ", --quick: rough figures" } else { "" });
        for (index, row) in rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                // Figures to the right, words to the left.
                if matches!(column, 2 | 4) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            table += &format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
            if index == 0 {
                let rules = widths.iter().enumerate().map(|(column, width)| {
                    if matches!(column, 2 | 4) { format!("{}:", "-".repeat(width + 1)) } else { "-".repeat(width + 2) }
                });
                table += &format!("|{}|\n", rules.collect::<Vec<_>>().join("|"));
            }
        }
        table
    }

    /// Writes the JSON; says where.
    pub(crate) fn write(&self) -> Result<PathBuf> {
        let path = PathBuf::from(PATH);
        let lines: Vec<Value> = self.lines.iter().map(Line::json).collect();
        let text = serde_json::to_string_pretty(&json!({
            "machine": self.machine, "quick": self.is_quick, "figures": lines,
        }))?;
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::write(&path, text + "\n").with_context(|| format!("cannot write {PATH}"))?;
        Ok(path)
    }
}

/// Three digits that count; thousands apart.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    let decimals = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) && digit.is_ascii_digit() {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    rest.map_or_else(|| grouped.clone(), |rest| format!("{grouped}.{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (value, expected) in [
            (1_234_567.8, "1,234,568"),
            (999.4, "999"),
            (12.34, "12.3"),
            (0.456, "0.46"),
            (f64::NAN, "-"),
            (100.0, "100"),
        ] {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let line = Line::new('a', "x", "jobs/s", vec![10.0, 40.0, 5.0]).against("bare", vec![20.0, 80.0, 5.0]);
        assert_eq!(line.ratio(), Some(0.5));
        let mut report = Report::new("2-core".into(), true);
        report.add(line);
        let table = report.table();
        let widths: Vec<usize> = table.lines().skip(2).map(|line| line.chars().count()).collect();
        assert_eq!(widths.len(), 3);
        assert!(widths.iter().all(|width| *width == widths[0]), "{table}");
    }
}
