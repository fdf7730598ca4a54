//! `recado.toml`.

/// Any text is read, or refused with the line that is wrong.
pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Err(why) = recado_cli::check_config(text) else { return };
    let line = why.strip_prefix("recado.toml line ").and_then(|rest| rest.split(':').next());
    let line: usize = line.and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("no line is named: {why}"));
    assert!((1..=text.split('\n').count()).contains(&line), "there is no such line: {why}");
}
