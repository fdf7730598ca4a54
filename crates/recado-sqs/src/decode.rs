//! From bytes to a [`Request`].
//!
//! Both protocols become the same tree of members first (`members.rs`); how a request reads its members stands with
//! the request.

mod form;
mod members;
mod value;

pub(crate) use members::Members;

use http::Method;

use crate::action::Action;
use crate::call::{Call, Protocol, TARGET_HEADER, TARGET_PREFIX};
use crate::error::{Code, SqsError};
use crate::request::Request;
use crate::url::Address;
use value::{Tree, Value};

/// What a call asks.
///
/// # Errors
/// Whatever the service says without looking at the queue.
pub fn decode(call: &Call<'_>, protocol: Protocol) -> Result<Request, SqsError> {
    let (action, tree) = match protocol {
        Protocol::Json => (json_action(call), members::of_json(call.body)?),
        Protocol::Query => {
            let mut tree = form::tree(call)?;
            (query_action(call, &mut tree)?, tree)
        }
    };
    let known = Action::named(&action).ok_or_else(|| not_here(&action))?;
    let at = Address::of_path(call.path);
    if at.is_some() && matches!(known, Action::ListQueues | Action::CreateQueue) {
        return Err(not_here(&action));
    }
    Request::read(known, &mut Members::new(protocol, tree, at))
}

/// The action that the head of a call names; a form may name it in its body instead.
pub fn action_in_head(call: &Call<'_>) -> Option<Action> {
    if call.text_header(TARGET_HEADER).is_some() {
        return Action::named(&json_action(call));
    }
    let (_, action) = form_urlencoded::parse(call.query.as_bytes()).find(|(name, _)| name == "Action")?;
    Action::named(&action)
}

fn json_action(call: &Call<'_>) -> String {
    let target = call.text_header(TARGET_HEADER).unwrap_or_default();
    target.strip_prefix(TARGET_PREFIX).unwrap_or(target).to_owned()
}

fn query_action(call: &Call<'_>, tree: &mut Tree<'_>) -> Result<String, SqsError> {
    match tree.remove("Action") {
        Some(Value::Text(action)) => Ok(action.into_owned()),
        _ if *call.method == Method::GET => Err(SqsError::new(Code::UnknownOperation, "")),
        _ => Err(SqsError::new(Code::MissingAction, "The request must contain the parameter Action.")),
    }
}

fn not_here(action: &str) -> SqsError {
    SqsError::new(Code::InvalidAction, format!("The action {action} is not valid for this endpoint."))
}
