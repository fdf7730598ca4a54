//! Which attributes a receive shows.

use super::SystemAttribute;

/// Names of the message's own attributes, or what they begin with. What names nothing is ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributeFilter {
    all: bool,
    names: Vec<String>,
    prefixes: Vec<String>,
}

/// Which of the service's attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemFilter {
    all: bool,
    names: Vec<SystemAttribute>,
}

impl AttributeFilter {
    /// Out of the names of a request.
    pub fn new(names: Vec<String>) -> Self {
        let mut filter = Self::default();
        for mut name in names {
            if matches!(name.as_str(), "All" | ".*" | "*") {
                filter.all = true;
            } else if name.ends_with(".*") {
                name.pop();
                filter.prefixes.push(name);
            } else {
                filter.names.push(name);
            }
        }
        filter
    }

    /// Whether none can be shown.
    pub fn is_empty(&self) -> bool {
        !self.all && self.names.is_empty() && self.prefixes.is_empty()
    }

    /// Whether an attribute is shown.
    pub fn shows(&self, name: &str) -> bool {
        self.all || self.names.iter().any(|one| one == name) || self.prefixes.iter().any(|one| name.starts_with(one))
    }
}

impl SystemFilter {
    /// Out of the names of a request.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut filter = Self::default();
        for name in names {
            match SystemAttribute::named(name) {
                _ if name == "All" => filter.all = true,
                Some(attribute) => filter.names.push(attribute),
                None => {}
            }
        }
        filter
    }

    /// Whether an attribute is shown.
    pub fn shows(&self, name: SystemAttribute) -> bool {
        self.all || self.names.contains(&name)
    }
}
