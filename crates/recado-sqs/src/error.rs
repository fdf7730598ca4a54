//! What the service says when it refuses: the table of codes, and a constructor for each message it is known to send.
//!
//! Clients compare codes, and some of them messages; both are the service's own words and stay as they are.

use std::fmt;

use http::StatusCode;

use crate::call::Protocol;
use crate::message::BATCH_BYTES_MAX;

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct SqsError {
    code: Code,
    message: String,
}

/// What begins otherwise in a batch.
const INVALID_PARAMETERS: &str = "One or more parameters are invalid.";

/// One row of the table.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// What stands behind `#` in a JSON error's `__type`.
    shape: &'static str,
    /// The code of the Query protocol, and of the header `x-amzn-query-error`.
    query: &'static str,
    status: StatusCode,
    /// What stands before `#`.
    namespace: &'static str,
}

const SQS: &str = "com.amazonaws.sqs";
/// Of errors that are no service's own.
const CORAL: &str = "com.amazon.coral.service";

macro_rules! codes {
    ($($code:ident: $shape:literal, $query:literal, $status:ident, $namespace:ident;)*) => {
        /// Why something was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = concat!("`", $query, "`.")] $code,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$code,)*];

            fn row(self) -> Row {
                match self {
                    $(Self::$code => Row {
                        shape: $shape,
                        query: $query,
                        status: StatusCode::$status,
                        namespace: $namespace,
                    },)*
                }
            }
        }
    };
}

codes! {
    QueueDoesNotExist: "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", BAD_REQUEST, SQS;
    QueueNameExists: "QueueNameExists", "QueueAlreadyExists", BAD_REQUEST, SQS;
    QueueDeletedRecently: "QueueDeletedRecently", "AWS.SimpleQueueService.QueueDeletedRecently", BAD_REQUEST, SQS;
    PurgeQueueInProgress: "PurgeQueueInProgress", "AWS.SimpleQueueService.PurgeQueueInProgress", FORBIDDEN, SQS;
    OverLimit: "OverLimit", "OverLimit", FORBIDDEN, SQS;
    ReceiptHandleIsInvalid: "ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", BAD_REQUEST, SQS;
    InvalidIdFormat: "InvalidIdFormat", "InvalidIdFormat", BAD_REQUEST, SQS;
    MessageNotInflight: "MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight", BAD_REQUEST, SQS;
    InvalidMessageContents: "InvalidMessageContents", "InvalidMessageContents", BAD_REQUEST, SQS;
    InvalidAttributeName: "InvalidAttributeName", "InvalidAttributeName", BAD_REQUEST, SQS;
    InvalidAttributeValue: "InvalidAttributeValue", "InvalidAttributeValue", BAD_REQUEST, SQS;
    TooManyEntriesInBatchRequest:
        "TooManyEntriesInBatchRequest", "AWS.SimpleQueueService.TooManyEntriesInBatchRequest", BAD_REQUEST, SQS;
    EmptyBatchRequest: "EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest", BAD_REQUEST, SQS;
    BatchEntryIdsNotDistinct:
        "BatchEntryIdsNotDistinct", "AWS.SimpleQueueService.BatchEntryIdsNotDistinct", BAD_REQUEST, SQS;
    InvalidBatchEntryId: "InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId", BAD_REQUEST, SQS;
    BatchRequestTooLong: "BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong", BAD_REQUEST, SQS;
    UnsupportedOperation: "UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation", BAD_REQUEST, SQS;
    ResourceNotFound: "ResourceNotFoundException", "ResourceNotFoundException", NOT_FOUND, SQS;
    InvalidParameterValue: "InvalidParameterValueException", "InvalidParameterValue", BAD_REQUEST, SQS;
    MissingParameter: "MissingRequiredParameterException", "MissingParameter", BAD_REQUEST, SQS;
    RequestThrottled: "RequestThrottled", "RequestThrottled", FORBIDDEN, SQS;
    InvalidAddress: "InvalidAddress", "InvalidAddress", BAD_REQUEST, SQS;
    InvalidSecurity: "InvalidSecurity", "InvalidSecurity", BAD_REQUEST, SQS;
    KmsDisabled: "KmsDisabled", "KMS.DisabledException", BAD_REQUEST, SQS;
    KmsInvalidState: "KmsInvalidState", "KMS.InvalidStateException", BAD_REQUEST, SQS;
    KmsNotFound: "KmsNotFound", "KMS.NotFoundException", BAD_REQUEST, SQS;
    KmsOptInRequired: "KmsOptInRequired", "KMS.OptInRequired", BAD_REQUEST, SQS;
    KmsThrottled: "KmsThrottled", "KMS.ThrottlingException", BAD_REQUEST, SQS;
    KmsAccessDenied: "KmsAccessDenied", "KMS.AccessDeniedException", BAD_REQUEST, SQS;
    KmsInvalidKeyUsage: "KmsInvalidKeyUsage", "KMS.InvalidKeyUsageException", BAD_REQUEST, SQS;
    InvalidAction: "InvalidAction", "InvalidAction", BAD_REQUEST, SQS;
    UnknownOperation: "UnknownOperationException", "UnknownOperationException", NOT_FOUND, CORAL;
    MissingAction: "MissingAction", "MissingAction", BAD_REQUEST, CORAL;
    MalformedInput: "SerializationException", "MalformedInput", BAD_REQUEST, CORAL;
    RequestTooLarge: "RequestEntityTooLargeException", "RequestEntityTooLarge", PAYLOAD_TOO_LARGE, CORAL;
    MissingAuthenticationToken:
        "MissingAuthenticationTokenException", "MissingAuthenticationToken", FORBIDDEN, CORAL;
    InvalidClientTokenId: "UnrecognizedClientException", "InvalidClientTokenId", FORBIDDEN, CORAL;
    SignatureDoesNotMatch: "InvalidSignatureException", "SignatureDoesNotMatch", FORBIDDEN, CORAL;
    IncompleteSignature: "IncompleteSignatureException", "IncompleteSignature", BAD_REQUEST, CORAL;
    RequestExpired: "RequestExpired", "RequestExpired", BAD_REQUEST, CORAL;
    AccessDenied: "AccessDeniedException", "AccessDenied", FORBIDDEN, CORAL;
    ServiceUnavailable: "ServiceUnavailableException", "ServiceUnavailable", SERVICE_UNAVAILABLE, CORAL;
    InternalFailure: "InternalFailure", "InternalFailure", INTERNAL_SERVER_ERROR, CORAL;
}

impl Code {
    /// As in an error of the Query protocol, the header `x-amzn-query-error` and a batch's failed entry.
    pub fn query_code(self) -> &'static str {
        self.row().query
    }

    /// As in the `__type` of a JSON error, with its namespace.
    pub fn json_type(self) -> String {
        let Row { namespace, shape, .. } = self.row();
        format!("{namespace}#{shape}")
    }

    /// Of the answer.
    pub fn status(self) -> StatusCode {
        self.row().status
    }

    /// Whether the caller has to change something.
    pub fn is_senders_fault(self) -> bool {
        self.row().status.is_client_error()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.query_code())
    }
}

impl SqsError {
    /// A refusal in words of the caller's.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Why.
    pub fn code(&self) -> Code {
        self.code
    }

    /// In words, as this protocol says it.
    pub fn message(&self, protocol: Protocol) -> &str {
        match (self.code, protocol) {
            (Code::QueueDoesNotExist, Protocol::Query) => "The specified queue does not exist for this wsdl version.",
            _ => &self.message,
        }
    }

    /// The queue, or the queue of a URL, is not there.
    pub fn queue_does_not_exist() -> Self {
        Self::new(Code::QueueDoesNotExist, "The specified queue does not exist.")
    }

    /// A second CreateQueue asks for something else.
    pub fn queue_name_exists(attribute: &str) -> Self {
        let message =
            format!("A queue already exists with the same name and a different value for attribute {attribute}");
        Self::new(Code::QueueNameExists, message)
    }

    /// The name rests for 60 seconds.
    pub fn queue_deleted_recently() -> Self {
        Self::new(
            Code::QueueDeletedRecently,
            "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
        )
    }

    /// A second purge within 60 seconds.
    pub fn purge_in_progress(queue: &str) -> Self {
        let message = format!("Only one PurgeQueue operation on {queue} is allowed every 60 seconds.");
        Self::new(Code::PurgeQueueInProgress, message)
    }

    /// More is in flight than may be.
    pub fn too_many_in_flight() -> Self {
        Self::new(Code::OverLimit, "The maximum number of messages in flight has been reached.")
    }

    /// Not one of this queue's handles.
    pub fn receipt_handle_is_invalid(handle: &str) -> Self {
        let message = format!("The input receipt handle \"{handle}\" is not a valid receipt handle.");
        Self::new(Code::ReceiptHandleIsInvalid, message)
    }

    /// A FIFO queue takes no late delete.
    pub fn receipt_handle_expired(handle: &str) -> Self {
        Self::invalid_value(handle, "ReceiptHandle", "The receipt handle has expired.")
    }

    /// The visibility of a message that is gone.
    pub fn message_not_available(handle: &str) -> Self {
        let reason = "Message does not exist or is not available for visibility timeout change.";
        Self::invalid_value(handle, "ReceiptHandle", reason)
    }

    /// The visibility of a message that nobody holds.
    pub fn message_not_in_flight() -> Self {
        Self::new(Code::MessageNotInflight, "The specified message isn't in flight.")
    }

    /// A label that the policy has.
    pub fn label_exists(label: &str) -> Self {
        Self::invalid_value(label, "Label", "Already exists.")
    }

    /// A label that the policy has not.
    pub fn label_not_found(label: &str) -> Self {
        Self::invalid_value(label, "Label", "can't find label.")
    }

    /// A move from a queue that no redrive policy names.
    pub fn source_is_no_dead_letter_queue() -> Self {
        Self::new(Code::InvalidParameterValue, "Source queue must be configured as a Dead Letter Queue.")
    }

    /// A second move from one source.
    pub fn move_task_running() -> Self {
        Self::new(
            Code::InvalidParameterValue,
            "There is already a task running. Only one active task is allowed for a source queue arn at a given time.",
        )
    }

    /// The queue of an ARN is not there.
    pub fn arn_not_found(parameter: &str) -> Self {
        let message = format!("The resource that you specified for the {parameter} parameter doesn't exist.");
        Self::new(Code::ResourceNotFound, message)
    }

    /// No such move.
    pub fn task_not_found() -> Self {
        Self::new(Code::ResourceNotFound, "Task does not exist.")
    }

    /// `Value <value> for parameter <parameter> is invalid. Reason: <reason>`.
    pub fn invalid_value(value: impl fmt::Display, parameter: &str, reason: &str) -> Self {
        Self::new(
            Code::InvalidParameterValue,
            format!("Value {value} for parameter {parameter} is invalid. Reason: {reason}"),
        )
    }

    /// `The request must contain the parameter <parameter>.`
    pub fn missing(parameter: &str) -> Self {
        Self::new(Code::MissingParameter, format!("The request must contain the parameter {parameter}."))
    }

    /// Not signed, where keys are configured.
    pub fn missing_authentication_token() -> Self {
        Self::new(Code::MissingAuthenticationToken, "Request is missing Authentication Token.")
    }

    /// A key that is not known, or a session token that is not its own.
    pub fn invalid_client_token_id() -> Self {
        Self::new(Code::InvalidClientTokenId, "The security token included in the request is invalid.")
    }

    /// Signed, but not so that it can be checked.
    pub(crate) fn incomplete_signature(message: &str) -> Self {
        Self::new(Code::IncompleteSignature, message)
    }

    /// The server stops, or its log has failed.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Code::ServiceUnavailable, message)
    }

    /// As the failed entry of a batch says it: a missing member is an invalid value there.
    #[must_use]
    pub fn in_batch(mut self) -> Self {
        if self.code == Code::MissingParameter {
            self.code = Code::InvalidParameterValue;
        }
        if let Some(rest) = self.message.strip_prefix(INVALID_PARAMETERS) {
            self.message = format!("One or more parameters cannot be validated.{rest}");
        }
        self
    }

    /// `One or more parameters are invalid. Reason: Message must be shorter than <max> bytes.`
    pub fn message_too_long(bytes_max: u32) -> Self {
        let message = format!("{INVALID_PARAMETERS} Reason: Message must be shorter than {bytes_max} bytes.");
        Self::new(Code::InvalidParameterValue, message)
    }

    /// The messages of a batch, or the whole request, have so many bytes.
    pub fn batch_too_long(bytes: usize) -> Self {
        let message =
            format!("Batch requests cannot be longer than {BATCH_BYTES_MAX} bytes. You have sent {bytes} bytes.");
        Self::new(Code::BatchRequestTooLong, message)
    }

    /// The visibility of one delivery, all changes together.
    pub fn visibility_beyond_limit(timeout_s: u32) -> Self {
        let reason = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]";
        Self::invalid_value(timeout_s, "VisibilityTimeout", reason)
    }
}
