//! The table of errors, in both protocols.

use recado_sqs::{Code, Form, Protocol, SqsError, encode};

const TABLE: &[(Code, &str, &str, u16)] = &[
    (Code::QueueDoesNotExist, "com.amazonaws.sqs#QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", 400),
    (Code::QueueNameExists, "com.amazonaws.sqs#QueueNameExists", "QueueAlreadyExists", 400),
    (
        Code::QueueDeletedRecently,
        "com.amazonaws.sqs#QueueDeletedRecently",
        "AWS.SimpleQueueService.QueueDeletedRecently",
        400,
    ),
    (
        Code::PurgeQueueInProgress,
        "com.amazonaws.sqs#PurgeQueueInProgress",
        "AWS.SimpleQueueService.PurgeQueueInProgress",
        403,
    ),
    (Code::OverLimit, "com.amazonaws.sqs#OverLimit", "OverLimit", 403),
    (Code::ReceiptHandleIsInvalid, "com.amazonaws.sqs#ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", 400),
    (Code::InvalidIdFormat, "com.amazonaws.sqs#InvalidIdFormat", "InvalidIdFormat", 400),
    (
        Code::MessageNotInflight,
        "com.amazonaws.sqs#MessageNotInflight",
        "AWS.SimpleQueueService.MessageNotInflight",
        400,
    ),
    (Code::InvalidMessageContents, "com.amazonaws.sqs#InvalidMessageContents", "InvalidMessageContents", 400),
    (Code::InvalidAttributeName, "com.amazonaws.sqs#InvalidAttributeName", "InvalidAttributeName", 400),
    (Code::InvalidAttributeValue, "com.amazonaws.sqs#InvalidAttributeValue", "InvalidAttributeValue", 400),
    (
        Code::TooManyEntriesInBatchRequest,
        "com.amazonaws.sqs#TooManyEntriesInBatchRequest",
        "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
        400,
    ),
    (Code::EmptyBatchRequest, "com.amazonaws.sqs#EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest", 400),
    (
        Code::BatchEntryIdsNotDistinct,
        "com.amazonaws.sqs#BatchEntryIdsNotDistinct",
        "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
        400,
    ),
    (
        Code::InvalidBatchEntryId,
        "com.amazonaws.sqs#InvalidBatchEntryId",
        "AWS.SimpleQueueService.InvalidBatchEntryId",
        400,
    ),
    (
        Code::BatchRequestTooLong,
        "com.amazonaws.sqs#BatchRequestTooLong",
        "AWS.SimpleQueueService.BatchRequestTooLong",
        400,
    ),
    (
        Code::UnsupportedOperation,
        "com.amazonaws.sqs#UnsupportedOperation",
        "AWS.SimpleQueueService.UnsupportedOperation",
        400,
    ),
    (Code::ResourceNotFound, "com.amazonaws.sqs#ResourceNotFoundException", "ResourceNotFoundException", 404),
    (Code::InvalidParameterValue, "com.amazonaws.sqs#InvalidParameterValueException", "InvalidParameterValue", 400),
    (Code::MissingParameter, "com.amazonaws.sqs#MissingRequiredParameterException", "MissingParameter", 400),
    (Code::RequestThrottled, "com.amazonaws.sqs#RequestThrottled", "RequestThrottled", 403),
    (Code::InvalidAddress, "com.amazonaws.sqs#InvalidAddress", "InvalidAddress", 400),
    (Code::InvalidSecurity, "com.amazonaws.sqs#InvalidSecurity", "InvalidSecurity", 400),
    (Code::KmsDisabled, "com.amazonaws.sqs#KmsDisabled", "KMS.DisabledException", 400),
    (Code::KmsInvalidState, "com.amazonaws.sqs#KmsInvalidState", "KMS.InvalidStateException", 400),
    (Code::KmsNotFound, "com.amazonaws.sqs#KmsNotFound", "KMS.NotFoundException", 400),
    (Code::KmsOptInRequired, "com.amazonaws.sqs#KmsOptInRequired", "KMS.OptInRequired", 400),
    (Code::KmsThrottled, "com.amazonaws.sqs#KmsThrottled", "KMS.ThrottlingException", 400),
    (Code::KmsAccessDenied, "com.amazonaws.sqs#KmsAccessDenied", "KMS.AccessDeniedException", 400),
    (Code::KmsInvalidKeyUsage, "com.amazonaws.sqs#KmsInvalidKeyUsage", "KMS.InvalidKeyUsageException", 400),
    (Code::InvalidAction, "com.amazonaws.sqs#InvalidAction", "InvalidAction", 400),
    (Code::MissingAction, "com.amazon.coral.service#MissingAction", "MissingAction", 400),
    (Code::MalformedInput, "com.amazon.coral.service#SerializationException", "MalformedInput", 400),
    (Code::RequestTooLarge, "com.amazon.coral.service#RequestEntityTooLargeException", "RequestEntityTooLarge", 413),
    (
        Code::MissingAuthenticationToken,
        "com.amazon.coral.service#MissingAuthenticationTokenException",
        "MissingAuthenticationToken",
        403,
    ),
    (Code::InvalidClientTokenId, "com.amazon.coral.service#UnrecognizedClientException", "InvalidClientTokenId", 403),
    (Code::SignatureDoesNotMatch, "com.amazon.coral.service#InvalidSignatureException", "SignatureDoesNotMatch", 403),
    (Code::IncompleteSignature, "com.amazon.coral.service#IncompleteSignatureException", "IncompleteSignature", 400),
    (Code::RequestExpired, "com.amazon.coral.service#RequestExpired", "RequestExpired", 400),
    (Code::AccessDenied, "com.amazon.coral.service#AccessDeniedException", "AccessDenied", 403),
    (Code::ServiceUnavailable, "com.amazon.coral.service#ServiceUnavailableException", "ServiceUnavailable", 503),
    (Code::InternalFailure, "com.amazon.coral.service#InternalFailure", "InternalFailure", 500),
    // Answered in one form only, below.
    (Code::UnknownOperation, "com.amazon.coral.service#UnknownOperationException", "UnknownOperationException", 404),
];

fn body(form: Form, error: SqsError) -> (http::response::Parts, String) {
    let (parts, body) = encode(form, &Err(error), "req-1").into_parts();
    assert_eq!(parts.headers["x-amzn-requestid"], "req-1");
    (parts, String::from_utf8(body).unwrap())
}

#[test]
fn the_table() {
    let codes: Vec<Code> = TABLE.iter().map(|(code, ..)| *code).collect();
    assert!(Code::ALL.iter().all(|code| codes.contains(code)), "every code has its row");
    for &(code, json_type, query, status) in TABLE {
        let fault = if status < 500 { "Sender" } else { "Receiver" };
        let message =
            if code == Code::QueueDoesNotExist { "The specified queue does not exist." } else { "Some \"<words>\"" };
        let (parts, json) = body(Form::Json, SqsError::new(code, message));
        assert_eq!(parts.status, status, "{code}");
        assert_eq!(parts.headers["content-type"], "application/x-amz-json-1.0");
        assert_eq!(parts.headers["x-amzn-query-error"], format!("{query};{fault}"));
        let quoted = serde_json::to_string(message).unwrap();
        assert_eq!(json, format!(r#"{{"__type":"{json_type}","message":{quoted}}}"#));

        let (parts, xml) = body(Form::Xml, SqsError::new(code, message));
        assert_eq!(parts.status, status, "{code}");
        assert_eq!(parts.headers["content-type"], "text/xml");
        assert!(!parts.headers.contains_key("x-amzn-query-error"));
        let expected = match code {
            Code::UnknownOperation => "<UnknownOperationException/>\n".to_owned(),
            _ => {
                let message = match code {
                    Code::QueueDoesNotExist => "The specified queue does not exist for this wsdl version.",
                    _ => "Some &quot;&lt;words&gt;&quot;",
                };
                format!(
                    "<?xml version=\"1.0\"?><ErrorResponse xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\">\
                     <Error><Type>{fault}</Type><Code>{query}</Code><Message>{message}</Message><Detail/></Error>\
                     <RequestId>req-1</RequestId></ErrorResponse>"
                )
            }
        };
        assert_eq!(xml, expected);

        let (parts, json) = body(Form::QueryJson, SqsError::new(code, "words"));
        assert_eq!(parts.status, status, "{code}");
        let message = if code == Code::QueueDoesNotExist {
            "The specified queue does not exist for this wsdl version."
        } else {
            "words"
        };
        let (kind, expected) = match code {
            Code::UnknownOperation => ("text/xml", xml),
            _ => (
                "application/json",
                format!(
                    r#"{{"Error":{{"Type":"{fault}","Code":"{query}","Message":"{message}"}},"RequestId":"req-1"}}"#
                ),
            ),
        };
        assert_eq!((parts.headers["content-type"].to_str().unwrap(), json), (kind, expected));
    }
}

/// What only the queue's state can say, in its exact words.
#[test]
fn messages() {
    let said = |error: SqsError| (error.code(), error.message(Protocol::Json).to_owned());
    let check = |error: SqsError, code: Code, message: &str| assert_eq!(said(error), (code, message.to_owned()));
    check(SqsError::queue_does_not_exist(), Code::QueueDoesNotExist, "The specified queue does not exist.");
    check(
        SqsError::queue_name_exists("DelaySeconds"),
        Code::QueueNameExists,
        "A queue already exists with the same name and a different value for attribute DelaySeconds",
    );
    check(
        SqsError::queue_deleted_recently(),
        Code::QueueDeletedRecently,
        "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
    );
    check(
        SqsError::purge_in_progress("email"),
        Code::PurgeQueueInProgress,
        "Only one PurgeQueue operation on email is allowed every 60 seconds.",
    );
    check(
        SqsError::receipt_handle_is_invalid("garbage"),
        Code::ReceiptHandleIsInvalid,
        "The input receipt handle \"garbage\" is not a valid receipt handle.",
    );
    check(
        SqsError::receipt_handle_expired("h"),
        Code::InvalidParameterValue,
        "Value h for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.",
    );
    check(
        SqsError::message_not_available("h"),
        Code::InvalidParameterValue,
        "Value h for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for \
         visibility timeout change.",
    );
    check(
        SqsError::source_is_no_dead_letter_queue(),
        Code::InvalidParameterValue,
        "Source queue must be configured as a Dead Letter Queue.",
    );
    check(
        SqsError::move_task_running(),
        Code::InvalidParameterValue,
        "There is already a task running. Only one active task is allowed for a source queue arn at a given time.",
    );
    for parameter in ["SourceArn", "DestinationArn"] {
        let message = format!("The resource that you specified for the {parameter} parameter doesn't exist.");
        check(SqsError::arn_not_found(parameter), Code::ResourceNotFound, &message);
    }
    check(SqsError::task_not_found(), Code::ResourceNotFound, "Task does not exist.");
    check(
        SqsError::label_exists("X"),
        Code::InvalidParameterValue,
        "Value X for parameter Label is invalid. Reason: Already exists.",
    );
    check(
        SqsError::label_not_found("X"),
        Code::InvalidParameterValue,
        "Value X for parameter Label is invalid. Reason: can't find label.",
    );
    check(
        SqsError::message_too_long(1_048_576),
        Code::InvalidParameterValue,
        "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.",
    );
    check(
        SqsError::message_too_long(1_024).in_batch(),
        Code::InvalidParameterValue,
        "One or more parameters cannot be validated. Reason: Message must be shorter than 1024 bytes.",
    );
    check(
        SqsError::visibility_beyond_limit(30),
        Code::InvalidParameterValue,
        "Value 30 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is \
         beyond the limit [43200 seconds]",
    );
}
