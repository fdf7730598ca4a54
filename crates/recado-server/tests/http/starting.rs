//! What keeps a server from starting, each with its own words.

use std::net::{SocketAddr, TcpListener};

use crate::server::{Server, config, start};

fn refused(change: impl FnOnce(&mut recado_server::Config)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    change(&mut config);
    match start(config) {
        Ok(_) => panic!("it started"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn beyond_loopback_only_when_it_is_meant() {
    let anywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let message = refused(|config| config.listen = anywhere);
    assert!(message.contains("127.0.0.1") && message.contains("--insecure-no-auth"), "{message}");
    let server = Server::start_with(|config| {
        config.listen = anywhere;
        config.insecure_no_auth = true;
    });
    let address = SocketAddr::from(([127, 0, 0, 1], server.address.port()));
    crate::client::Conn::open(address).json("GET", "/healthz", "").expect(200);
}

#[test]
fn a_port_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let message = refused(|config| config.listen = taken.local_addr().unwrap());
    assert!(message.contains("cannot listen on 127.0.0.1:"), "{message}");
}

#[test]
fn a_data_directory_in_use() {
    let server = Server::start();
    let path = server.dir.path().to_path_buf();
    let message = refused(|config| config.data_dir = path);
    assert!(message.contains("in use by another process"), "{message}");
}

#[test]
fn a_public_url_that_is_none() {
    let message = refused(|config| config.public_url = Some("queue.example.org/x".into()));
    assert!(message.contains("--public-url"), "{message}");
}

#[test]
fn a_data_directory_that_is_a_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let message = refused(|config| config.data_dir = file.path().to_path_buf());
    assert!(message.contains(&file.path().display().to_string()), "{message}");
}
