//! The policy of a queue: a document that is kept and given back, and never evaluated.

use serde_json::{Map, Value, json};

use crate::arn::Arn;
use crate::error::{Code, SqsError};

/// Longest document.
pub const BYTES_MAX: usize = 8_192;

/// Most statements of a document.
pub const STATEMENTS_MAX: usize = 20;

/// Most actions of a statement that is added.
pub const STATEMENT_ACTIONS_MAX: usize = 7;

/// Whether this can be a queue's policy.
pub(crate) fn check(document: &str) -> Result<(), SqsError> {
    let fits = |document: &Map<String, Value>| statements(document).len() <= STATEMENTS_MAX;
    match serde_json::from_str(document) {
        Ok(Value::Object(map)) if document.len() <= BYTES_MAX && fits(&map) => Ok(()),
        _ => Err(SqsError::new(Code::InvalidAttributeValue, "Invalid value for the parameter Policy.")),
    }
}

/// Whether two documents say the same, however they are written.
pub(crate) fn same(one: Option<&str>, other: Option<&str>) -> bool {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    one == other || one.zip(other).is_some_and(|(one, other)| read(one) == read(other))
}

/// The document with one more statement, that these accounts may do that.
///
/// # Errors
/// When it has a statement of this label, or as many as it may have.
pub fn add(
    document: Option<&str>,
    queue: &Arn,
    label: &str,
    accounts: &[String],
    actions: &[String],
) -> Result<String, SqsError> {
    let mut document = read(document).unwrap_or_else(|| empty(queue));
    let mut statements = statements(&document);
    if statements.iter().any(|statement| is_labelled(statement, label)) {
        return Err(SqsError::label_exists(label));
    }
    if statements.len() >= STATEMENTS_MAX {
        let message = format!("{} statements were found, maximum allowed is {STATEMENTS_MAX}.", statements.len() + 1);
        return Err(SqsError::new(Code::OverLimit, message));
    }
    statements.push(json!({
        "Sid": label,
        "Effect": "Allow",
        "Principal": { "AWS": one_or_many(accounts, |account| format!("arn:aws:iam::{account}:root")) },
        "Action": one_or_many(actions, |action| format!("SQS:{action}")),
        "Resource": queue.to_string(),
    }));
    document.insert("Statement".to_owned(), Value::Array(statements));
    Ok(Value::Object(document).to_string())
}

/// The document without the statement of this label; `None` when none is left.
///
/// # Errors
/// When it has no such statement.
pub fn remove(document: Option<&str>, label: &str) -> Result<Option<String>, SqsError> {
    let mut document = read(document).ok_or_else(|| SqsError::label_not_found(label))?;
    let mut statements = statements(&document);
    let before = statements.len();
    statements.retain(|statement| !is_labelled(statement, label));
    if statements.len() == before {
        return Err(SqsError::label_not_found(label));
    }
    if statements.is_empty() {
        return Ok(None);
    }
    document.insert("Statement".to_owned(), Value::Array(statements));
    Ok(Some(Value::Object(document).to_string()))
}

fn read(document: Option<&str>) -> Option<Map<String, Value>> {
    serde_json::from_str(document?).ok()
}

fn empty(queue: &Arn) -> Map<String, Value> {
    Map::from_iter([
        ("Version".to_owned(), json!("2008-10-17")),
        ("Id".to_owned(), json!(format!("{queue}/SQSDefaultPolicy"))),
    ])
}

/// One statement may stand without a list.
fn statements(document: &Map<String, Value>) -> Vec<Value> {
    match document.get("Statement") {
        Some(Value::Array(statements)) => statements.clone(),
        Some(statement) => vec![statement.clone()],
        None => Vec::new(),
    }
}

fn is_labelled(statement: &Value, label: &str) -> bool {
    statement.get("Sid").and_then(Value::as_str) == Some(label)
}

fn one_or_many(words: &[String], text: impl Fn(&str) -> String) -> Value {
    match words {
        [one] => json!(text(one)),
        many => many.iter().map(|word| text(word)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Arn {
        Arn::parse("arn:aws:sqs:us-east-1:000000000000:email").unwrap()
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn statements_come_and_go() {
        let one = add(None, &queue(), "a", &words(&["111111111111"]), &words(&["ReceiveMessage"])).unwrap();
        let expected = json!({
            "Version": "2008-10-17",
            "Id": "arn:aws:sqs:us-east-1:000000000000:email/SQSDefaultPolicy",
            "Statement": [{
                "Sid": "a",
                "Effect": "Allow",
                "Principal": { "AWS": "arn:aws:iam::111111111111:root" },
                "Action": "SQS:ReceiveMessage",
                "Resource": "arn:aws:sqs:us-east-1:000000000000:email",
            }],
        });
        assert_eq!(serde_json::from_str::<Value>(&one).unwrap(), expected);

        let accounts = words(&["111111111111", "222222222222"]);
        let two = add(Some(&one), &queue(), "b", &accounts, &words(&["SendMessage", "*"])).unwrap();
        let statement = serde_json::from_str::<Value>(&two).unwrap()["Statement"][1].clone();
        assert_eq!(statement["Action"], json!(["SQS:SendMessage", "SQS:*"]));
        assert_eq!(
            statement["Principal"]["AWS"],
            json!(["arn:aws:iam::111111111111:root", "arn:aws:iam::222222222222:root"])
        );

        let again = add(Some(&two), &queue(), "b", &accounts, &words(&["*"])).unwrap_err();
        assert_eq!(again, SqsError::label_exists("b"));
        assert_eq!(remove(Some(&two), "c"), Err(SqsError::label_not_found("c")));
        assert_eq!(remove(None, "a"), Err(SqsError::label_not_found("a")));
        let left = remove(Some(&two), "a").unwrap().unwrap();
        assert_eq!(remove(Some(&left), "b"), Ok(None));
    }

    #[test]
    fn a_statement_of_the_owner_stays() {
        let own = r#"{"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*","Action":"SQS:*"}}"#;
        let added = add(Some(own), &queue(), "a", &words(&["111111111111"]), &words(&["*"])).unwrap();
        let document: Value = serde_json::from_str(&added).unwrap();
        assert_eq!(
            (document["Version"].as_str(), document["Statement"].as_array().unwrap().len()),
            (Some("2012-10-17"), 2)
        );
        assert_eq!(document["Statement"][0]["Effect"], "Deny");
    }

    #[test]
    fn limits() {
        let document = |count: usize| json!({ "Statement": vec![json!({ "Effect": "Deny" }); count] }).to_string();
        assert_eq!(check(&document(STATEMENTS_MAX)), Ok(()));
        assert_eq!(check(&document(STATEMENTS_MAX + 1)).unwrap_err().code(), Code::InvalidAttributeValue);
        let full = add(Some(&document(STATEMENTS_MAX)), &queue(), "a", &words(&["111111111111"]), &words(&["*"]));
        assert_eq!(full.unwrap_err().code(), Code::OverLimit);
        let long = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2));
        assert_eq!(check(&long(BYTES_MAX)), Ok(()));
        assert!(check(&long(BYTES_MAX + 1)).is_err());
        assert!(check("[]").is_err() && check("{").is_err());
    }
}
