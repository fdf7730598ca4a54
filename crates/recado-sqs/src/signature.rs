//! AWS Signature Version 4, as a server checks it: in the header `Authorization`, or in the query (a presigned URL).
//!
//! What is signed: method, path, query, the headers that the signer names, and the body. At least the host, the
//! action of a JSON call and the session token must be among the headers named, where they are there.

mod canonical;
mod claim;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use self::claim::{Claim, Time};
use crate::call::Call;
use crate::error::{Code, SqsError};
use crate::message::{hex, sha256_hex};

/// How far the clocks may be apart.
const SKEW_S: u64 = 15 * 60;

/// Stands for the hash of a body that is not signed.
const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// Carries the hash of the body.
const CONTENT_HASH_HEADER: &str = "x-amz-content-sha256";

/// A call's claim to come from the holder of a key. Nothing of it is proven before [`Signed::verify`].
#[derive(Clone, Debug)]
pub struct Signed(Claim);

impl Signed {
    /// Reads it. `None` when the call is not signed.
    ///
    /// # Errors
    /// A claim that is none: `IncompleteSignature`.
    pub fn parse(call: &Call<'_>) -> Result<Option<Self>, SqsError> {
        Claim::parse(call).map(|claim| claim.map(Self))
    }

    /// Whose key.
    pub fn access_key(&self) -> &str {
        &self.0.access_key
    }

    /// In which region.
    pub fn region(&self) -> &str {
        &self.0.region
    }

    /// Of temporary keys.
    pub fn session_token(&self) -> Option<&str> {
        self.0.session_token.as_deref()
    }

    /// Whether the holder of this secret signed this call, for now. Seconds since 1970.
    ///
    /// # Errors
    /// `SignatureDoesNotMatch`, `RequestExpired`, `IncompleteSignature`.
    pub fn verify(&self, call: &Call<'_>, secret: &str, now_s: u64) -> Result<(), SqsError> {
        let claim = &self.0;
        check_scope(claim)?;
        check_headers(call, claim)?;
        let payload = payload_hash(call, claim)?;
        let canonical = canonical::request(call, claim, &payload)?;
        let signature = sign(claim, secret, &canonical);
        if !bool::from(signature.as_bytes().ct_eq(claim.signature.as_bytes())) {
            return Err(mismatch(
                "The request signature we calculated does not match the signature you provided. Check your AWS \
                 Secret Access Key and signing method. Consult the service documentation for details.",
            ));
        }
        // Last, so that only the holder of the key learns the server's time.
        check_time(claim, now_s)
    }
}

fn check_scope(claim: &Claim) -> Result<(), SqsError> {
    if claim.service != "sqs" {
        return Err(mismatch("Credential should be scoped to correct service: 'sqs'."));
    }
    let (scope, date) = (&claim.date, claim.time.date());
    if scope != date {
        return Err(mismatch(format!(
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: \
             '{scope}' != '{date}', from '{}'.",
            claim.time.text
        )));
    }
    Ok(())
}

/// What must be signed if it is there.
fn check_headers(call: &Call<'_>, claim: &Claim) -> Result<(), SqsError> {
    if !claim.signs("host") {
        return Err(SqsError::incomplete_signature("'Host' must be a 'SignedHeader' in the AWS Authorization."));
    }
    for name in [crate::call::TARGET_HEADER, claim::TOKEN_HEADER] {
        if call.headers.contains_key(name) && !claim.signs(name) {
            return Err(SqsError::incomplete_signature(&format!(
                "'{name}' must be a 'SignedHeader' in the AWS Authorization."
            )));
        }
    }
    Ok(())
}

/// What stands for the body in what is signed: its own hash. Only an empty one may be left unsigned.
fn payload_hash(call: &Call<'_>, claim: &Claim) -> Result<String, SqsError> {
    let hash = sha256_hex(call.body);
    match claim.payload_hash.as_deref().or_else(|| call.text_header(CONTENT_HASH_HEADER)) {
        Some(UNSIGNED_PAYLOAD) if call.body.is_empty() => Ok(UNSIGNED_PAYLOAD.to_owned()),
        Some(declared) if declared != hash => {
            Err(mismatch("The provided 'x-amz-content-sha256' does not match the hash of the body."))
        }
        _ => Ok(hash),
    }
}

fn check_time(claim: &Claim, now_s: u64) -> Result<(), SqsError> {
    let Time { at_s, ref text } = claim.time;
    if at_s > now_s + SKEW_S {
        let message = format!("Signature not yet current: {text} is still later than the server's time.");
        return Err(SqsError::new(Code::RequestExpired, message));
    }
    if now_s > at_s + claim.expires_s.unwrap_or(SKEW_S) {
        let message = format!("Signature expired: {text} is now earlier than the server allows.");
        return Err(SqsError::new(Code::RequestExpired, message));
    }
    Ok(())
}

/// The signature that the holder of the secret makes of a canonical request.
fn sign(claim: &Claim, secret: &str, canonical: &str) -> String {
    let Claim { date, region, service, time, .. } = claim;
    let key = [date, region, service, claim::TERMINATOR]
        .iter()
        .fold(format!("AWS4{secret}").into_bytes(), |key, part| hmac(&key, part.as_bytes()));
    let hash = sha256_hex(canonical.as_bytes());
    let scope = format!("{date}/{region}/{service}/{}", claim::TERMINATOR);
    hex(&hmac(&key, format!("{}\n{}\n{scope}\n{hash}", claim::ALGORITHM, time.text).as_bytes()))
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    // A key of any length is a key.
    match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mac) => mac.chain_update(message).finalize().into_bytes().to_vec(),
        Err(_) => Vec::new(),
    }
}

fn mismatch(message: impl Into<String>) -> SqsError {
    SqsError::new(Code::SignatureDoesNotMatch, message)
}
