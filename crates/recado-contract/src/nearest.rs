//! The known word a mistyped one was meant to be.

/// The nearest of `known`, if one is near enough to be worth naming.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // Long input is cut: the distance costs its length times each known word's.
    let word: String = word.chars().take(64).collect::<String>().to_ascii_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= slips_max(word.len().min(candidate.len())))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Slips of which a word of this length may be made: where most of it differs, another was meant.
fn slips_max(length: usize) -> usize {
    match length {
        0..=2 => 0,
        3..=4 => 1,
        5..=8 => 2,
        _ => length / 3,
    }
}

/// What to say of a word that is not known: the nearest that is, or what there is to choose from.
pub fn hint(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
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
            ("ab", None),
            ("date", Some("data")),
            ("mate", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(hint("dta", &known), "did you mean `data`?");
        assert_eq!(hint("entirely-other", &known[..2]), "known are listen, data");
    }
}
