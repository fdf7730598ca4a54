//! Services of a test's own: real ones, in a temporary directory, reached over a socket in it, stopped at its end.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A program that is installed by `scripts/setup.sh test`.
#[cfg(feature = "redis")]
fn program(name: &str) -> Command {
    Command::new(name)
}

/// Redis, without persistence.
#[cfg(feature = "redis")]
pub(crate) struct Redis {
    child: Child,
    dir: TempDir,
}

#[cfg(feature = "redis")]
impl Redis {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("redis.sock");
        let child = program("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--dir"])
            .arg(dir.path())
            .arg("--unixsocket")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is missing: run scripts/setup.sh test");
        Self { child, dir }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis+unix://{}", self.dir.path().join("redis.sock").display())
    }
}

#[cfg(feature = "redis")]
impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// PostgreSQL, which refuses to run as root: then it runs as the user that its package made.
#[cfg(feature = "postgres")]
pub(crate) struct Postgres {
    bin: PathBuf,
    user: Option<(u32, u32)>,
    dir: TempDir,
}

#[cfg(feature = "postgres")]
impl Postgres {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let user = (id("-u", None) == 0).then(|| (id("-u", Some("postgres")), id("-g", Some("postgres"))));
        if let Some((uid, gid)) = user {
            chown(dir.path(), Some(uid), Some(gid)).unwrap();
        }
        let this = Self { bin: bin(), user, dir };
        this.run("initdb", &["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync"]);
        let options = format!("-c listen_addresses='' -c unix_socket_directories='{}' -F", this.dir.path().display());
        let log = this.dir.path().join("log");
        this.run("pg_ctl", &["start", "--wait", "--log", log.to_str().unwrap(), "--options", &options]);
        this
    }

    pub(crate) fn address(&self) -> String {
        format!("host={} user=postgres dbname=postgres", self.dir.path().display())
    }

    fn run(&self, name: &str, args: &[&str]) {
        let mut command = Command::new(self.bin.join(name));
        command.arg("--pgdata").arg(self.dir.path().join("data")).args(args).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(status.success(), "{command:?}: {status}");
    }
}

#[cfg(feature = "postgres")]
impl Drop for Postgres {
    fn drop(&mut self) {
        self.run("pg_ctl", &["stop", "--mode=immediate"]);
    }
}

/// A number of a user: its own, or that of another one.
#[cfg(feature = "postgres")]
fn id(which: &str, user: Option<&str>) -> u32 {
    let output = Command::new("id").arg(which).args(user).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().parse().unwrap_or_else(|_| panic!("no user {user:?}: run scripts/setup.sh test"))
}

/// Debian keeps each version's programs apart and not on the path.
#[cfg(feature = "postgres")]
fn bin() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let newest = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).filter(|bin| has_server(bin)).max();
    newest.unwrap_or_else(|| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).find(|bin| has_server(bin));
        found.expect("PostgreSQL is missing: run scripts/setup.sh test")
    })
}

#[cfg(feature = "postgres")]
fn has_server(bin: &Path) -> bool {
    bin.join("pg_ctl").exists()
}
