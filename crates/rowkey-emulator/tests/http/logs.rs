//! The request log: required contents, and secrets that it must not contain.

use std::io;
use std::sync::{Arc, Mutex};

use rowkey_emulator::Server;
use tracing::Level;

use crate::support::{Answer, Client};

/// Everything that the tests of this program have logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The lines about a request. Servers with real clocks never use a request id twice.
fn lines(log: &Log, answer: &Answer) -> Vec<String> {
    let id = answer.header("x-ms-request-id").unwrap();
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    log.lines().filter(|line| line.contains(id)).map(str::to_owned).collect()
}

#[tokio::test]
async fn the_log_contains_request_and_reason_but_no_secrets() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::DEBUG)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let quiet = Server::builder().start().await.unwrap();
    let signing = Server::builder().debug_signing(true).start().await.unwrap();
    let wrong = ("authorization", "SharedKey devstoreaccount1:c2VjcmV0");
    let entity = "/things(PartitionKey='secret',RowKey='r')?$select=secret";

    let answer = Client::of(&quiet).send("GET", "/Tables?$top=1", &[], "");
    let [line] = lines(&log, &answer).try_into().unwrap();
    let expected = "method=GET address=/devstoreaccount1/Tables?$top=.. status=200";
    assert!(line.contains(expected), "{line}");

    let answer = Client::of(&quiet).send("GET", entity, &[wrong], "");
    let [line] = lines(&log, &answer).try_into().unwrap();
    let expected = "method=GET address=/devstoreaccount1/things(..)?$select=.. status=403 \
                    code=AuthenticationFailed rule=\"the Shared Key signature does not match\"";
    assert!(line.contains(expected), "{line}");
    assert!(!line.contains("secret") && !line.contains("c2VjcmV0"), "{line}");

    let target = "/devstoreaccount1/things()?sv=2019-02-02&tn=things&sp=r&sig=c2VjcmV0&sig=x";
    let request = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let answer = Client::of(&quiet).raw(request.as_bytes()).unwrap();
    let [line] = lines(&log, &answer).try_into().unwrap();
    let expected = "rule=\"a parameter of the shared access signature is repeated\"";
    assert!(line.contains(expected) && !line.contains("c2VjcmV0"), "{line}");

    // The string to sign contains keys, and is logged only if enabled.
    let answer = Client::of(&signing).send("GET", entity, &[wrong], "");
    let [signed, line] = lines(&log, &answer).try_into().unwrap();
    assert!(signed.contains("string_to_sign=\"GET\\n\\napplication/json\\n"), "{signed}");
    assert!(signed.contains("things(PartitionKey='secret',RowKey='r')"), "{signed}");
    assert!(!signed.contains("c2VjcmV0") && !line.contains("secret"), "{signed}\n{line}");
}
