//! What a schema can cost, found out before it is used.
//!
//! A value is looked at by its own schema, by all that apply in the same place (`allOf`, `$ref`, ...), and once more
//! by each of those that come to it from the value around it. The count below is of the worst path down a payload:
//! fields of one `properties` lead to different values, all else may lead to the same one.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::json::escape;

/// Keywords and listed values that one value of a payload may be held against.
pub const COST_MAX: u64 = 2_000;

/// Payloads are nested no deeper.
const DEPTH_MAX: usize = 128;

/// Keywords whose schemas apply in the same place.
const HERE: &[&str] = &["not", "if", "then", "else"];
const HERE_LISTS: &[&str] = &["allOf", "anyOf", "oneOf"];
/// Keywords whose schemas apply to what is within.
const WITHIN: &[&str] =
    &["items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties"];

/// A schema within the schema.
#[derive(Default)]
struct Node {
    pointer: String,
    /// Keywords and listed values of its own.
    own: u64,
    here: Vec<usize>,
    reference: Option<String>,
    /// Each list leads to different values.
    within: Vec<Vec<usize>>,
    /// Looks at the same place a second time, to know what is left.
    is_twice: bool,
}

/// Pointer and text of what is wrong.
type Fault = (String, String);

/// Refuses references to the outside, circles and costs without bound.
pub(super) fn check(schema: &Value) -> Result<(), Fault> {
    let mut nodes = Vec::new();
    add(schema, String::new(), &mut nodes)?;
    let by_pointer: HashMap<String, usize> =
        nodes.iter().enumerate().map(|(index, node)| (node.pointer.clone(), index)).collect();
    for node in &mut nodes {
        let Some(reference) = node.reference.take() else { continue };
        let target = reference.strip_prefix('#').and_then(|pointer| by_pointer.get(pointer));
        let Some(target) = target else {
            let message =
                format!("`{reference}` is not a schema within this one; put it under $defs and refer to #/$defs/...");
            return Err((format!("{}/$ref", node.pointer), message));
        };
        node.here.push(*target);
    }
    let order = order(&nodes)?;
    // What one value so deep below a schema is held against, for one depth after the other.
    let mut above: Option<Vec<u64>> = None;
    for _ in 0..DEPTH_MAX {
        let costs = costs(&nodes, &order, above.as_deref());
        if let Some(index) = (0..nodes.len()).find(|index| costs[*index] > COST_MAX) {
            let message = format!("one value could be held against more than {COST_MAX} keywords; make it simpler");
            return Err((nodes[index].pointer.clone(), message));
        }
        if above.as_ref() == Some(&costs) {
            break;
        }
        above = Some(costs);
    }
    Ok(())
}

/// Of each schema, what a value is held against that stands one deeper below it than in `above`.
fn costs(nodes: &[Node], order: &[usize], above: Option<&[u64]>) -> Vec<u64> {
    let mut costs = vec![0_u64; nodes.len()];
    for index in order {
        let node = &nodes[*index];
        let here = node.here.iter().map(|other| costs[*other]).fold(0, u64::saturating_add);
        let here = if node.is_twice { here.saturating_mul(2) } else { here };
        let own = match above {
            None => node.own,
            Some(above) => {
                let worst = |list: &Vec<usize>| list.iter().map(|other| above[*other]).max().unwrap_or(0);
                node.within.iter().map(worst).fold(0, u64::saturating_add)
            }
        };
        costs[*index] = own.saturating_add(here);
    }
    costs
}

/// Schemas so that those that apply in the same place come first.
fn order(nodes: &[Node]) -> Result<Vec<usize>, Fault> {
    let mut order = Vec::with_capacity(nodes.len());
    // Not seen, being looked at, done.
    let mut seen = vec![0_u8; nodes.len()];
    for start in 0..nodes.len() {
        let mut path = vec![(start, 0)];
        while let Some((index, next)) = path.pop() {
            if next == 0 && seen[index] == 2 {
                continue;
            }
            seen[index] = 1;
            match nodes[index].here.get(next) {
                Some(other) if seen[*other] == 1 => {
                    let message = "refers to itself in the same place: it would never end".to_owned();
                    return Err((format!("{}/$ref", nodes[index].pointer), message));
                }
                Some(other) => path.extend([(index, next + 1), (*other, 0)]),
                None => {
                    seen[index] = 2;
                    order.push(index);
                }
            }
        }
    }
    Ok(order)
}

/// Adds a schema and all within it; gives its number.
fn add(schema: &Value, pointer: String, nodes: &mut Vec<Node>) -> Result<usize, Fault> {
    let index = nodes.len();
    nodes.push(Node { pointer: pointer.clone(), own: 1, ..Node::default() });
    let Value::Object(keywords) = schema else { return Ok(index) };
    for keyword in ["$dynamicRef", "$recursiveRef"] {
        if keywords.contains_key(keyword) {
            return Err((format!("{pointer}/{keyword}"), "is not supported; use $ref".to_owned()));
        }
    }
    if keywords.contains_key("$id") && !pointer.is_empty() {
        return Err((format!("{pointer}/$id"), "only the whole schema may have an $id".to_owned()));
    }
    let listed: usize = keywords.values().map(|value| value.as_array().map_or(0, Vec::len)).sum();
    let own = (keywords.len() + listed) as u64;
    let is_twice = keywords.contains_key("unevaluatedItems") || keywords.contains_key("unevaluatedProperties");
    let reference = keywords.get("$ref").and_then(Value::as_str).map(str::to_owned);
    let (here, within) = parts(keywords, &pointer, nodes)?;
    nodes[index] = Node { pointer, own, here, reference, within, is_twice };
    Ok(index)
}

type Parts = (Vec<usize>, Vec<Vec<usize>>);

fn parts(keywords: &Map<String, Value>, pointer: &str, nodes: &mut Vec<Node>) -> Result<Parts, Fault> {
    let (mut here, mut within) = (Vec::new(), Vec::new());
    for (keyword, value) in keywords {
        let at = format!("{pointer}/{}", escape(keyword));
        let word = keyword.as_str();
        if HERE.contains(&word) {
            here.push(add(value, at, nodes)?);
        } else if WITHIN.contains(&word) {
            within.push(vec![add(value, at, nodes)?]);
        } else if HERE_LISTS.contains(&word) || word == "prefixItems" {
            let mut list = Vec::new();
            for (index, entry) in value.as_array().into_iter().flatten().enumerate() {
                list.push(add(entry, format!("{at}/{index}"), nodes)?);
            }
            if word == "prefixItems" { within.push(list) } else { here.extend(list) }
        } else if matches!(word, "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions") {
            let mut list = Vec::new();
            for (name, entry) in value.as_object().into_iter().flatten() {
                list.push(add(entry, format!("{at}/{}", escape(name)), nodes)?);
            }
            match word {
                "properties" => within.push(list),
                "patternProperties" => within.extend(list.into_iter().map(|pattern| vec![pattern])),
                "dependentSchemas" => here.extend(list),
                _ => {}
            }
        }
    }
    Ok((here, within))
}
