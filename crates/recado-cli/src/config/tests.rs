//! Layers, and what their errors say.

use super::*;
use crate::failure::Exit;

fn with(flags: &[(&str, &str)], env: &[(&str, &str)], file: &str) -> Result<Config, Failure> {
    let mut given = Flags::default();
    for (name, value) in flags {
        let value = Some((*value).to_owned());
        match *name {
            "listen" => given.listen = value,
            "data" => given.data = value,
            "durability" => given.durability = value,
            "payload-cache" => given.payload_cache = value,
            "public-url" => given.public_url = value,
            "log-format" => given.log_format = value,
            "sqs-60s-rules" => given.sqs_60s_rules = value,
            "auto-create-queues" => given.auto_create_queues = value,
            "insecure-no-auth" => given.insecure_no_auth = true,
            other => panic!("no flag {other}"),
        }
    }
    let dir =
        std::env::temp_dir().join(format!("recado-config-{}-{:?}", std::process::id(), std::thread::current().id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let path = dir.join("recado.toml");
    std::fs::write(&path, file).expect("a file");
    given.config = Some(path.to_string_lossy().into_owned());
    let env = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    let built = build(&given, &env);
    std::fs::remove_dir_all(&dir).expect("removed");
    built.map_err(|mut failure| {
        failure.message = failure.message.replace(&format!("{}/", dir.display()), "");
        failure
    })
}

#[test]
fn the_nearest_layer_wins() {
    let file = "[server]\nlisten = \"127.0.0.1:3\"\ndata = \"from-file\"\nautoCreateQueues = false\n";
    let flag = ("listen", "127.0.0.1:1");
    let env = ("RECADO_LISTEN", "127.0.0.1:2");
    for (flags, env, expected) in [
        (vec![flag], vec![env], 1),
        (vec![], vec![env], 2),
        (vec![], vec![("RECADO_LISTEN", "")], 3),
        (vec![], vec![], 3),
    ] {
        let config = with(&flags, &env, file).expect("sound");
        assert_eq!(config.listen.port(), expected);
        assert_eq!(config.data, Path::new("from-file"));
        assert!(!config.auto_create_queues);
    }
    assert_eq!(with(&[], &[], "").expect("sound").listen.port(), 7070);
    assert!(with(&[], &[("RECADO_AUTO_CREATE_QUEUES", "on")], file).expect("sound").auto_create_queues);
}

#[test]
fn errors_name_the_layer() {
    let check = |flags: &[(&str, &str)], env: &[(&str, &str)], file: &str, exit: Exit, expected: &str| {
        let failure = with(flags, env, file).expect_err(expected);
        assert!(failure.message.starts_with(expected), "{}\nexpected {expected}", failure.message);
        assert_eq!(failure.exit, exit, "{expected}");
    };
    check(&[("listen", "nowhere")], &[], "", Exit::Usage, "--listen: `nowhere` is not an address");
    check(&[], &[("RECADO_LISTEN", "7070")], "", Exit::Usage, "RECADO_LISTEN: `7070` is not an address");
    check(&[], &[], "[server]\n\nlisten = 7070\n", Exit::BadData, "recado.toml line 3: 7070 is not a text");
    check(&[("durability", "none")], &[], "", Exit::Usage, "--durability: `none` is not one of sync, os");
    check(&[], &[("RECADO_PAYLOAD_CACHE", "1GB")], "", Exit::Usage, "RECADO_PAYLOAD_CACHE: `1GB` is not a size");
    check(
        &[],
        &[],
        "[server]\nautoCreateQueues = \"yes\"\n",
        Exit::BadData,
        "recado.toml line 2: \"yes\" is not true or false",
    );
    check(&[("public-url", "jobs.example.org")], &[], "", Exit::Usage, "--public-url: `jobs.example.org`");
    check(&[], &[("RECADO_LOG_FORMAT", "xml")], "", Exit::Usage, "RECADO_LOG_FORMAT: `xml`");
}

#[test]
fn beyond_loopback_needs_a_decision() {
    let open = ("listen", "0.0.0.0:0");
    let failure = with(&[open], &[], "").expect_err("refused");
    assert!(failure.message.starts_with("--listen: 0.0.0.0:0 is reachable"), "{}", failure.message);
    assert!(failure.message.contains("listen on 127.0.0.1"), "{}", failure.message);
    assert!(failure.message.contains("--insecure-no-auth"), "{}", failure.message);
    assert!(with(&[open, ("insecure-no-auth", "")], &[], "").is_ok());
    assert!(with(&[open], &[], "[server]\ninsecureNoAuth = true\n").is_ok());
    assert!(with(&[("listen", "[::1]:0")], &[], "").is_ok());
}

#[test]
fn sqs_has_a_section_of_its_own() {
    let file = "[sqs]\nisolate = true\nsixtySecondRules = false\n[sqs.keys]\nAKIA1 = \"env:SECRET_1\"\n";
    let config = with(&[], &[("SECRET_1", "s3cret")], file).expect("sound");
    assert!(config.sqs.isolate && !config.sqs.sixty_second_rules);
    assert_eq!(config.sqs.keys["AKIA1"], "s3cret");
    assert!(with(&[("sqs-60s-rules", "on")], &[("SECRET_1", "s")], file).expect("sound").sqs.sixty_second_rules);
    assert!(with(&[], &[], "").expect("sound").sqs.sixty_second_rules);
    let missing = with(&[], &[], file).expect_err("no secret");
    assert_eq!(missing.message, "recado.toml line 4: the environment variable SECRET_1 of key AKIA1 is not set");
    let plain = with(&[], &[], "[sqs]\nkeys = { AKIA1 = \"s3cret\" }\n").expect_err("a secret in the file");
    assert!(plain.message.contains("env:NAME") && !plain.message.contains("s3cret"), "{}", plain.message);
}
