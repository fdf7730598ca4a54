//! Who may ask: a web page of another origin may not drive a local queue.
//!
//! A browser always sends `Host`, and `Origin` with whatever is no GET. A GET can change state too (SQS by its Query
//! protocol: `<img src="http://127.0.0.1:7070/?Action=DeleteQueue&QueueUrl=mail">`), and bears no `Origin` when the page
//! does not read its answer; but a browser says of it by `Sec-Fetch-Site` who asks. So a foreign `Origin` and a
//! `Sec-Fetch-Site` of another site are refused everywhere; and where the server is reached over loopback, a `Host` that
//! is not loopback's (a name that an attacker points at 127.0.0.1) is refused as well.

use std::net::IpAddr;

use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Uri, Version};

use crate::problem::{Code, Problem};

/// Where the page is that a browser asks for; programs do not send it.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// `--public-url`: the name under which others reach this server.
#[derive(Clone, Debug)]
pub(crate) struct PublicUrl {
    host: String,
    origin: String,
}

impl PublicUrl {
    /// Reads `https://queue.example.org`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a public URL: write scheme and host, as in https://queue.example.org");
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https")).ok_or_else(wrong)?;
        let authority = uri.authority().ok_or_else(wrong)?;
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() || authority.as_str().contains('@') {
            return Err(wrong());
        }
        // A browser leaves the scheme's own port out of an origin.
        let default_port = if scheme == "https" { ":443" } else { ":80" };
        let authority_text = authority.as_str().to_ascii_lowercase();
        let shown = authority_text.strip_suffix(default_port).unwrap_or(&authority_text);
        Ok(Self { host: authority.host().to_ascii_lowercase(), origin: format!("{scheme}://{shown}") })
    }
}

impl PublicUrl {
    /// Scheme and host.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }
}

/// Checks a request that came over loopback, or not.
pub(crate) fn check(parts: &Parts, over_loopback: bool, public: Option<&PublicUrl>) -> Result<(), Problem> {
    // `none` is a person's doing: an address typed in, a bookmark.
    let is_own = |site: &HeaderValue| matches!(site.as_bytes(), b"same-origin" | b"none");
    if !parts.headers.get_all(FETCH_SITE).iter().all(is_own) {
        return Err(foreign("a browser asks for a page of another origin (Sec-Fetch-Site)"));
    }
    let Some(authority) = authority(parts)? else {
        // HTTP/1.0 without Host: no browser. With an Origin there is nothing to compare it to.
        return match parts.headers.contains_key(ORIGIN) {
            true => Err(foreign("an Origin without a Host")),
            false => Ok(()),
        };
    };
    let host = authority.host();
    if over_loopback && !is_loopback(host) && !public.is_some_and(|public| public.host.eq_ignore_ascii_case(host)) {
        return Err(foreign(&format!(
            "host `{host}` is not this server's: use localhost or 127.0.0.1, or start it with --public-url"
        )));
    }
    for origin in parts.headers.get_all(ORIGIN) {
        let own = |text: &str| {
            let same_host =
                text.strip_prefix("http://").is_some_and(|rest| rest.eq_ignore_ascii_case(authority.as_str()));
            same_host || public.is_some_and(|public| public.origin.eq_ignore_ascii_case(text))
        };
        if !origin.to_str().is_ok_and(own) {
            let shown = String::from_utf8_lossy(origin.as_bytes());
            return Err(foreign(&format!(
                "origin `{}` is not this server's",
                shown.chars().take(200).collect::<String>()
            )));
        }
    }
    Ok(())
}

fn foreign(detail: &str) -> Problem {
    Problem::new(Code::ForeignOrigin, detail)
}

/// The authority asked for: of the target if it has one, else the Host header.
fn authority(parts: &Parts) -> Result<Option<Authority>, Problem> {
    if let Some(authority) = parts.uri.authority() {
        return Ok(Some(authority.clone()));
    }
    let mut hosts = parts.headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => match Authority::try_from(host.as_bytes()) {
            Ok(authority) => Ok(Some(authority)),
            Err(_) => Err(Problem::new(Code::InvalidRequest, "the Host header is not a host name")),
        },
        (None, _) if parts.version < Version::HTTP_11 => Ok(None),
        (None, _) => Err(Problem::new(Code::InvalidRequest, "HTTP/1.1 needs a Host header")),
        (Some(_), Some(_)) => Err(Problem::new(Code::InvalidRequest, "there is more than one Host header")),
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let by_address = match bare {
        Some(six) => six.parse::<std::net::Ipv6Addr>().is_ok_and(|address| address.is_loopback()),
        None => host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
    };
    by_address || host.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn verdict(host: &str, origin: Option<&str>, over_loopback: bool) -> Option<String> {
        let mut request = Request::builder().uri("/v1/queues").header(HOST, host);
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let public = PublicUrl::parse("https://queue.example.org").unwrap();
        check(&parts, over_loopback, Some(&public)).err().map(|problem| problem.code().to_owned())
    }

    #[test]
    fn hosts_and_origins() {
        let foreign = Some("foreign-origin");
        for (host, origin, over_loopback, expected) in [
            ("localhost:7070", None, true, None),
            ("LOCALHOST", None, true, None),
            ("127.0.0.1:7070", None, true, None),
            ("127.8.9.10", None, true, None),
            ("[::1]:7070", None, true, None),
            ("queue.example.org", None, true, None),
            ("evil.example", None, true, foreign),
            ("127.0.0.1.evil.example", None, true, foreign),
            ("localhost.evil.example", None, true, foreign),
            ("10.0.0.5:7070", None, true, foreign),
            ("10.0.0.5:7070", None, false, None),
            ("localhost:7070", Some("http://localhost:7070"), true, None),
            ("localhost:7070", Some("https://queue.example.org"), true, None),
            ("localhost:7070", Some("http://localhost:3000"), true, foreign),
            ("localhost:7070", Some("https://localhost:7070"), true, foreign),
            ("localhost:7070", Some("null"), true, foreign),
            ("localhost:7070", Some("https://evil.example"), true, foreign),
            ("10.0.0.5:7070", Some("http://10.0.0.5:7070"), false, None),
            ("10.0.0.5:7070", Some("http://evil.example"), false, foreign),
        ] {
            assert_eq!(verdict(host, origin, over_loopback).as_deref(), expected, "{host} {origin:?} {over_loopback}");
        }
    }

    #[test]
    fn pages_of_another_site() {
        for (sites, is_foreign) in [
            (vec![], false),
            (vec!["none"], false),
            (vec!["same-origin"], false),
            (vec!["same-site"], true),
            (vec!["cross-site"], true),
            (vec![""], true),
            (vec!["same-origin", "cross-site"], true),
        ] {
            let mut request = Request::builder().uri("/?Action=DeleteQueue").header(HOST, "127.0.0.1:7070");
            for site in &sites {
                request = request.header("sec-fetch-site", *site);
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(check(&parts, true, None).is_err(), is_foreign, "{sites:?}");
        }
    }

    #[test]
    fn public_urls() {
        for wrong in ["", "queue.example.org", "ftp://x", "https://x/path", "https://u@x", "https://x/?q"] {
            assert!(PublicUrl::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(PublicUrl::parse("https://X.org:443/").unwrap().origin, "https://x.org");
    }
}
