//! Checks the judge without a server: the recorded answer passes, a damaged one fails at its level.

use super::*;

const RECORDED: &str = r#"{"source_path":"a.yaml","test":"t","seq":0,"service":"table","request":{"method":"GET","path_and_query":"/people(PartitionKey='a',RowKey='b')","headers":{"x-ms-version":"2019-07-07"},"body":null},"response":{"status":200,"headers":{"content-type":"application/json","etag":"W/\"datetime'2020-01-01T00%3A00%3A00.1Z'\"","x-ms-version":"2019-07-07"},"body":"{\"name\":\"x\",\"age\":3,\"height\":1.5}"},"extra":{"run":0,"auth":"key"}}"#;

/// Answers each request with one answer.
struct Canned(Answer);

impl Transport for Canned {
    fn send(&mut self, _: Sent) -> Answer {
        self.0.clone()
    }

    fn endpoint(&self, _: Service) -> &'static str {
        "http://localhost/devstoreaccount1"
    }
}

fn level(line: &str, damage: impl FnOnce(&mut Answer)) -> Option<Level> {
    let exchange = Exchange::parse(line, "file").unwrap();
    let mut answer = Answer {
        status: exchange.status,
        headers: exchange.answer_headers.clone(),
        body: exchange.answer.clone(),
    };
    damage(&mut answer);
    let run = [exchange];
    let verdicts = Run::new(&run, &Options::default()).replay(&mut Canned(answer));
    let [Verdict { outcome: Outcome::Judged { judgement, .. }, .. }] = &verdicts[..] else {
        panic!("one verdict: {verdicts:?}");
    };
    judgement.level()
}

fn body(from: &'static str, to: &'static str) -> impl FnOnce(&mut Answer) {
    move |answer| {
        let text = String::from_utf8(answer.body.clone()).unwrap();
        assert!(text.contains(from));
        answer.body = text.replace(from, to).into_bytes();
    }
}

#[test]
fn the_recorded_response_passes_every_level() {
    assert_eq!(level(RECORDED, |_| ()), Some(Level::Exact));
}

#[test]
fn a_wrong_status_or_error_code_fails_every_level() {
    assert_eq!(level(RECORDED, |answer| answer.status = 404), None);
    let missing = RECORDED.replace(":200,", ":404,").replace(
        r#"{\"name\":\"x\",\"age\":3,\"height\":1.5}"#,
        r#"{\"odata.error\":{\"code\":\"ResourceNotFound\"}}"#,
    );
    assert_eq!(level(&missing, |_| ()), Some(Level::Exact));
    assert_eq!(level(&missing, body("ResourceNotFound", "TableNotFound")), None);
}

#[test]
fn a_wrong_body_passes_only_the_status_level() {
    for (from, to) in [("\"x\"", "\"y\""), (":3", ":3.0"), (":1.5", ":1.6"), ("\"age\"", "\"Age\"")]
    {
        assert_eq!(level(RECORDED, body(from, to)), Some(Level::Status), "{from}");
    }
    assert_eq!(level(RECORDED, |answer| answer.body.clear()), Some(Level::Status));
}

#[test]
fn a_wrong_header_or_order_passes_the_body_level() {
    let header = |name: &'static str, value: &'static str| {
        level(RECORDED, move |answer| {
            answer.headers.insert(name.to_owned(), value.to_owned());
        })
    };
    assert_eq!(header("content-type", "text/plain"), Some(Level::Body));
    assert_eq!(header("etag", "1"), Some(Level::Body));
    assert_eq!(header("location", "/"), Some(Level::Body));
    let moved = body("\"age\":3,\"height\":1.5", "\"height\":1.5,\"age\":3");
    assert_eq!(level(RECORDED, moved), Some(Level::Body));
}
