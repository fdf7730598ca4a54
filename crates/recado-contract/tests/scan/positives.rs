//! Secrets and data about people, well formed and made up.

use serde_json::{Value, json};

use crate::{ALNUM, DIGITS, HEX, Random, UPPER, base64};

pub(crate) struct Case {
    /// What it is and where it stands.
    pub(crate) what: String,
    /// The secret alone.
    pub(crate) secret: String,
    pub(crate) json: String,
}

const URL64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

/// One secret of each public format.
fn tokens(random: &mut Random) -> Vec<(&'static str, String)> {
    // Beginnings stand in two parts, so that this file holds none of them whole.
    let simple = [
        ("aws", "AK", "IA", UPPER, 16),
        ("aws session", "AS", "IA", UPPER, 16),
        ("stripe live", "sk", "_live_", ALNUM, 24),
        ("stripe test", "sk", "_test_", ALNUM, 99),
        ("stripe restricted", "rk", "_live_", ALNUM, 24),
        ("github classic", "gh", "p_", ALNUM, 36),
        ("github oauth", "gh", "o_", ALNUM, 36),
        ("github app", "gh", "s_", ALNUM, 36),
        ("gitlab", "glp", "at-", URL64, 20),
        ("gitlab deploy", "gl", "dt-", URL64, 20),
        ("google", "AI", "za", URL64, 35),
        ("google client", "GOC", "SPX-", URL64, 28),
        ("openai", "s", "k-", ALNUM, 48),
        ("openai project", "sk-", "proj-", URL64, 120),
        ("anthropic", "sk-", "ant-api03-", URL64, 95),
        ("twilio", "S", "K", HEX, 32),
        ("npm", "np", "m_", ALNUM, 36),
        ("pypi", "py", "pi-AgEIcHlwaS5vcmc", URL64, 150),
        ("digitalocean", "do", "p_v1_", HEX, 64),
        ("shopify", "shp", "at_", HEX, 32),
        ("huggingface", "h", "f_", ALNUM, 34),
        ("databricks", "da", "pi", HEX, 32),
        ("vault", "hv", "s.", ALNUM, 24),
        ("postman", "PM", "AK-", ALNUM, 59),
    ];
    let mut tokens: Vec<(&str, String)> = simple
        .into_iter()
        .map(|(what, one, two, set, length)| (what, [one, two, &random.of(set, length)].concat()))
        .collect();
    let slack = format!("{}-{}-{}", random.of(DIGITS, 12), random.of(DIGITS, 13), random.of(ALNUM, 24));
    tokens.push(("slack bot", ["xo", "xb-", &slack].concat()));
    tokens.push(("slack user", ["xo", "xp-", &slack].concat()));
    let hook = format!("T{}/B{}/{}", random.of(UPPER, 8), random.of(UPPER, 10), random.of(ALNUM, 24));
    tokens.push(("slack webhook", ["https://hooks.slack", ".com/services/", &hook].concat()));
    tokens.push(("sendgrid", ["S", "G.", &random.of(ALNUM, 22), ".", &random.of(URL64, 43)].concat()));
    tokens.push(("github fine", ["github", "_pat_", &random.of(ALNUM, 22), "_", &random.of(ALNUM, 59)].concat()));
    let claims = format!(r#"{{"sub":"{}","exp":17{}}}"#, random.of(DIGITS, 8), random.of(DIGITS, 8));
    let part = |json: &str| base64(json.as_bytes()).replace('=', "").replace('+', "-").replace('/', "_");
    let jwt = [&part(r#"{"alg":"HS256","typ":"JWT"}"#), ".", &part(&claims), ".", &random.of(URL64, 43)].concat();
    tokens.push(("jwt", jwt));
    tokens.push(("bearer", format!("Bearer {}", random.of(ALNUM, 40))));
    let basic = base64(format!("app:{}", random.of(ALNUM, 14)).as_bytes());
    tokens.push(("basic", format!("Basic {basic}")));
    for kind in ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "] {
        let body = random.of(ALNUM, 64) + "\n" + &random.of(ALNUM, 64);
        tokens.push((
            "private key",
            format!("-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"),
        ));
    }
    tokens.push(("url", format!("postgres://app:{}@db.internal:5432/orders", random.of(ALNUM, 16))));
    tokens
}

/// A number of this beginning and length with its check digit.
fn card(random: &mut Random, start: &str, length: usize) -> String {
    let body = start.to_owned() + &random.of(DIGITS, length - 1 - start.len());
    let sum: u32 = body
        .bytes()
        .rev()
        .enumerate()
        .map(|(index, digit)| {
            let digit = u32::from(digit - b'0') * if index % 2 == 0 { 2 } else { 1 };
            digit / 10 + digit % 10
        })
        .sum();
    format!("{body}{}", (10 - sum % 10) % 10)
}

fn in_groups(card: &str, between: &str) -> String {
    let sizes: &[usize] = if card.len() == 15 { &[4, 6, 5] } else { &[4, 4, 4, 4] };
    let mut at = 0;
    let groups = sizes.iter().map(|size| {
        at += size;
        &card[at - size..at]
    });
    groups.collect::<Vec<_>>().join(between)
}

fn url_encoded(text: &str) -> String {
    let encode =
        |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}

/// The places in which a secret turns up.
fn places(secret: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("a field", json!({"deliveryId": "mail-1001", "config": {"value": secret}})),
        ("a text", json!({"note": format!("please use {secret} for this")})),
        ("an array", json!({"args": ["--verbose", secret]})),
        ("base64", json!({"blob": base64(secret.as_bytes())})),
        ("url-encoding", json!({"query": format!("redirect=1&v={}", url_encoded(secret))})),
        ("json in a string", json!({"event": json!({"inner": {"v": secret}}).to_string()})),
    ]
}

fn all_places(what: &str, secret: &str) -> impl Iterator<Item = Case> {
    let (what, secret) = (what.to_owned(), secret.to_owned());
    places(&secret).into_iter().map(move |(place, json)| Case {
        what: format!("{what} in {place}"),
        secret: secret.clone(),
        json: json.to_string(),
    })
}

pub(crate) fn secrets() -> Vec<Case> {
    let mut random = Random(7);
    let mut cases = Vec::new();
    for (what, secret) in tokens(&mut random) {
        cases.extend(all_places(what, &secret));
    }
    let issuers = [
        ("visa", "4", 16),
        ("visa", "4", 16),
        ("mastercard", "53", 16),
        ("mastercard", "2512", 16),
        ("amex", "37", 15),
        ("discover", "6011", 16),
        ("discover", "65", 16),
        ("jcb", "3566", 16),
        ("diners", "36", 14),
        ("unionpay", "62", 16),
    ];
    for (what, start, length) in issuers {
        let card = card(&mut random, start, length);
        cases.extend(all_places(what, &card));
        let number = card.parse::<u64>().unwrap_or_default();
        cases.push(Case {
            what: format!("{what} as a number"),
            secret: card.clone(),
            json: json!({"card": number}).to_string(),
        });
        if length > 14 {
            for between in [" ", "-"] {
                let secret = in_groups(&card, between);
                let json = json!({"note": format!("card {secret}, 12/29")}).to_string();
                cases.push(Case { what: format!("{what} in groups"), secret, json });
            }
        }
    }
    cases.extend(by_name(&mut random));
    cases
}

/// Values that only their field's name makes a secret.
fn by_name(random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: &str, secret: String| {
        let json = json!({"user": "u-1", name: secret}).to_string();
        cases.push(Case { what: format!("{name} by name"), secret, json });
    };
    for password in ["Tr0ub4dor&3", "hunter22", "P@ssw0rd!", "Sommer2026!", "correct_Horse7", "xK9#mQ2$vL"] {
        for name in ["password", "userPassword", "DB_PASSWORD", "smtp-passwd", "pwd"] {
            add(name, password.to_owned());
        }
    }
    for name in [
        "apiKey",
        "api_key",
        "client_secret",
        "clientSecret",
        "accessToken",
        "refresh_token",
        "authToken",
        "secretKey",
        "aws_secret_access_key",
        "privateKey",
        "encryptionKey",
        "signingKey",
        "webhookSecret",
        "sessionToken",
        "X-Api-Key",
        "authorization",
        "credentials",
        "secret",
        "token",
    ] {
        add(name, random.of(ALNUM, 40));
        add(name, random.of(HEX, 32));
    }
    for text in ["DB_PASSWORD=s3cr3tPassw0rd", "user=app&password=s3cr3tPassw0rd", "api_key: 9f86d081884c7d65a1b2"] {
        let secret = text.split(['=', ' ']).next_back().unwrap_or_default().to_owned();
        let json = json!({"env": text}).to_string();
        cases.push(Case { what: format!("an assignment, {text}"), secret, json });
    }
    cases
}

pub(crate) fn personal() -> Vec<Case> {
    let mut random = Random(11);
    let mut cases = Vec::new();
    let mut add = |what: &str, text: String| {
        for json in [json!({"value": text}), json!({"note": format!("about {text} again")})] {
            cases.push(Case { what: what.to_owned(), secret: text.clone(), json: json.to_string() });
        }
    };
    for _ in 0..40 {
        let local = random.of("abcdefghijklmnopqrstuvwxyz.", 8).replace("..", ".a");
        add(
            "e-mail",
            format!("a{local}1@{}.example.{}", random.of("abcdefgh", 6), random.pick(&["org", "com", "co.uk", "de"])),
        );
        add("phone", format!("+49 1{} {}", random.of(DIGITS, 2), random.of(DIGITS, 7)));
        add("phone", format!("+1-5{}-5{}-{}", random.of(DIGITS, 2), random.of(DIGITS, 2), random.of(DIGITS, 4)));
        add("ssn", format!("1{}-{}-{}", random.of(DIGITS, 2), random.of("123456789", 2), random.of("123456789", 4)));
        let account = random.of(DIGITS, 18);
        let remainder =
            format!("{account}131400").bytes().fold(0, |sum, byte| (sum * 10 + u32::from(byte - b'0')) % 97);
        add("iban", format!("DE{:02}{account}", 98 - remainder));
    }
    for html in ["<p>Dear Ada,</p>", "<html><body>hi</body></html>", "Hello<br>you", "<div class=\"x\">y</div>"] {
        add("html", html.to_owned());
    }
    add("a mail body", "Dear Ada, your order is on its way. ".repeat(80));
    cases
}
