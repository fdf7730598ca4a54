//! Signatures that botocore made, and what becomes of them when anything changes.

use http::{HeaderMap, Method};
use recado_sqs::signature::Signed;
use recado_sqs::{Code, SqsError};
use serde::Deserialize;

use crate::{Owned, get};

#[derive(Deserialize)]
struct Vectors {
    access_key: String,
    secret: String,
    calls: Vec<Vector>,
    /// Rightly signed, but for a body that is not.
    unsigned_body: Vector,
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    method: String,
    path: String,
    query: String,
    headers: std::collections::BTreeMap<String, String>,
    body: String,
}

/// 2026-03-04T05:06:07Z.
const SIGNED_AT_S: u64 = 1_772_600_767;

const SKEW_S: u64 = 15 * 60;

impl Vector {
    fn owned(&self) -> Owned {
        let call = Owned {
            method: Method::from_bytes(self.method.as_bytes()).unwrap(),
            path: self.path.clone(),
            query: self.query.clone(),
            headers: HeaderMap::new(),
            body: self.body.clone().into_bytes(),
        };
        self.headers.iter().fold(call, |call, (name, value)| call.header(name, value))
    }
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("vectors/signatures.json")).unwrap()
}

fn vector(name: &str) -> Owned {
    vectors().calls.iter().find(|call| call.name == name).expect(name).owned()
}

fn verify_at(call: &Owned, now_s: u64) -> Result<(), SqsError> {
    let signed = Signed::parse(&call.call())?.expect("signed");
    signed.verify(&call.call(), &vectors().secret, now_s)
}

fn code(call: &Owned) -> Option<Code> {
    verify_at(call, SIGNED_AT_S).err().map(|error| error.code())
}

#[test]
fn what_botocore_signs_is_verified() {
    let vectors = vectors();
    for vector in &vectors.calls {
        let call = vector.owned();
        let signed = Signed::parse(&call.call()).unwrap().expect("signed");
        assert_eq!(signed.access_key(), vectors.access_key, "{}", vector.name);
        assert_eq!(signed.verify(&call.call(), &vectors.secret, SIGNED_AT_S), Ok(()), "{}", vector.name);
        let wrong = signed.verify(&call.call(), "another", SIGNED_AT_S).unwrap_err();
        assert_eq!(wrong.code(), Code::SignatureDoesNotMatch, "{}", vector.name);
    }
    let signed = |name: &str| Signed::parse(&vector(name).call()).unwrap().unwrap();
    assert_eq!(signed("another region").region(), "eu-central-1");
    assert_eq!(signed("session token").session_token(), Some("tok/en+1=="));
    assert_eq!(signed("presigned get, session token").session_token(), Some("tok/en+1=="));
    assert_eq!(signed("json").session_token(), None);
}

#[test]
fn whatever_is_signed_cannot_change() {
    let changed = |name: &str, change: &dyn Fn(&mut Owned)| {
        let mut call = vector(name);
        change(&mut call);
        code(&call)
    };
    let mismatch = Some(Code::SignatureDoesNotMatch);
    for vector in vectors().calls {
        let name = vector.name.as_str();
        assert_eq!(changed(name, &|call| call.method = Method::PUT), mismatch, "{name}");
        assert_eq!(changed(name, &|call| call.path.push('x')), mismatch, "{name}");
        assert_eq!(changed(name, &|call| call.query.push_str("&x=1")), mismatch, "{name}");
        assert_eq!(changed(name, &|call| call.body.push(b' ')), mismatch, "{name}");
        for header in vector.headers.keys().filter(|header| *header != "authorization") {
            let value = if header == "x-amz-date" { "20260304T050608Z" } else { "other" };
            let call = vector.owned().header(header, value);
            assert_eq!(code(&call), mismatch, "{name}: {header}");
        }
    }
    // A header that is not signed may come and go: proxies add some.
    assert_eq!(code(&vector("json").header("x-forwarded-for", "10.0.0.1")), None);
    // The order of parameters is not signed, nor how they are encoded.
    assert_eq!(changed("get, empty value", &|call| call.query = "Action=SendMessage&MessageBody".to_owned()), None);
}

#[test]
fn the_clocks_may_be_apart_by_a_quarter_of_an_hour() {
    let at = |name: &str, now_s: u64| verify_at(&vector(name), now_s).map_err(|error| error.code());
    let expired = Err(Code::RequestExpired);
    assert_eq!(at("json", SIGNED_AT_S + SKEW_S), Ok(()));
    assert_eq!(at("json", SIGNED_AT_S + SKEW_S + 1), expired);
    assert_eq!(at("json", SIGNED_AT_S - SKEW_S), Ok(()));
    assert_eq!(at("json", SIGNED_AT_S - SKEW_S - 1), expired);
    // A presigned URL says itself how long it is good: 60 s.
    assert_eq!(at("presigned get", SIGNED_AT_S + 60), Ok(()));
    assert_eq!(at("presigned get", SIGNED_AT_S + 61), expired);
    assert_eq!(at("presigned get", SIGNED_AT_S - SKEW_S), Ok(()));
    assert_eq!(at("presigned get", SIGNED_AT_S - SKEW_S - 1), expired);
}

#[test]
fn the_hash_of_the_body() {
    let declared = |name: &str, hash: &str| code(&vector(name).header("x-amz-content-sha256", hash));
    let hash = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    assert_eq!(declared("another region", hash), None, "of {{}}; not among the signed headers, but true");
    assert_eq!(declared("another region", &hash.replace('4', "5")), Some(Code::SignatureDoesNotMatch));
    assert_eq!(declared("another region", "UNSIGNED-PAYLOAD"), Some(Code::SignatureDoesNotMatch), "a body is signed");
    assert_eq!(
        code(&vectors().unsigned_body.owned()),
        Some(Code::SignatureDoesNotMatch),
        "though its signature is right"
    );
    assert_eq!(declared("another region", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), Some(Code::SignatureDoesNotMatch));
}

#[test]
fn what_must_be_signed() {
    let without = |name: &str, header: &str| {
        let call = vector(name);
        let value = call.headers["authorization"].to_str().unwrap().replace(header, "");
        code(&call.header("authorization", &value))
    };
    assert_eq!(without("json", "host;"), Some(Code::IncompleteSignature));
    assert_eq!(without("json", ";x-amz-target"), Some(Code::IncompleteSignature));
    assert_eq!(without("session token", "x-amz-security-token;"), Some(Code::IncompleteSignature));
    assert_eq!(without("json", "content-type;"), Some(Code::SignatureDoesNotMatch));
    let call = vector("json");
    let value = call.headers["authorization"].to_str().unwrap().replace("host;", "host;x-gone;");
    assert_eq!(code(&call.header("authorization", &value)), Some(Code::SignatureDoesNotMatch));
}

#[test]
fn claims_that_are_none() {
    let parsed =
        |call: &Owned| Signed::parse(&call.call()).map(|signed| signed.is_some()).map_err(|error| error.code());
    let incomplete = Err(Code::IncompleteSignature);
    assert_eq!(parsed(&get("/?Action=ListQueues")), Ok(false));
    let header = |value: &str| parsed(&vector("json").header("authorization", value));
    assert_eq!(header("Bearer x"), Ok(false));
    for value in [
        "AWS4-HMAC-SHA256",
        "AWS4-ECDSA-P256-SHA256 Credential=a/20260304/r/sqs/aws4_request, SignedHeaders=host, Signature=0",
        "AWS4-HMAC-SHA256 SignedHeaders=host, Signature=0",
        "AWS4-HMAC-SHA256 Credential=a/20260304/r/sqs/aws4_request, Signature=0",
        "AWS4-HMAC-SHA256 Credential=a/20260304/r/sqs/aws4_request, SignedHeaders=host",
        "AWS4-HMAC-SHA256 Credential=a/20260304/sqs/aws4_request, SignedHeaders=host, Signature=0",
        "AWS4-HMAC-SHA256 Credential=/20260304/r/sqs/aws4_request, SignedHeaders=host, Signature=0",
        "AWS4-HMAC-SHA256 Credential=a/20260304/r/sqs/aws4, SignedHeaders=host, Signature=0",
    ] {
        assert_eq!(header(value), incomplete, "{value}");
    }
    for date in ["", "20260304", "2026-03-04T05:06:07Z", "20260304T050607", "20261304T050607Z", "now"] {
        assert_eq!(parsed(&vector("json").header("x-amz-date", date)), incomplete, "{date}");
    }
    let presigned = vector("presigned get").query;
    for parameter in ["X-Amz-Credential", "X-Amz-Date", "X-Amz-SignedHeaders", "X-Amz-Signature", "X-Amz-Expires"] {
        assert_eq!(parsed(&get(&format!("/?{}", presigned.replace(parameter, "X-Gone")))), incomplete, "{parameter}");
    }
    for expires in ["0", "604801", "-1", "x"] {
        let query = presigned.replace("X-Amz-Expires=60", &format!("X-Amz-Expires={expires}"));
        assert_eq!(parsed(&get(&format!("/?{query}"))), incomplete, "{expires}");
    }
}

#[test]
fn the_scope_is_this_service_and_that_day() {
    let replaced = |from: &str, to: &str| {
        let call = vector("json");
        let value = call.headers["authorization"].to_str().unwrap().replace(from, to);
        code(&call.header("authorization", &value))
    };
    assert_eq!(replaced("/sqs/", "/s3/"), Some(Code::SignatureDoesNotMatch));
    assert_eq!(replaced("/20260304/", "/20260303/"), Some(Code::SignatureDoesNotMatch));
    assert_eq!(replaced("/us-east-1/", "/us-east-2/"), Some(Code::SignatureDoesNotMatch));
}
