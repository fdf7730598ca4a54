//! One text: a look at every byte says which rules can apply at all, and only these are tried.

use super::{DEPTH_MAX, Hit, Kind, Path, Wanted, cards, encoded, names, personal, tokens, walk};

/// Shorter texts hold no token, card or address, whatever they are made of.
const SHORTEST: usize = 9;

/// The least of what a rule needs, counted in one pass.
#[derive(Default)]
pub(super) struct Shape {
    pub(super) digits: usize,
    pub(super) has_at: bool,
    pub(super) has_percent: bool,
    pub(super) has_tag: bool,
    pub(super) has_assignment: bool,
    /// The longest run of the Base64 alphabets.
    pub(super) longest_run: usize,
}

const DIGIT: u8 = 1;
const AT: u8 = 2;
const PERCENT: u8 = 4;
const TAG: u8 = 8;
const ASSIGNMENT: u8 = 16;
const RUN: u8 = 32;

/// What each byte is.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'0'..=b'9' => DIGIT | RUN,
            b'A'..=b'Z' | b'a'..=b'z' | b'+' | b'/' | b'-' | b'_' => RUN,
            b'@' => AT,
            b'%' => PERCENT,
            b'<' => TAG,
            b'=' | b':' => ASSIGNMENT,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

impl Shape {
    fn of(text: &[u8]) -> Self {
        let (mut all, mut digits, mut run, mut longest_run) = (0, 0, 0, 0);
        for byte in text {
            let class = CLASSES[usize::from(*byte)];
            all |= class;
            digits += usize::from(class & DIGIT);
            run = if class & RUN == 0 { 0 } else { run + 1 };
            longest_run = longest_run.max(run);
        }
        let has = |class| all & class != 0;
        Self {
            digits,
            has_at: has(AT),
            has_percent: has(PERCENT),
            has_tag: has(TAG),
            has_assignment: has(ASSIGNMENT),
            longest_run,
        }
    }
}

/// Finds what is wanted in a text that stands in a field of this name, `depth` layers of encoding deep.
pub(super) fn find(name: Option<&str>, text: &str, wanted: Wanted, depth: usize, report: &mut dyn FnMut(Hit)) {
    let is_named = name.is_some_and(|name| wanted.secrets && names::holds_secret(name, text));
    if text.len() < SHORTEST && !is_named {
        return personal::find_short(name, text, wanted, report);
    }
    let nested = if depth < DEPTH_MAX { find_in_json(text, wanted, depth + 1) } else { None };
    let is_long = wanted.personal && text.len() > personal::TEXT_BYTES_MAX;
    if !is_named && !is_long && nested.as_ref().is_some_and(Vec::is_empty) {
        // JSON within a text is judged as JSON, value by value; only where there is something the text says more.
        return;
    }
    let shape = Shape::of(text.as_bytes());
    let mut is_found = false;
    if wanted.secrets {
        let mut secret = |rule, span| {
            is_found = true;
            report(Hit { kind: Kind::Secret, rule, span });
        };
        tokens::find(text, shape.has_assignment, &mut secret);
        if shape.digits >= cards::DIGITS_MIN {
            cards::find(name, text, &mut |span| secret("payment-card", span));
        }
        // A format says more than a name.
        if let Some(rule) = name.filter(|_| is_named && !is_found).and_then(names::rule) {
            is_found = true;
            report(Hit { kind: Kind::Secret, rule, span: 0..text.len() });
        }
    }
    if wanted.personal {
        personal::find(name, text, &shape, &mut |rule, span| {
            is_found = true;
            report(Hit { kind: Kind::Personal, rule, span });
        });
    }
    if is_found {
        return;
    }
    match nested {
        Some(hits) => hits.into_iter().for_each(report),
        None if depth < DEPTH_MAX => find_within(name, text, &shape, wanted, depth + 1, report),
        None => {}
    }
}

/// What is found in a text that is JSON, as hits that cover it; `None` when it is not.
fn find_in_json(text: &str, wanted: Wanted, depth: usize) -> Option<Vec<Hit>> {
    let trimmed = text.trim_ascii();
    if !(trimmed.starts_with(['{', '[']) && trimmed.ends_with(['}', ']'])) {
        return None;
    }
    let mut hits = Vec::new();
    let is_json = walk(trimmed.as_bytes(), &Path::Root(""), wanted, depth, &mut |inner| {
        hits.push(Hit { kind: inner.kind, rule: inner.rule, span: 0..text.len() });
    });
    (is_json || !hits.is_empty()).then_some(hits)
}

/// Looks through one layer of encoding. What is found covers the encoded text.
fn find_within(
    name: Option<&str>,
    text: &str,
    shape: &Shape,
    wanted: Wanted,
    depth: usize,
    report: &mut dyn FnMut(Hit),
) {
    if shape.has_percent
        && let Some(decoded) = encoded::from_url(text)
    {
        find(name, &decoded, wanted, depth, &mut |inner| report(Hit { span: 0..text.len(), ..inner }));
    }
    if shape.longest_run >= encoded::BASE64_MIN {
        // A layer of encoding is often an accident of length: only secrets are looked for in it.
        let wanted = Wanted { personal: false, ..wanted };
        encoded::each_base64(text, &mut |span, decoded| {
            find(None, decoded, wanted, depth, &mut |inner| report(Hit { span: span.clone(), ..inner }));
        });
    }
}
