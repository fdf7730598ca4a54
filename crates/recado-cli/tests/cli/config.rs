//! The server's four layers, through the real binary.

use crate::support::{Dir, Server, command, finish};

#[test]
fn an_error_names_the_layer_it_came_from() {
    let dir = Dir::new();
    let refused = |args: &[&str], env: &[(&str, &str)], code: i32, says: &str| {
        let mut command = command(dir.path(), &[&["serve", "--data", "d"], args].concat());
        let run = finish(command.envs(env.iter().copied())).expect(code).says(says);
        assert_eq!(run.out, "");
    };
    refused(&["--listen", "here"], &[], 64, "--listen: `here` is not an address");
    refused(&[], &[("RECADO_LISTEN", "here")], 64, "RECADO_LISTEN: `here`");
    refused(&["--durability", "maybe"], &[], 64, "--durability: `maybe` is not one of sync, os");
    refused(&[], &[("RECADO_MEMORY", "2GB")], 64, "RECADO_MEMORY: `2GB` is not a size");
    refused(&["--listen", "0.0.0.0:0"], &[], 64, "--insecure-no-auth");
    refused(&["--config", "absent.toml"], &[], 64, "--config: there is no file absent.toml");
    refused(&[], &[("RECADO_LOG", "a=b=c")], 64, "RECADO_LOG");

    dir.write("recado.toml", "[server]\nlisten = \"127.0.0.1:0\"\nlistne = \"x\"\n");
    refused(&[], &[], 65, "recado.toml line 3: unknown key `listne` in [server]; did you mean `listen`?");
    dir.write("recado.toml", "[server]\nlisten = 7070\n");
    refused(&[], &[], 65, "recado.toml line 2: 7070 is not a text");
    dir.write("recado.toml", "[server\n");
    refused(&[], &[], 65, "recado.toml line 1: ");
    dir.write("recado.toml", "[sever]\n");
    refused(&[], &[], 65, "recado.toml line 1: unknown section [sever]; did you mean `server`?");
    assert_eq!(dir.entries(), ["recado.toml"], "nothing was made");
}

#[test]
fn bad_queue_options_name_their_line_and_the_nearest_option() {
    let dir = Dir::new();
    let refused = |text: &str, says: &[&str]| {
        dir.write("recado.toml", text);
        let mut run = finish(&mut command(dir.path(), &["serve", "--listen", "127.0.0.1:0"])).expect(65);
        for part in says {
            run = run.says(part);
        }
    };
    refused(
        "[queues.email]\nmaxAttempts = 3\nvisibiltyTimeout = \"30s\"\n",
        &["recado.toml line 3: [queues.email] visibiltyTimeout: ", "`visibilityTimeout`"],
    );
    refused("[defaults]\nmaxAttempts = 0\n", &["recado.toml line 2: [defaults] maxAttempts: must be from 1 to 1000"]);
    refused("[queues.a]\nbackoff = { base = \"x\" }\n", &["recado.toml line 2: [queues.a] backoff.base: "]);
    refused("[queues.\"no spaces\"]\nmaxAttempts = 3\n", &["recado.toml line 1", "no spaces"]);
}

#[test]
fn the_nearest_layer_wins_and_the_file_makes_queues() {
    let dir = Dir::new();
    dir.write(
        "recado.toml",
        "[server]\nlisten = \"nowhere\"\ndata = \"nowhere\"\n[queues.email]\nowner = \"ops\"\nmaxAttempts = 3\n",
    );
    let mut serve = command(dir.path(), &["serve", "--data", "from-flag"]);
    let server = Server::spawn(serve.env("RECADO_LISTEN", "127.0.0.1:0").env("RECADO_DATA", "from-env"));
    let mut entries = dir.entries();
    entries.sort();
    assert_eq!(entries, ["from-flag", "recado.toml"]);
    let queue = server.json(&["queues", "show", "email"]);
    assert_eq!((&queue["source"], &queue["effective"]["maxAttempts"]), (&"file".into(), &3.into()));
    server.run(&["queues", "set", "email", "maxAttempts=4"]).expect(65).says("managed-by-file");
    server.stop();
}

#[test]
fn hangup_reads_the_file_again_and_a_bad_one_changes_nothing() {
    let dir = Dir::new();
    dir.write("recado.toml", "[queues.email]\nmaxAttempts = 3\n");
    let server = Server::start(&dir.path().join("data"));
    let attempts = || server.json(&["queues", "show", "email"])["effective"]["maxAttempts"].clone();
    assert_eq!(attempts(), 3);
    dir.write("recado.toml", "[queues.email]\nmaxAttempts = 0\n");
    server.process.signal(rustix::process::Signal::HUP);
    dir.write("good.toml", "[queues.email]\nmaxAttempts = 7\n");
    // Renamed into place, so that no reload reads half of it.
    std::fs::rename(dir.path().join("good.toml"), dir.path().join("recado.toml")).unwrap();
    server.process.signal(rustix::process::Signal::HUP);
    crate::support::until("the reload is applied", || (attempts() == 7).then_some(()));
    server.stop();
}
