//! Attributes of queues: ranges, defaults, what goes together, what differs.

use recado_sqs::arn::Arn;
use recado_sqs::attributes::{AttributeName, Figures, GivenAttributes, QueueAttributes, RedriveAllowPolicy};
use recado_sqs::{Action, Code, Protocol, Request, SqsError};
use serde_json::{Value, json};

use crate::json;

const DEAD: &str = "arn:aws:sqs:us-east-1:000000000000:dead";

fn given(attributes: &Value) -> Result<GivenAttributes, SqsError> {
    match json(Action::SetQueueAttributes, &json!({ "QueueUrl": "q", "Attributes": attributes })).read() {
        Ok(Request::SetQueueAttributes(request)) => Ok(request.attributes),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error),
    }
}

fn created(attributes: Value) -> Result<QueueAttributes, SqsError> {
    given(&attributes).and_then(|given| QueueAttributes::created(&given))
}

fn figures() -> Figures {
    Figures {
        arn: Arn::parse("arn:aws:sqs:us-east-1:000000000000:email").unwrap(),
        visible: 1,
        not_visible: 2,
        delayed: 3,
        created_at_s: 4,
        modified_at_s: 5,
    }
}

fn shown(queue: &QueueAttributes) -> Value {
    let shown = queue.shown(AttributeName::ALL, &figures());
    shown
        .into_iter()
        .map(|(name, value)| (name.name().to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn said(error: SqsError) -> (Code, String) {
    (error.code(), error.message(Protocol::Json).to_owned())
}

#[test]
fn a_new_queue_shows_its_defaults() {
    let standard = json!({
        "QueueArn": "arn:aws:sqs:us-east-1:000000000000:email",
        "ApproximateNumberOfMessages": "1",
        "ApproximateNumberOfMessagesNotVisible": "2",
        "ApproximateNumberOfMessagesDelayed": "3",
        "CreatedTimestamp": "4",
        "LastModifiedTimestamp": "5",
        "VisibilityTimeout": "30",
        "DelaySeconds": "0",
        "MaximumMessageSize": "1048576",
        "MessageRetentionPeriod": "345600",
        "ReceiveMessageWaitTimeSeconds": "0",
        "SqsManagedSseEnabled": "true",
    });
    assert_eq!(shown(&created(json!({})).unwrap()), standard);
    let mut fifo = standard;
    fifo["FifoQueue"] = json!("true");
    fifo["ContentBasedDeduplication"] = json!("false");
    fifo["DeduplicationScope"] = json!("queue");
    fifo["FifoThroughputLimit"] = json!("perQueue");
    assert_eq!(shown(&created(json!({ "FifoQueue": "true" })).unwrap()), fifo);
}

#[test]
fn ranges() {
    for (name, min, max) in [
        ("VisibilityTimeout", 0, 43_200),
        ("DelaySeconds", 0, 900),
        ("MaximumMessageSize", 1_024, 1_048_576),
        ("MessageRetentionPeriod", 60, 1_209_600),
        ("ReceiveMessageWaitTimeSeconds", 0, 20),
        ("KmsDataKeyReusePeriodSeconds", 60, 86_400),
    ] {
        for value in [min, max] {
            let queue = created(json!({ name: value.to_string() })).unwrap();
            assert_eq!(shown(&queue)[name], value.to_string(), "{name}");
        }
        for value in [(min - 1).to_string(), (max + 1).to_string(), "x".to_owned(), String::new()] {
            let message = format!("Invalid value for the parameter {name}.");
            assert_eq!(created(json!({ name: value })).map_err(said), Err((Code::InvalidAttributeValue, message)));
        }
    }
    for name in ["SqsManagedSseEnabled", "FifoQueue", "DeduplicationScope", "FifoThroughputLimit", "Policy"] {
        let error = created(json!({ name: "perhaps" })).expect_err(name);
        assert_eq!(error.code(), Code::InvalidAttributeValue, "{name}");
    }
}

#[test]
fn names() {
    for name in ["Foobar", "visibilitytimeout", "QueueArn", "CreatedTimestamp", "ApproximateNumberOfMessages", "All"] {
        let unknown = (Code::InvalidAttributeName, format!("Unknown Attribute {name}."));
        assert_eq!(created(json!({ name: "1" })).map_err(said), Err(unknown));
    }
    let asked =
        |names: &[&str]| match json(Action::GetQueueAttributes, &json!({ "QueueUrl": "q", "AttributeNames": names }))
            .read()
        {
            Ok(Request::GetQueueAttributes(request)) => Ok(request.names),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(said(error)),
        };
    assert_eq!(asked(&[]), Ok(vec![]));
    assert_eq!(asked(&["All"]), Ok(AttributeName::ALL.to_vec()));
    assert_eq!(asked(&["Policy", "QueueArn", "Policy"]), Ok(vec![AttributeName::QueueArn, AttributeName::Policy]));
    assert_eq!(asked(&["Foobar"]), Err((Code::InvalidAttributeName, "Unknown Attribute Foobar.".to_owned())));
}

#[test]
fn fifo_rules() {
    let name = |message: &str| Err((Code::InvalidAttributeName, message.to_owned()));
    let standard = |attributes: Value| created(attributes).map_err(said);
    assert_eq!(standard(json!({ "FifoQueue": "false" })), name("Unknown Attribute FifoQueue."));
    let content = json!({ "ContentBasedDeduplication": "true" });
    assert_eq!(standard(content), name("Unknown Attribute ContentBasedDeduplication."));
    for (attribute, value) in [("DeduplicationScope", "queue"), ("FifoThroughputLimit", "perQueue")] {
        let message = format!("You can specify the {attribute} only when FifoQueue is set to true.");
        assert_eq!(standard(json!({ attribute: value })), name(&message));
    }

    let mut fifo = created(json!({ "FifoQueue": "true" })).unwrap();
    let mut set = |attributes: Value| {
        let given = given(&attributes).map_err(said)?;
        fifo.set(&given).map_err(said)
    };
    assert_eq!(set(json!({ "FifoQueue": "true" })), Ok(()));
    let message = "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.";
    assert_eq!(set(json!({ "FifoQueue": "false" })), Err((Code::InvalidAttributeValue, message.to_owned())));
    let limit = set(json!({ "FifoThroughputLimit": "perMessageGroupId" }));
    assert_eq!(limit.unwrap_err().0, Code::InvalidAttributeValue);
    assert_eq!(
        set(json!({ "FifoThroughputLimit": "perMessageGroupId", "DeduplicationScope": "messageGroup" })),
        Ok(())
    );
    assert_eq!(set(json!({ "DeduplicationScope": "queue" })).unwrap_err().0, Code::InvalidAttributeValue);
    assert_eq!(shown(&fifo)["DeduplicationScope"], "messageGroup", "a refused change changes nothing");
}

#[test]
fn encryption_rules() {
    let mut queue = QueueAttributes::default();
    let mut set = |attributes: Value| {
        let result = queue.set(&given(&attributes).unwrap()).map_err(said);
        let all = shown(&queue);
        let one = |name: &str| all.get(name).and_then(Value::as_str).map(str::to_owned);
        result.map(|()| (one("KmsMasterKeyId"), one("KmsDataKeyReusePeriodSeconds"), one("SqsManagedSseEnabled")))
    };
    let some = |text: &str| Some(text.to_owned());
    let one_only = Err((
        Code::InvalidAttributeName,
        "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE."
            .to_owned(),
    ));
    let key = json!({ "KmsMasterKeyId": "k", "KmsDataKeyReusePeriodSeconds": "600" });
    assert_eq!(set(key), Ok((some("k"), some("600"), some("false"))));
    assert_eq!(set(json!({ "SqsManagedSseEnabled": "true" })), one_only);
    let defaults = json!({ "KmsMasterKeyId": "", "KmsDataKeyReusePeriodSeconds": "300" });
    assert_eq!(set(defaults), Ok((None, None, some("false"))));
    assert_eq!(set(json!({ "SqsManagedSseEnabled": "true" })), Ok((None, None, some("true"))));
    assert_eq!(set(json!({ "KmsMasterKeyId": "k", "SqsManagedSseEnabled": "true" })), one_only);
}

#[test]
fn redrive_policies() {
    let policy = |text: &str| created(json!({ "RedrivePolicy": text })).map_err(said);
    let (one, most) = (json!({ "deadLetterTargetArn": DEAD, "maxReceiveCount": 1 }), json!("1000"));
    assert_eq!(policy(&one.to_string()).unwrap().redrive.unwrap().max_receives, 1);
    let mut text = one;
    text["maxReceiveCount"] = most;
    let kept = policy(&text.to_string()).unwrap();
    assert_eq!(shown(&kept)["RedrivePolicy"], format!(r#"{{"deadLetterTargetArn":"{DEAD}","maxReceiveCount":1000}}"#));
    for (text, reason) in [
        ("x".to_owned(), "Redrive policy is not a valid JSON map."),
        ("[]".to_owned(), "Redrive policy is not a valid JSON map."),
        (
            json!({ "maxReceiveCount": 1 }).to_string(),
            "Redrive policy does not contain mandatory attribute: deadLetterTargetArn.",
        ),
        (
            json!({ "deadLetterTargetArn": DEAD }).to_string(),
            "Redrive policy does not contain mandatory attribute: maxReceiveCount.",
        ),
        (
            json!({ "deadLetterTargetArn": "dead", "maxReceiveCount": 1 }).to_string(),
            "Invalid value for deadLetterTargetArn.",
        ),
        (
            json!({ "deadLetterTargetArn": DEAD, "maxReceiveCount": 0 }).to_string(),
            "Invalid value for maxReceiveCount: 0, valid values are from 1 to 1000 both inclusive.",
        ),
        (
            json!({ "deadLetterTargetArn": DEAD, "maxReceiveCount": "1001" }).to_string(),
            "Invalid value for maxReceiveCount: 1001, valid values are from 1 to 1000 both inclusive.",
        ),
    ] {
        let message = format!("Value {text} for parameter RedrivePolicy is invalid. Reason: {reason}");
        assert_eq!(policy(&text), Err((Code::InvalidParameterValue, message)));
    }
    let mut queue = kept;
    queue.set(&given(&json!({ "RedrivePolicy": "" })).unwrap()).unwrap();
    assert!(shown(&queue).get("RedrivePolicy").is_none(), "the empty text removes it");
}

#[test]
fn redrive_allow_policies() {
    let policy = |value: Value| {
        created(json!({ "RedriveAllowPolicy": value.to_string() })).map(|queue| queue.redrive_allow.unwrap())
    };
    let arn = |name: &str| format!("arn:aws:sqs:us-east-1:000000000000:{name}");
    let is_email = |arn: &Arn| arn.name == "email";
    let by_queue = |arns: Vec<String>| policy(json!({ "redrivePermission": "byQueue", "sourceQueueArns": arns }));
    assert_eq!(policy(json!({})), Ok(RedriveAllowPolicy::All));
    assert!(policy(json!({ "redrivePermission": "allowAll" })).unwrap().allows(is_email));
    assert!(!policy(json!({ "redrivePermission": "denyAll" })).unwrap().allows(is_email));
    assert!(by_queue(vec![arn("email")]).unwrap().allows(is_email));
    assert!(!by_queue((0..10).map(|n| arn(&n.to_string())).collect()).unwrap().allows(is_email));
    for refused in [
        by_queue((0..11).map(|n| arn(&n.to_string())).collect()),
        by_queue(vec![]),
        by_queue(vec!["email".to_owned()]),
        policy(json!({ "redrivePermission": "byQueue" })),
        policy(json!({ "redrivePermission": "perhaps" })),
        policy(json!({ "redrivePermission": 1 })),
        policy(json!({ "redrivePermission": "denyAll", "sourceQueueArns": [arn("email")] })),
        policy(json!([])),
    ] {
        assert_eq!(refused.unwrap_err().code(), Code::InvalidParameterValue);
    }
}

#[test]
fn what_a_second_creation_may_not_change() {
    let redrive =
        |arn: &str, receives: u32| json!({ "deadLetterTargetArn": arn, "maxReceiveCount": receives }).to_string();
    let allow = |arn: &str| json!({ "redrivePermission": "byQueue", "sourceQueueArns": [arn] }).to_string();
    let queue = created(json!({
        "FifoQueue": "true",
        "DelaySeconds": "5",
        "RedriveAllowPolicy": allow("arn:aws:sqs:us-east-1:000000000000:a"),
        "Policy": r#"{"Version":"1","Id":"x"}"#,
        "RedrivePolicy": json!({ "deadLetterTargetArn": DEAD, "maxReceiveCount": 3 }).to_string(),
        "KmsMasterKeyId": "k",
    }))
    .unwrap();
    let differs =
        |attributes: Value| queue.first_difference(&given(&attributes).unwrap(), |one, other| one.name == other.name);
    for same in [
        json!({}),
        json!({ "FifoQueue": "true", "DelaySeconds": "5" }),
        json!({ "VisibilityTimeout": "30" }),
        json!({ "Policy": r#"{ "Id": "x", "Version": "1" }"# }),
        json!({ "RedrivePolicy": json!({ "maxReceiveCount": "3", "deadLetterTargetArn": DEAD }).to_string() }),
        json!({ "RedrivePolicy": redrive("arn:aws-cn:sqs:cn-north-1:111111111111:dead", 3) }),
        json!({ "RedriveAllowPolicy": allow("arn:aws:sqs:eu-west-1:111111111111:a") }),
        json!({ "KmsMasterKeyId": "k", "SqsManagedSseEnabled": "false" }),
    ] {
        assert_eq!(differs(same.clone()), None, "{same}");
    }
    assert_eq!(differs(json!({ "DelaySeconds": "6" })), Some(AttributeName::DelaySeconds));
    assert_eq!(differs(json!({ "RedrivePolicy": redrive(DEAD, 4) })), Some(AttributeName::RedrivePolicy));
    let other = json!({ "RedriveAllowPolicy": allow("arn:aws:sqs:us-east-1:000000000000:b") });
    assert_eq!(differs(other), Some(AttributeName::RedriveAllowPolicy));
    assert_eq!(differs(json!({ "Policy": "" })), Some(AttributeName::Policy));
    assert_eq!(differs(json!({ "KmsMasterKeyId": "" })), Some(AttributeName::KmsMasterKeyId));
    assert_eq!(
        differs(json!({ "VisibilityTimeout": "1", "DelaySeconds": "6" })),
        Some(AttributeName::VisibilityTimeout)
    );
    let standard = QueueAttributes::default();
    let fifo = given(&json!({ "FifoQueue": "true" })).unwrap();
    assert_eq!(standard.first_difference(&fifo, Arn::eq), Some(AttributeName::FifoQueue));
}

#[test]
fn what_is_stored_comes_back() {
    for attributes in [
        json!({}),
        json!({ "KmsMasterKeyId": "k", "KmsDataKeyReusePeriodSeconds": "60", "Policy": "{}", "VisibilityTimeout": "0" }),
        json!({ "SqsManagedSseEnabled": "false", "DelaySeconds": "900" }),
        json!({
            "FifoQueue": "true",
            "ContentBasedDeduplication": "true",
            "DeduplicationScope": "messageGroup",
            "FifoThroughputLimit": "perMessageGroupId",
            "RedrivePolicy": json!({ "deadLetterTargetArn": DEAD, "maxReceiveCount": 3 }).to_string(),
            "RedriveAllowPolicy": json!({ "redrivePermission": "byQueue", "sourceQueueArns": [DEAD] }).to_string(),
        }),
    ] {
        let queue = created(attributes).unwrap();
        let stored = serde_json::to_string(&queue).unwrap();
        assert_eq!(serde_json::from_str::<QueueAttributes>(&stored).unwrap(), queue, "{stored}");
    }
    assert!(serde_json::from_str::<QueueAttributes>(r#"{"DelaySeconds":"901"}"#).is_err());
}
