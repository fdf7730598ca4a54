//! Payloads as they should be: ids, hashes, numbers, addresses of things, words.

use serde_json::{Value, json};

use crate::{ALNUM, DIGITS, HEX, Random, UPPER, base64};

const EACH: usize = 40;

fn uuid(random: &mut Random) -> String {
    let hex = random.of(HEX, 32);
    format!("{}-{}-4{}-a{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}

fn time(random: &mut Random) -> String {
    let [month, day, hour, minute, ms] = [12, 28, 24, 60, 1_000].map(|limit| random.below(limit));
    format!("2026-{:02}-{:02}T{hour:02}:{minute:02}:00.{ms:03}+02:00", month + 1, day + 1)
}

fn word(random: &mut Random) -> &'static str {
    random.pick(&[
        "invoice",
        "welcome",
        "reminder",
        "thumbnail",
        "shipping",
        "password-reset",
        "newsletter",
        "export",
        "import",
        "summary",
        "receipt",
        "customer",
        "onboarding",
        "secret-santa",
        "token-ring",
        "keyboard",
        "passport",
        "compass",
    ])
}

fn slug(random: &mut Random) -> String {
    format!("{}-{}-{}-{}", word(random), word(random), word(random), random.below(10_000))
}

fn image(random: &mut Random) -> String {
    let start: &[u8] = if random.below(2) == 0 { b"\x89PNG\r\n\x1a\n" } else { b"\xff\xd8\xff\xe0\x00\x10JFIF" };
    let mut bytes = start.to_vec();
    bytes.extend((0..600 + random.below(900)).map(|_| random.below(256) as u8));
    base64(&bytes)
}

type Make = fn(&mut Random) -> Value;

/// A kind of payload each.
const KINDS: &[Make] = &[
    |r| json!({"deliveryId": format!("mail-{}", r.below(100_000)), "templateId": word(r)}),
    |r| json!({"userId": uuid(r), "orderId": uuid(r), "requestId": uuid(r)}),
    |r| json!({"passwordResetId": uuid(r), "locale": r.pick(&["en-GB", "de-DE", "pt_BR", "sk-SK"])}),
    |r| json!({"tokenId": format!("tok_{}", r.of(HEX, 16)), "secretName": slug(r), "keyId": r.of(HEX, 8)}),
    |r| json!({"orderNumber": r.of(DIGITS, 16), "trackingNumber": r.of(DIGITS, 12)}),
    |r| json!({"order_id": 1_000_000_000_000_000 + r.below(1 << 50), "total": r.below(100_000), "currency": "EUR"}),
    |r| json!({"sha256": r.of(HEX, 64), "md5": r.of(HEX, 32), "etag": format!("\"{}\"", r.of(HEX, 32))}),
    |r| json!({"commit": r.of(HEX, 40), "repository": format!("https://git.example.org/team/{}.git", slug(r))}),
    |r| json!({"url": format!("https://cdn.example.org/{}/{}/{}.jpg?w=200&h=100&v={}", word(r), r.of(HEX, 8), slug(r), r.below(9_999))}),
    |r| json!({"url": format!("https://shop.example.org/orders/{}?utm_source=mail&ref={}", r.of(DIGITS, 16), word(r))}),
    |r| json!({"callback": format!("http://10.0.{}.{}:8080/hooks/{}", r.below(256), r.below(256), uuid(r))}),
    |r| json!({"image": image(r), "width": r.below(4_000)}),
    |r| json!({"image": format!("data:image/png;base64,{}", image(r))}),
    |r| json!({"runAt": time(r), "createdAt": 1_760_000_000_000_u64 + r.below(1 << 34) as u64, "ttl": "15m"}),
    |r| json!({"id": format!("01{}", r.of("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 24)), "kind": word(r)}),
    |r| json!({"nanoid": r.of(ALNUM, 21), "ksuid": r.of(ALNUM, 27), "cuid": format!("c{}", r.of("abcdefghijklmnopqrstuvwxyz0123456789", 24))}),
    |r| json!({"object": format!("s3://bucket-{}/2026/06/{}/{}.parquet", word(r), uuid(r), slug(r))}),
    |r| json!({"arn": format!("arn:aws:sqs:eu-central-1:{}:{}", r.of(DIGITS, 12), slug(r))}),
    |r| json!({"nextPageToken": r.of(ALNUM, 40), "pageToken": r.of(HEX, 32), "continuationToken": r.of(ALNUM, 60)}),
    |r| json!({"deviceToken": r.of(HEX, 64), "platform": r.pick(&["ios", "android"])}),
    |r| json!({"idempotencyKey": format!("order-{}-{}", r.below(9_999), r.of(HEX, 12)), "partitionKey": uuid(r), "sortKey": time(r)}),
    |r| json!({"publicKey": r.of(ALNUM, 44), "fingerprint": r.of(HEX, 40), "primaryKey": r.below(1 << 40)}),
    |r| json!({"password": r.pick(&["required", "unchanged", "expired", "Changed", "must be reset", ""]), "user": slug(r)}),
    |r| json!({"secret": r.pick(&["env:MAIL_SECRET", "projects/one/secrets/mail-2", "vault:kv/data/mail#key"]), "v": r.below(9)}),
    |r| json!({"text": format!("The password of {} was reset, a token was sent at {}.", slug(r), time(r))}),
    |r| json!({"text": format!("bearer of good news: {} and {} are done", slug(r), word(r))}),
    |r| json!({"log": format!("GET /v1/{}/{} 200 {}ms trace=00-{}-{}-01", word(r), uuid(r), r.below(999), r.of(HEX, 32), r.of(HEX, 16))}),
    |r| json!({"sql": format!("select * from {} where id = {} and token_id is not null", word(r), r.below(1 << 30))}),
    |r| json!({"version": format!("{}.{}.{}-rc.{}+{}", r.below(9), r.below(99), r.below(99), r.below(9), r.of(HEX, 7))}),
    |r| json!({"isbn": format!("978{}", r.of(DIGITS, 10)), "sku": format!("SK-{}-{}", r.of(UPPER, 6), r.below(999))}),
    |r| json!({"geo": {"lat": 48.137_154 + r.below(99) as f64 / 1e4, "lon": 11.576_124}, "zoom": r.below(20)}),
    |r| json!({"class": format!("sk-{}", slug(r)), "style": format!("key-{}", word(r)), "npm": format!("npm_config_{}", word(r))}),
    |r| json!({"twilioMessage": format!("SM{}", r.of(HEX, 32)), "chargeId": format!("ch_{}", r.of(ALNUM, 24)), "customer": format!("cus_{}", r.of(ALNUM, 14))}),
    |r| json!({"publishable": format!("pk_live_{}", r.of(ALNUM, 24)), "price": format!("price_{}", r.of(ALNUM, 24))}),
    |r| json!({"mailMessageId": format!("<{}@mail.example.org>", r.of(ALNUM, 24)), "threadId": r.of(HEX, 16)}),
    |r| json!({"snowflake": format!("1{}", r.of(DIGITS, 18)), "parentId": r.of(DIGITS, 19)}),
    |r| json!({"traceparent": format!("00-{}-{}-01", r.of(HEX, 32), r.of(HEX, 16)), "baggage": format!("tenant={}", slug(r))}),
    |r| json!({"colors": [format!("#{}", r.of(HEX, 6)), format!("#{}", r.of(HEX, 6))], "mime": "image/svg+xml"}),
    |r| json!({"cron": format!("{} 3 * * 1-5", r.below(60)), "timeZone": "Europe/Berlin", "range": format!("{}-{}", r.below(99), r.below(999))}),
    |r| json!({"query": format!("q={}&page={}&sort=created%20desc&filter=a%3Db", word(r), r.below(99))}),
    |r| json!({"event": json!({"id": uuid(r), "type": word(r), "at": time(r)}).to_string()}),
    |r| json!({"blob": base64(json!({"id": uuid(r), "n": r.below(999)}).to_string().as_bytes())}),
    |r| json!({"certificate": format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----", r.of(ALNUM, 64))}),
    |r| json!({"ssh": format!("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{}", r.of(ALNUM, 43)), "remote": "git@git.example.org:a/b.git"}),
    |r| json!({"docker": format!("registry.example.org/{}@sha256:{}", word(r), r.of(HEX, 64))}),
    |r| json!({"ip": format!("192.168.{}.{}", r.below(256), r.below(256)), "mac": "00:1b:44:11:3a:b7", "v6": format!("2001:db8::{}", r.of(HEX, 4))}),
    |r| json!({"invoiceNumber": format!("INV-2026-{}", r.of(DIGITS, 6)), "amount": format!("{}.{:02} EUR", r.below(99_999), r.below(100))}),
    |r| json!({"eanBarcode": r.of(DIGITS, 13), "imei": format!("35{}", r.of(DIGITS, 13)), "accountId": r.of(DIGITS, 12)}),
    |r| json!({"tokens": r.below(4_096), "maxTokens": r.below(4_096), "model": "large-2026-06"}),
    |r| json!({"csp": format!("default-src 'self'; img-src https://{}.example.org data:; script-src 'nonce-x'", word(r))}),
    |r| json!({"token": slug(r), "apiKey": r.pick(&["none", "default", "inherit"]), "authorization": "none"}),
    |r| json!({"html5": "a < b && c > d", "math": format!("{} <= x < {}", r.below(9), r.below(99)), "path": format!("/var/lib/{}/{}", word(r), uuid(r))}),
];

pub(crate) fn all() -> Vec<String> {
    let mut random = Random(23);
    let all = KINDS.iter().flat_map(|make| (0..EACH).map(|_| make(&mut random).to_string()).collect::<Vec<_>>());
    all.collect()
}
