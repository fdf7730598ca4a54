//! Pages of lists.

/// What part of a list is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// 1 to 1000; without one there is one page, and no token.
    pub max: Option<u32>,
    /// Goes on after this name.
    pub after: Option<String>,
}
