//! Known answers: those that the senders' own documents print, and others made by another implementation:
//! `hmac.new(secret, signed, hashlib.sha256)` of Python.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::super::secret::{self, Secret};
use super::*;

const BODY: &[u8] = br#"{"id":"evt_1","type":"invoice.paid"}"#;
const AT: u64 = 1_780_000_000;

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let line = |(name, value): &(&str, &str)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
    };
    HeaderMap::from_iter(lines.iter().map(line))
}

fn secrets(texts: &[&str], scheme: &Scheme) -> Vec<Secret> {
    texts.iter().map(|text| Secret::of(text, secret::read(text.as_bytes(), scheme))).collect()
}

/// What a request proves to a hook with these secrets, 5 minutes of tolerance and this clock.
fn verdict(scheme: &Scheme, texts: &[&str], lines: &[(&str, &str)], body: &[u8], now_s: u64) -> Result<(), Refused> {
    let tolerance_s = scheme.has_time().then_some(300);
    scheme.claim(&headers(lines))?.verify(&secrets(texts, scheme), body, now_s, tolerance_s)
}

/// Good, with any other body or secret wrong, and with a tolerance on both sides of its time if it has one.
fn check(scheme: &Scheme, secret: &str, lines: &[(&str, &str)], body: &[u8], at_s: u64) {
    let of = |secrets: &[&str], body: &[u8], now_s| verdict(scheme, secrets, lines, body, now_s);
    assert_eq!(of(&[secret], body, at_s), Ok(()));
    let other = if *scheme == Scheme::StandardWebhooks { "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" } else { "other" };
    assert_eq!(of(&[other, secret], body, at_s), Ok(()), "the new secret or the old one");
    assert_eq!(of(&[other], body, at_s), Err(Refused::Wrong));
    assert_eq!(of(&[], body, at_s), Err(Refused::Wrong));
    for at in 0..body.len() {
        let mut changed = body.to_vec();
        changed[at] ^= 1;
        assert_eq!(of(&[secret], &changed, at_s), Err(Refused::Wrong), "byte {at}");
    }
    assert_eq!(of(&[secret], &[body, b" "].concat(), at_s), Err(Refused::Wrong));
    let far = if scheme.has_time() { Err(Refused::Old) } else { Ok(()) };
    for (now_s, expected) in [(at_s - 300, Ok(())), (at_s + 300, Ok(())), (at_s - 301, far), (at_s + 301, far)] {
        assert_eq!(of(&[secret], body, now_s), expected, "{now_s}");
    }
    for line in lines {
        let others: Vec<_> = lines.iter().filter(|other| *other != line).copied().collect();
        assert_eq!(verdict(scheme, &[secret], &others, body, at_s), Err(Refused::Missing), "without {line:?}");
    }
}

#[test]
fn standard_webhooks_as_its_specification_prints_it() {
    let good = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    let other = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    for signature in [good, &format!("{other} {good}"), &format!("v1a,x {good} v2,y")] {
        let lines = [
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", signature),
        ];
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        check(&Scheme::StandardWebhooks, secret, &lines, br#"{"test": 2432232314}"#, 1_614_265_330);
        let of = |lines: &[(&str, &str)]| {
            verdict(&Scheme::StandardWebhooks, &[secret], lines, br#"{"test": 2432232314}"#, 1_614_265_330)
        };
        assert_eq!(of(&[("webhook-id", "msg_other"), lines[1], lines[2]]), Err(Refused::Wrong), "the id is signed");
        assert_eq!(of(&[lines[0], ("webhook-timestamp", "1614265331"), lines[2]]), Err(Refused::Wrong));
        assert_eq!(of(&[lines[0], ("webhook-timestamp", "+1614265330"), lines[2]]), Err(Refused::Missing));
    }
    assert!(secret::read(b"whsec_%%%", &Scheme::StandardWebhooks).is_err());
}

#[test]
fn stripe() {
    // secret whsec_test_secret, signed `1780000000.` and the body; the second secret is whsec_other.
    let good = "3da917b99c467eb04f4c5b7370d859161b48f64a725af689540baa7be6b067ee";
    let other = "57dc650ed4ee923f30fbd8877d24cf9e4817e4dfefa0b69f3e9389943b764c17";
    for header in [
        format!("t=1780000000,v1={good}"),
        format!("t=1780000000, v1={good}, v0={other}"),
        format!("t=1780000000,v1={other},v1={good}"),
    ] {
        check(&Scheme::Stripe, "whsec_test_secret", &[("stripe-signature", &header)], BODY, AT);
    }
    for header in
        ["", "t=1780000000", &format!("v1={good}"), &format!("t=1780000000,t=1780000001,v1={good}"), "t=x,v1=y"]
    {
        let lines = [("stripe-signature", header)];
        assert_eq!(
            verdict(&Scheme::Stripe, &["whsec_test_secret"], &lines, BODY, AT),
            Err(Refused::Missing),
            "{header}"
        );
    }
}

#[test]
fn github_as_its_manual_prints_it() {
    let good = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let secret = "It's a Secret to Everybody";
    for header in [format!("sha256={good}"), format!("sha256={}", good.to_uppercase())] {
        check(&Scheme::Github, secret, &[("x-hub-signature-256", &header)], b"Hello, World!", AT);
    }
    for header in [good, &format!("sha1={good}"), &format!("sha256={}", &good[2..]), "sha256=é"] {
        let lines = headers(&[]);
        let mut lines = lines.clone();
        lines.insert("x-hub-signature-256", HeaderValue::from_bytes(header.as_bytes()).unwrap());
        assert_eq!(Scheme::Github.claim(&lines), Err(Refused::Missing), "{header}");
    }
    let mut twice = headers(&[("x-hub-signature-256", &format!("sha256={good}"))]);
    twice.append("x-hub-signature-256", HeaderValue::from_static("sha256=0"));
    assert_eq!(Scheme::Github.claim(&twice), Err(Refused::Missing), "a header that stands twice");
}

#[test]
fn slack_as_its_manual_prints_it() {
    let body = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&\
                 channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=\
                 https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&\
                 trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    let lines = [
        ("x-slack-request-timestamp", "1531420618"),
        ("x-slack-signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
    ];
    check(&Scheme::Slack, "8f742231b10e8888abcd99yyyzzz85a5", &lines, body, 1_531_420_618);
}

#[test]
fn hmac_as_the_hook_says() {
    let form = |prefix: &str, is_base64, timestamp: Option<&'static str>| {
        let timestamp = timestamp.map(HeaderName::from_static);
        Scheme::Hmac(Form { header: HeaderName::from_static("x-sig"), prefix: prefix.into(), is_base64, timestamp })
    };
    // secret `a generic secret`, signed the body.
    let hex = "8e78a5a038cb2ad66a5baba3ff3c8bd6ad8b4b906a224ddf5f78a0de300af885";
    check(&form("", false, None), "a generic secret", &[("x-sig", hex)], BODY, AT);
    check(&form("sha256=", false, None), "a generic secret", &[("x-sig", &format!("sha256={hex}"))], BODY, AT);
    // The same secret, signed `1780000000.` and the body.
    let lines = [("x-sig", "ZkoB/0pv8eN4iPEX4F4hAnjmZZexfgBaF32V2eS50cE="), ("x-time", "1780000000")];
    check(&form("", true, Some("x-time")), "a generic secret", &lines, BODY, AT);
    assert_eq!(form("sha256=", false, None).claim(&headers(&[("x-sig", hex)])), Err(Refused::Missing));
}
