//! The flags of the control plane, and `rowkey-server health`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use rowkey_emulator::Service;
use serde_json::Value;

use crate::program::Program;

impl Program {
    /// The ready line.
    fn shown(&self) -> Value {
        serde_json::from_str(&self.ready).unwrap()
    }

    /// The host and port of the control plane.
    fn control(&self) -> String {
        self.shown()["control"].as_str().unwrap().replace("http://", "")
    }

    /// Sends a request to the control plane, and returns the status and the body.
    fn ask(&self, method: &str, path: &str, token: Option<&str>) -> (u16, String) {
        let address = self.control();
        let token =
            token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{token}Content-Length: 0\r\n\r\n"
        );
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }
}

#[test]
fn there_is_no_control_plane_without_its_port() {
    assert!(Program::start(&[], None).shown().get("control").is_none());
}

#[test]
fn a_program_with_a_control_plane_keeps_a_journal_and_ends_on_request() {
    let mut program = Program::start(&["--control-port", "0"], None);
    program.connect(Service::Table).create("orders");
    let (status, journal) = program.ask("GET", "/v1/journal", None);
    assert!(status == 200 && journal.contains("CreateTable"), "{journal}");
    assert_eq!(program.ask("POST", "/v1/shutdown", None).0, 202);
    assert!(program.child.wait().unwrap().success());
}

#[test]
fn data_is_kept_when_a_request_ends_the_program() {
    let directory = std::env::temp_dir().join(format!("rowkey-shutdown-{}", std::process::id()));
    let location = directory.to_str().unwrap().to_owned();
    let flags = ["--control-port", "0", "--location", location.as_str()];
    let mut program = Program::start(&flags, None);
    program.connect(Service::Table).create("orders");
    program.ask("POST", "/v1/shutdown", None);
    assert!(program.child.wait().unwrap().success());
    let program = Program::start(&flags, None);
    let tables = program.connect(Service::Table).send("GET", "/Tables", &[], "");
    assert!(tables.body.contains("orders"), "{tables:?}");
    drop(program);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_control_plane_for_other_machines_has_a_token() {
    let server = env!("CARGO_BIN_EXE_rowkey-server");
    let ports = ["--blobPort", "0", "--queuePort", "0", "--tablePort", "0", "--control-port", "0"];
    let everywhere = ["--control-host", "0.0.0.0"];
    let mut open = Command::new(server);
    let refused = open.args(ports).args(everywhere).env_remove("ROWKEY_CONTROL_TOKEN").output();
    let refused = refused.unwrap();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && error.contains("--control-token"), "{error}");
    let flags = ["--control-port", "0", "--control-host", "0.0.0.0", "--control-token", "secret"];
    let program = Program::start(&flags, None);
    assert_eq!(program.ask("GET", "/v1/clock", None).0, 401);
    assert_eq!(program.ask("GET", "/v1/clock", Some("secret")).0, 200);
    assert!(!program.ready.contains("secret"));
}

#[test]
fn targets_and_faults_are_there_from_the_start() {
    let file = std::env::temp_dir().join(format!("rowkey-start-{}.json", std::process::id()));
    let faults =
        r#"[{"operation":"QueryTables","times":1,"action":{"reject":"OperationTimedOut"}}]"#;
    std::fs::write(&file, faults).unwrap();
    for control in [&["--control-port", "0"][..], &[]] {
        let flags =
            [control, &["--throttle=requestsPerAccount=1", "--faults", file.to_str().unwrap()]];
        let program = Program::start(&flags.concat(), None);
        let mut tables = program.connect(Service::Table);
        assert_eq!(tables.send("GET", "/Tables", &[], "").code(), "OperationTimedOut");
        // A request that meets a fault does not count.
        let codes: Vec<_> =
            (0..20).map(|_| tables.send("GET", "/Tables", &[], "").code().to_owned()).collect();
        assert!(codes.iter().any(|code| code == "ServerBusy"), "{codes:?}");
        if !control.is_empty() {
            assert!(program.ask("GET", "/v1/faults", None).1.contains("\"hits\":1"));
            let throttle = program.ask("GET", "/v1/throttle", None).1;
            assert!(throttle.contains("\"requestsPerAccount\":1"), "{throttle}");
        }
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn health_is_the_exit_code() {
    let program = Program::start(&["--control-port", "0"], None);
    let control = program.control();
    let control = control.rsplit(':').next().unwrap();
    let table = program.shown()["table"].as_str().unwrap().to_owned();
    let table = table.split(['/', ':']).nth(4).unwrap();
    let health = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rowkey-server"));
        let output = command.arg("health").args(flags).env_remove("ROWKEY_CONTROL_PORT").output();
        let output = output.unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(health(&["--control-port", control]), (true, String::new()));
    assert_eq!(health(&["--tablePort", table]), (true, String::new()));
    // The Table service has no page of that name.
    let (ok, error) = health(&["--control-port", table]);
    assert!(!ok && error.contains("answers with status 404"), "{error}");
    let https = Program::start(&["--https"], None);
    let port =
        https.shown()["table"].as_str().unwrap().split(['/', ':']).nth(4).unwrap().to_owned();
    assert_eq!(health(&["--tablePort", &port]), (true, String::new()));
    assert_eq!(health(&["--tablePort", table, "--control-port", ""]), (true, String::new()));
    let (ok, error) = health(&["--control-port", "http"]);
    assert!(!ok && error.contains("not a number"), "{error}");
    let (control, table) = (control.to_owned(), table.to_owned());
    drop(program);
    for flags in [["--control-port", &control], ["--tablePort", &table]] {
        let (ok, error) = health(&flags);
        assert!(!ok && error.contains("does not answer"), "{error}");
    }
}
