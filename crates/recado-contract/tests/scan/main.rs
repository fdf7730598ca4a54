//! How much of what should not be in a queue is found, and how much that may be in it is left alone.
//!
//! Both corpora are made up while the test runs, from a fixed seed: what looks like a real secret would stand in no
//! file for long. The formats are those that the providers publish.

mod negatives;
mod positives;

use recado_contract::scan::{Wanted, mask_json, scan_json};

const POSITIVES_MIN: usize = 200;
const NEGATIVES_MIN: usize = 2_000;
const RECALL_MIN: f64 = 0.98;
const FALSE_MAX: f64 = 0.002;

/// A small generator (SplitMix64): the same corpus each time.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }

    pub(crate) fn of(&mut self, alphabet: &str, length: usize) -> String {
        let alphabet = alphabet.as_bytes();
        (0..length).map(|_| char::from(alphabet[self.below(alphabet.len())])).collect()
    }

    pub(crate) fn pick<'t>(&mut self, among: &[&'t str]) -> &'t str {
        among[self.below(among.len())]
    }
}

pub(crate) const DIGITS: &str = "0123456789";
pub(crate) const HEX: &str = "0123456789abcdef";
pub(crate) const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
pub(crate) const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..part.len()].copy_from_slice(part);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            let letter = ALPHABET[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place > part.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[test]
fn secrets_are_found() {
    let corpus = positives::secrets();
    assert!(corpus.len() >= POSITIVES_MIN, "{} positives", corpus.len());
    let missed: Vec<_> = corpus
        .iter()
        .filter(|case| scan_json(case.json.as_bytes(), "/payload", Wanted::SECRETS).is_empty())
        .map(|case| case.what.as_str())
        .collect();
    let recall = 1.0 - missed.len() as f64 / corpus.len() as f64;
    println!("{} positives, recall {recall:.4}", corpus.len());
    assert!(recall >= RECALL_MIN, "recall {recall:.4}, missed: {missed:?}");
}

#[test]
fn what_is_found_can_be_masked_so_that_nothing_is_left_to_find() {
    for case in positives::secrets() {
        let masked = mask_json(case.json.as_bytes()).into_owned();
        let left = scan_json(&masked, "", Wanted::SECRETS);
        assert!(left.is_empty(), "{}: {left:?} is left", case.what);
        let found = !scan_json(case.json.as_bytes(), "", Wanted::SECRETS).is_empty();
        let text = String::from_utf8(masked).expect("masked JSON is UTF-8");
        assert!(!found || !text.contains(&case.secret), "{}: the value is still there", case.what);
        assert!(text.len() <= case.json.len(), "{}: masking makes nothing longer", case.what);
    }
}

#[test]
fn data_about_people_is_found() {
    let corpus = positives::personal();
    let wanted = Wanted { secrets: false, personal: true };
    let missed: Vec<_> = corpus
        .iter()
        .filter(|case| scan_json(case.json.as_bytes(), "/payload", wanted).is_empty())
        .map(|case| case.what.as_str())
        .collect();
    let recall = 1.0 - missed.len() as f64 / corpus.len() as f64;
    println!("{} positives, recall {recall:.4}", corpus.len());
    assert!(recall >= RECALL_MIN, "recall {recall:.4}, missed: {missed:?}");
}

#[test]
fn what_may_be_in_a_queue_is_left_alone() {
    let corpus = negatives::all();
    assert!(corpus.len() >= NEGATIVES_MIN, "{} negatives", corpus.len());
    for (what, wanted) in
        [("secrets", Wanted::SECRETS), ("data about people", Wanted { secrets: false, personal: true })]
    {
        let found: Vec<_> = corpus
            .iter()
            .flat_map(|json| scan_json(json.as_bytes(), "", wanted).into_iter().map(move |found| (found.rule, json)))
            .collect();
        let share = found.len() as f64 / corpus.len() as f64;
        println!("{} negatives, {} taken for {what}", corpus.len(), found.len());
        assert!(share <= FALSE_MAX, "{what}: {share:.4} of the negatives, {found:#?}");
    }
}
