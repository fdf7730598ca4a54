//! "Did you mean": the nearest known word.

/// The known word nearest to `word`, if it is near enough to be a slip of the finger.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let wanted = word.to_lowercase();
    let distance = |candidate: &str| strsim::damerau_levenshtein(&wanted, &candidate.to_lowercase());
    let (best, steps) =
        known.iter().map(|candidate| (*candidate, distance(candidate))).min_by_key(|(_, steps)| *steps)?;
    let allowed = (word.chars().count() / 3).max(2);
    (steps <= allowed).then_some(best)
}

/// `, did you mean "x"?` or what there is to choose from.
pub(crate) fn hint(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(best) => format!("did you mean `{best}`?"),
        None => format!("known are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let known = ["listen", "data", "publicUrl", "payloadCache"];
        for (word, expected) in [
            ("listne", Some("listen")),
            ("public_url", Some("publicUrl")),
            ("payloadcache", Some("payloadCache")),
            ("dat", Some("data")),
            ("entirely-other", None),
        ] {
            assert_eq!(nearest(word, &known), expected, "{word}");
        }
    }
}
