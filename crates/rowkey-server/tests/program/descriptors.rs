//! A program that has few descriptors, and more clients than those are for.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use rowkey_emulator::{ServerClock, Service};

use crate::support::Client;

/// The limit of open descriptors, some of which the program itself needs.
const DESCRIPTORS: u32 = 40;

/// Killed when this is dropped.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn connections_beyond_the_descriptor_limit_wait() {
    let child = Command::new("sh")
        .args(["-c", &format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_rowkey-server"))
        .args(["--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--silent"])
        .env_remove("AZURITE_ACCOUNTS")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut program = Program(child);
    let mut ready = String::new();
    BufReader::new(program.0.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let (_, endpoint) = ready.split_once("\"table\":\"").unwrap();
    let (endpoint, _) = endpoint.split_once('"').unwrap();
    let connect = || Client::at(Service::Table, endpoint, &ServerClock::real()).unwrap();

    let mut served = connect();
    served.create("full");
    let idle: Vec<Client> = (0..DESCRIPTORS).map(|_| connect()).collect();
    // Clients that are connected are served, although no other can connect.
    assert_eq!(served.insert("full", ("p", "1"), "").status, 201);
    let mut waiting = connect();
    drop(idle);
    assert_eq!(waiting.insert("full", ("p", "2"), "").status, 201);
    assert_eq!(served.insert("full", ("p", "3"), "").status, 201);
}
