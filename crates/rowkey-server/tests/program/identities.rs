//! Tokens of the program: its token endpoint, and the file with its identities.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

use rowkey_emulator::{
    DEVELOPMENT_CLIENT_ID, DEVELOPMENT_CLIENT_SECRET, DEVELOPMENT_MANAGED_IDENTITY,
    DEVELOPMENT_TENANT_ID, Identity, Role, Service,
};
use serde_json::Value;

use crate::program::Program;

const ISSUE: [&str; 4] = ["--oauth", "issue", "--oauth-port", "0"];
const TENANT: &str = "11111111-1111-1111-1111-111111111111";

/// A file that is removed when this is dropped.
struct File(PathBuf);

impl File {
    fn with(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("rowkey-{name}-{}.json", std::process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }

    fn flags(&self) -> [&str; 6] {
        let [oauth, issue, port, zero] = ISSUE;
        [oauth, issue, port, zero, "--oauth-identities", self.0.to_str().unwrap()]
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A token of an application, or the error of the token endpoint.
fn token(program: &Program, id: &str, secret: &str) -> Result<String, String> {
    let ready: Value = serde_json::from_str(&program.ready).unwrap();
    let address = ready["authority"].as_str().unwrap().strip_prefix("http://").unwrap();
    let form = format!(
        "grant_type=client_credentials&client_id={id}&client_secret={secret}\
         &scope=https%3A%2F%2Fstorage.azure.com%2F.default"
    );
    let request = format!(
        "POST /{TENANT}/oauth2/v2.0/token HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{form}",
        form.len()
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let body = text.split_once("\r\n\r\n").unwrap().1;
    let document: Value = serde_json::from_str(body).unwrap();
    let text = |name: &str| document[name].as_str().map(str::to_owned);
    text("access_token").ok_or_else(|| text("error").unwrap())
}

/// The status of creating a table with a token.
fn create(program: &Program, token: &str) -> u16 {
    let authorization = format!("Bearer {token}");
    let headers = [("authorization", authorization.as_str()), ("x-ms-version", "2020-12-06")];
    let body = r#"{"TableName":"things"}"#;
    program.connect(Service::Table).send("POST", "/Tables", &headers, body).status
}

#[test]
fn the_program_has_an_application_with_a_published_secret() {
    let program = Program::start(&ISSUE, None);
    let issued = token(&program, DEVELOPMENT_CLIENT_ID, DEVELOPMENT_CLIENT_SECRET).unwrap();
    assert_eq!(create(&program, &issued), 201);
    let plain = Program::start(&["--oauth", "basic"], None);
    assert!(!plain.ready.contains("authority"), "{}", plain.ready);
}

#[test]
fn the_page_names_all_roles_and_the_published_identities() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/server/tokens.md");
    let page = fs::read_to_string(page).unwrap();
    let roles = Role::ALL.iter().map(|role| format!("| `{role}` |"));
    let published = [
        DEVELOPMENT_TENANT_ID,
        DEVELOPMENT_CLIENT_ID,
        DEVELOPMENT_CLIENT_SECRET,
        DEVELOPMENT_MANAGED_IDENTITY,
    ];
    for text in roles.chain(published.map(|id| format!("`{id}`"))) {
        assert!(page.contains(&text), "{text} is not on the page");
    }
    let (_, file) = page.split_once("```json\n").unwrap();
    let (file, _) = file.split_once("```").unwrap();
    assert_eq!(serde_json::from_str::<Vec<Identity>>(file).unwrap().len(), 3);
}

#[test]
fn identities_in_a_file_replace_the_published_ones() {
    let file = File::with(
        "identities",
        r#"[
          {"clientId": "writer", "clientSecret": "w", "roles": ["Storage Table Data Contributor"]},
          {"clientId": "reader", "clientSecret": "r", "roles": [
            {"role": "Storage Table Data Reader", "scope": "devstoreaccount1/tables/things"}]}
        ]"#,
    );
    let program = Program::start(&file.flags(), None);
    assert_eq!(create(&program, &token(&program, "reader", "r").unwrap()), 403);
    assert_eq!(create(&program, &token(&program, "writer", "w").unwrap()), 201);
    assert_eq!(token(&program, "writer", "r").unwrap_err(), "invalid_client");
    let published = token(&program, DEVELOPMENT_CLIENT_ID, DEVELOPMENT_CLIENT_SECRET);
    assert_eq!(published.unwrap_err(), "unauthorized_client");
}

#[test]
fn a_file_that_is_not_of_identities_is_refused_without_its_secrets() {
    for (name, text, why) in [
        ("role", r#"[{"id":"a","secret":"hunter2","roles":["Owner"]}]"#, "unknown role `Owner`"),
        ("type", r#"["hunter2"]"#, "a value has another type than expected"),
        ("one", r#"{"id":"a","secret":"hunter2"}"#, "a value has another type than expected"),
        ("user", r#"[{"kind":"user","username":"anna"}]"#, "the user anna has no password"),
        ("field", r#"[{"id":"a","password":"hunter2","scope":"x"}]"#, "unknown field `scope`"),
        ("none", "[]", "leave the flag out"),
    ] {
        let file = File::with(name, text);
        let mut command = Command::new(env!("CARGO_BIN_EXE_rowkey-server"));
        let output = command.args(file.flags()).args(["--tablePort", "0"]).output().unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{name}");
        assert!(log.contains("--oauth-identities: ") && log.contains(why), "{name}: {log}");
        assert!(!log.contains("hunter2"), "{name}: {log}");
    }
    let file = File::with("basic", "[]");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowkey-server"));
    let flags = ["--oauth", "basic", "--oauth-identities", file.0.to_str().unwrap()];
    let log = String::from_utf8(command.args(flags).output().unwrap().stderr).unwrap();
    assert!(log.contains("add --oauth issue"), "{log}");
}
