//! What the audience sees.

use std::cell::Cell;
use std::time::Instant;

use serde_json::json;

use crate::failure::Failure;
use crate::ui::{Paint, Ui};

/// Prints what happens as it happens: text for people, or a JSON object a line.
pub(super) struct Stage {
    ui: Ui,
    started: Instant,
    act: Cell<char>,
}

impl Stage {
    /// An empty stage.
    pub(super) fn new(ui: Ui) -> Self {
        Self { ui, started: Instant::now(), act: Cell::new('-') }
    }

    /// The first line.
    pub(super) fn title(&self, text: &str) -> Result<(), Failure> {
        self.print("title", text, || self.ui.paint(Paint::Bold, text))
    }

    /// An act begins with what it promises.
    pub(super) fn act(&self, letter: char, title: &str, promise: &str) -> Result<(), Failure> {
        self.act.set(letter);
        self.print("promise", &format!("{title}: {promise}"), || {
            let heading = format!("Act {letter}: {title}");
            format!("\n{}\n  promise: {promise}", self.ui.paint(Paint::Bold, &heading))
        })
    }

    /// Something happened.
    pub(super) fn say(&self, text: &str) -> Result<(), Failure> {
        self.print("event", text, || self.stamped(text))
    }

    /// Something went well.
    pub(super) fn good(&self, text: &str) -> Result<(), Failure> {
        self.print("event", text, || self.stamped(&self.ui.paint(Paint::Green, text)))
    }

    /// Something has to wait.
    pub(super) fn held(&self, text: &str) -> Result<(), Failure> {
        self.print("event", text, || self.stamped(&self.ui.paint(Paint::Yellow, text)))
    }

    /// Something failed, as it should in this place.
    pub(super) fn bad(&self, text: &str) -> Result<(), Failure> {
        self.print("event", text, || self.stamped(&self.ui.paint(Paint::Red, text)))
    }

    /// The act's promise was checked and kept.
    pub(super) fn kept(&self, text: &str) -> Result<(), Failure> {
        self.print("kept", text, || format!("  {} {text}", self.ui.paint(Paint::Green, "as promised:")))
    }

    /// What to do next.
    pub(super) fn note(&self, text: &str) -> Result<(), Failure> {
        self.print("note", text, || format!("\n{text}"))
    }

    /// The curtain.
    pub(super) fn end(&self, ok: bool) -> Result<(), Failure> {
        let seconds = self.started.elapsed().as_secs_f64();
        if self.ui.json {
            return self.ui.line(json!({ "done": true, "ok": ok, "seconds": seconds }).to_string());
        }
        if !ok {
            return Ok(());
        }
        let text = format!("All four acts ended as promised, in {seconds:.1} s.");
        self.ui.line(format!("\n{}", self.ui.paint(Paint::Green, &text)))
    }

    fn stamped(&self, text: &str) -> String {
        let stamp = format!("{:>7.3} s", self.started.elapsed().as_secs_f64());
        format!("  {}  {text}", self.ui.paint(Paint::Dim, &stamp))
    }

    fn print(&self, kind: &str, text: &str, human: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.ui.json {
            let at = self.started.elapsed().as_secs_f64();
            let act = self.act.get().to_string();
            return self.ui.line(json!({ "act": act, "at": at, "kind": kind, "text": text }).to_string());
        }
        self.ui.line(human())
    }
}
