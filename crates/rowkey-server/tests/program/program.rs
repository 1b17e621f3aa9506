//! The program in a process of its own: what its flags do, and what its ready line shows.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use rowkey_emulator::{DEVELOPMENT_KEY, Service};

use crate::given_to_azurite::FLAGS;
use crate::support::{Answer, Client};
use crate::work::connect;

/// A program on free ports, which is killed when this is dropped.
pub(crate) struct Program {
    pub(crate) child: Child,
    pub(crate) ready: String,
}

impl Program {
    pub(crate) fn start(flags: &[&str], accounts: Option<&str>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rowkey-server"));
        command
            .args(["--blobPort", "0", "--queuePort", "0", "--tablePort", "0"])
            .args(flags)
            .env_remove("AZURITE_ACCOUNTS")
            .envs(accounts.map(|accounts| ("AZURITE_ACCOUNTS", accounts)))
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(!ready.is_empty(), "it does not start: {:?}", child.wait());
        Self { child, ready }
    }

    pub(crate) fn connect(&self, service: Service) -> Client {
        connect(&self.ready, service)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The responses to creating, deleting and creating again under one name: a table, a queue, a container.
fn create_again(program: &Program) -> [Answer; 3] {
    let mut tables = program.connect(Service::Table);
    tables.create("things");
    assert_eq!(tables.send("DELETE", "/Tables('things')", &[], "").status, 204);
    let table = tables.send("POST", "/Tables", &[], r#"{"TableName":"things"}"#);
    let [queue, container] =
        [(Service::Queue, "/things"), (Service::Blob, "/things?restype=container")].map(
            |(service, target)| {
                let mut client = program.connect(service);
                assert_eq!(client.send("PUT", target, &[], "").status, 201);
                assert!([202, 204].contains(&client.send("DELETE", target, &[], "").status));
                client.send("PUT", target, &[], "")
            },
        );
    [table, queue, container]
}

#[test]
fn names_of_deleted_resources_are_reusable_at_once_unless_strict() {
    for answer in create_again(&Program::start(&[], None)) {
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let codes = ["TableBeingDeleted", "QueueBeingDeleted", "ContainerBeingDeleted"];
    for (answer, code) in create_again(&Program::start(&["--strict"], None)).iter().zip(codes) {
        assert_eq!((answer.status, answer.code()), (409, code), "{answer:?}");
        assert!(answer.body.contains("without the program's --strict"), "{answer:?}");
    }
}

#[test]
fn the_ready_line_shows_custom_keys_only_on_request() {
    let account = "contoso:c2VjcmV0c2VjcmV0:b3RoZXI=";
    let ready = Program::start(&[], Some(account)).ready.clone();
    assert!(ready.contains("AccountName=contoso;BlobEndpoint=http://127.0.0.1:"), "{ready}");
    assert!(!ready.contains("AccountKey") && !ready.contains("c2VjcmV0"), "{ready}");
    let ready = Program::start(&["--show-keys"], Some(account)).ready.clone();
    assert!(ready.contains("AccountName=contoso;AccountKey=c2VjcmV0c2VjcmV0;"), "{ready}");
    let ready = Program::start(&[], None).ready.clone();
    assert!(ready.contains(&format!("AccountKey={DEVELOPMENT_KEY};")), "{ready}");
}

#[test]
fn the_program_ends_when_its_standard_input_is_closed_if_asked_to() {
    let flags = ["--blobPort", "0", "--queuePort", "0", "--tablePort", "0", "--end-with-stdin"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowkey-server"));
    command.args(flags).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let mut program = Program { child, ready };
    // What is written to it means nothing.
    input.write_all(b"end\n").unwrap();
    assert_eq!(program.connect(Service::Table).send("GET", "/none", &[], "").status, 404);
    drop(input);
    assert!(program.child.wait().unwrap().success());
}

#[test]
fn debug_writes_the_log_to_the_named_file() {
    let directory = std::env::temp_dir().join(format!("rowkey-debug-{}", std::process::id()));
    let file = directory.join("logs/debug.log");
    let program = Program::start(&["--silent", "--debug", file.to_str().unwrap()], None);
    let answer = program.connect(Service::Table).send("GET", "/none", &[], "");
    assert_eq!(answer.status, 404);
    let log = fs::read_to_string(&file).unwrap();
    drop(program);
    fs::remove_dir_all(&directory).unwrap();
    assert!(log.contains("DEBUG") && log.contains("TableNotFound"), "{log}");
}

#[test]
fn a_server_on_all_addresses_prints_a_reachable_address() {
    let program = Program::start(&["--tableHost", "0.0.0.0"], None);
    assert!(program.ready.contains("TableEndpoint=http://127.0.0.1:"), "{}", program.ready);
    let mut client = program.connect(Service::Table);
    client.create("things");
    for host in ["127.0.0.1:1", "0.0.0.0:1", "emulator:10002", "emulator.default.svc", "[::1]"] {
        let answer = client.send("GET", "/things()", &[("host", host)], "");
        assert_eq!(answer.status, 200, "{host}: {answer:?}");
    }
}

#[test]
fn every_flag_of_azurite_has_a_line_on_the_page() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/server/standalone.md");
    let page = fs::read_to_string(page).unwrap();
    let names = FLAGS.iter().map(|flags| flags[0].split('=').next().unwrap());
    for name in names.chain(["-v", "--version", "-h", "--help"]) {
        assert!(page.contains(&format!("`{name}`")), "{name} is not on the page");
    }
}
