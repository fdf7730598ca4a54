//! What a signed call claims, read and not yet believed.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::call::Call;
use crate::error::SqsError;

pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Ends every credential's scope.
pub(super) const TERMINATOR: &str = "aws4_request";

/// Carries a temporary key's token.
pub(super) const TOKEN_HEADER: &str = "x-amz-security-token";

/// A presigned URL's longest life: 7 days.
const EXPIRES_S_MAX: u64 = 604_800;

#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) access_key: String,
    /// `YYYYMMDD` of the credential.
    pub(super) date: String,
    pub(super) region: String,
    pub(super) service: String,
    /// Names in lower case.
    pub(super) signed_headers: Vec<String>,
    pub(super) signature: String,
    pub(super) session_token: Option<String>,
    pub(super) time: Time,
    /// Of a presigned URL.
    pub(super) expires_s: Option<u64>,
    /// That a presigned URL gives in its query.
    pub(super) payload_hash: Option<String>,
}

/// When it was signed.
#[derive(Clone, Debug)]
pub(super) struct Time {
    /// As it is signed: `20150830T123600Z`.
    pub(super) text: String,
    /// Since 1970.
    pub(super) at_s: u64,
}

impl Claim {
    pub(super) fn parse(call: &Call<'_>) -> Result<Option<Self>, SqsError> {
        match call.text_header("authorization") {
            Some(value) if value.starts_with("AWS4-") => Self::of_header(call, value).map(Some),
            Some(_) => Ok(None),
            None => Self::of_query(call),
        }
    }

    pub(super) fn signs(&self, header: &str) -> bool {
        self.signed_headers.iter().any(|name| name == header)
    }

    fn of_header(call: &Call<'_>, value: &str) -> Result<Self, SqsError> {
        let Some(parts) = value.strip_prefix(ALGORITHM) else {
            return Err(SqsError::incomplete_signature("Only AWS4-HMAC-SHA256 is supported."));
        };
        let part = |name: &str| {
            let mut parts = parts.split(',').filter_map(|part| part.trim().split_once('='));
            let found = parts.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned());
            found.ok_or_else(|| {
                SqsError::incomplete_signature(&format!("Authorization header requires '{name}' parameter."))
            })
        };
        let (credential, signed_headers) = (part("Credential")?, part("SignedHeaders")?);
        let time = call.text_header("x-amz-date").ok_or_else(|| {
            SqsError::incomplete_signature("Authorization header requires existence of a 'X-Amz-Date' header.")
        })?;
        let token = call.text_header(TOKEN_HEADER).map(str::to_owned);
        Self::new(&credential, &signed_headers, part("Signature")?, Time::parse(time)?, token)
    }

    fn of_query(call: &Call<'_>) -> Result<Option<Self>, SqsError> {
        let parameter = |wanted: &str| {
            let mut all = form_urlencoded::parse(call.query.as_bytes());
            all.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
        };
        let required = |name: &str| {
            parameter(name).ok_or_else(|| {
                SqsError::incomplete_signature(&format!("AWS query-string parameters must include '{name}'."))
            })
        };
        let Some(algorithm) = parameter("X-Amz-Algorithm") else { return Ok(None) };
        if algorithm != ALGORITHM {
            return Err(SqsError::incomplete_signature("Only AWS4-HMAC-SHA256 is supported."));
        }
        let time = Time::parse(&required("X-Amz-Date")?)?;
        let (credential, headers) = (required("X-Amz-Credential")?, required("X-Amz-SignedHeaders")?);
        let token = parameter("X-Amz-Security-Token");
        let mut claim = Self::new(&credential, &headers, required("X-Amz-Signature")?, time, token)?;
        let expires = required("X-Amz-Expires")?.parse().ok().filter(|seconds| (1..=EXPIRES_S_MAX).contains(seconds));
        claim.expires_s =
            Some(expires.ok_or_else(|| {
                SqsError::incomplete_signature("X-Amz-Expires must be between 1 and 604800 seconds.")
            })?);
        claim.payload_hash = parameter("X-Amz-Content-Sha256");
        Ok(Some(claim))
    }

    fn new(
        credential: &str,
        signed_headers: &str,
        signature: String,
        time: Time,
        session_token: Option<String>,
    ) -> Result<Self, SqsError> {
        // A key may have slashes in it, the scope has none.
        let mut parts = credential.rsplitn(5, '/');
        let mut next = || parts.next().filter(|part| !part.is_empty()).map(str::to_owned);
        let (terminator, service, region, date, access_key) = (next(), next(), next(), next(), next());
        match (terminator.as_deref(), service, region, date, access_key) {
            (Some(TERMINATOR), Some(service), Some(region), Some(date), Some(access_key)) => Ok(Self {
                access_key,
                date,
                region,
                service,
                signed_headers: signed_headers.split(';').map(str::to_ascii_lowercase).collect(),
                signature,
                session_token,
                time,
                expires_s: None,
                payload_hash: None,
            }),
            _ => Err(SqsError::incomplete_signature(
                "Credential must have exactly 5 slash-delimited elements: keyid/date/region/service/aws4_request.",
            )),
        }
    }
}

impl Time {
    fn parse(text: &str) -> Result<Self, SqsError> {
        let read = || {
            let at = DateTime::strptime("%Y%m%dT%H%M%SZ", text).ok()?;
            let at_s = u64::try_from(TimeZone::UTC.to_timestamp(at).ok()?.as_second()).ok()?;
            // One way to write it, so that its date is its first 8 digits.
            (text.len() == "YYYYMMDDTHHMMSSZ".len()).then(|| Self { text: text.to_owned(), at_s })
        };
        read().ok_or_else(|| {
            SqsError::incomplete_signature(
                "Date must be in ISO-8601 'basic format', such as 20150830T123600Z. See ISO-8601.",
            )
        })
    }

    /// `YYYYMMDD`.
    pub(super) fn date(&self) -> &str {
        self.text.get(..8).unwrap_or_default()
    }
}
