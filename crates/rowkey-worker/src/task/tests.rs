//! Tests of message texts: the format of this crate, and messages of other programs.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::*;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Archive {
    id: u64,
}

impl Task for Archive {
    const KIND: &'static str = "archive";
}

fn read(text: &str) -> Result<(Envelope, Archive), String> {
    let envelope = Envelope::read(text, "m1", Archive::KIND)?;
    let Content::Inline(task) = &envelope.content else { return Err("a claim".to_owned()) };
    match Tasks::<Archive>::parse(task.get().as_bytes()) {
        Loaded::Task(task) => Ok((envelope, task)),
        Loaded::Newer(reason) | Loaded::Unreadable(reason) => Err(reason),
        Loaded::Done | Loaded::Gone => Err("a claim".to_owned()),
    }
}

#[test]
fn a_message_round_trips() {
    let task = RawValue::from_string(r#"{"id":7}"#.to_owned()).unwrap();
    let mut envelope = Envelope::new("a1".to_owned(), Content::Inline(task));
    assert_eq!(envelope.text("archive"), r#"{"kind":"archive","id":"a1","task":{"id":7}}"#);
    envelope.first_seen = Some("2026-03-01T12:00:00.000Z".to_owned());
    envelope.failed("2026-03-01T12:00:30Z".parse().unwrap(), "no such table", None);
    let text = envelope.text("archive");
    assert_eq!(
        text,
        r#"{"kind":"archive","id":"a1","task":{"id":7},"firstSeen":"2026-03-01T12:00:00.000Z","history":[{"at":"2026-03-01T12:00:30.000Z","error":"no such table"}]}"#
    );
    let (again, task) = read(&text).unwrap();
    assert_eq!((again.text("archive"), task), (text, Archive { id: 7 }));
}

#[test]
fn a_claim_check_contains_the_hash_of_its_blob() {
    let content = Content::Claim { name: "jobs/a1".to_owned(), sha256: "00ff".to_owned() };
    let text = Envelope::new("a1".to_owned(), content).text("archive");
    let golden = r#"{"kind":"archive","id":"a1","claim":"jobs/a1","sha256":"00ff"}"#;
    assert_eq!(text, golden);
    assert_eq!(Envelope::read(golden, "m1", "archive").unwrap().text("archive"), golden);
    let without = r#"{"kind":"archive","id":"a1","claim":"jobs/a1"}"#;
    assert!(Envelope::read(without, "m1", "archive").unwrap_err().contains("sha256"));
}

#[test]
fn handwritten_messages_parse() {
    for (text, id) in [
        (r#"{"kind":"archive","task":{"id":7}}"#, "m1"),
        (r#"{ "task": { "id": 7, "by": "hand" }, "id": "x", "kind": "archive" }"#, "x"),
        (r#"{"id":7}"#, "m1"),
        (" {\"id\": 7}\r\n", "m1"),
        // Base64 of {"id":7}, and of {"kind":"archive","task":{"id":7}}.
        ("eyJpZCI6N30=", "m1"),
        ("eyJraW5kIjoiYXJjaGl2ZSIsInRhc2siOnsiaWQiOjd9fQ==\n", "m1"),
    ] {
        let (envelope, task) = read(text).unwrap_or_else(|reason| panic!("{text}: {reason}"));
        assert_eq!((envelope.id.as_str(), task), (id, Archive { id: 7 }), "{text}");
    }
}

#[test]
fn a_parse_error_gives_the_reason_and_quotes_nothing() {
    for (text, reason) in [
        ("archive employee 4711", "neither JSON nor JSON in base64"),
        ("", "neither JSON"),
        ("c2VjcmV0IDQ3MTE=", "neither JSON"),
        (r#"{"kind":"restore","id":"a1","task":{"id":4711}}"#, "its kind is not `archive`"),
        (
            r#"{"kind":"archive","id":"a1","task":{"id":"4711"}}"#,
            "not a task `archive`: see line 1",
        ),
        (r#"{"name":"4711"}"#, "not a task `archive`"),
        ("4711", "not a task `archive`"),
        ("null", "not a task `archive`"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(reason) && !error.contains("4711"), "{text}: {error}");
    }
}

#[test]
fn a_task_may_be_any_json_value() {
    for (json, kind) in [("null", "unit"), ("[]", "list"), (r#""text""#, "text"), ("7", "number")] {
        let task = RawValue::from_string(json.to_owned()).unwrap();
        let text = Envelope::new("a1".to_owned(), Content::Inline(task)).text(kind);
        let envelope = Envelope::read(&text, "m1", kind).unwrap();
        let Content::Inline(task) = envelope.content else { panic!("{kind}") };
        assert_eq!(task.get(), json);
    }
}

#[test]
fn history_keeps_the_latest_failures_with_truncated_texts() {
    let mut envelope = read(r#"{"id":7}"#).unwrap().0;
    let at: DateTime<Utc> = "2026-03-01T12:00:30Z".parse().unwrap();
    for attempt in 0..20 {
        envelope.failed(at, &format!("{attempt} {}", "ä".repeat(1000)), None);
    }
    assert_eq!(envelope.history.len(), 16);
    assert!(envelope.history[0].error.starts_with("4 "));
    assert_eq!(envelope.history[15].error.chars().count(), 301);
}

#[test]
fn an_unknown_variant_means_a_newer_program_and_a_wrong_field_does_not() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum External {
        Move { id: u64 },
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "type")]
    enum Internal {
        Move { id: u64 },
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Untagged {
        Move { id: u64 },
    }
    impl Task for External {
        const KIND: &'static str = "external";
    }
    impl Task for Internal {
        const KIND: &'static str = "internal";
    }
    impl Task for Untagged {
        const KIND: &'static str = "untagged";
    }
    let newer = |json: &str| {
        let json = json.as_bytes();
        (
            matches!(Tasks::<External>::parse(json), Loaded::Newer(_)),
            matches!(Tasks::<Internal>::parse(json), Loaded::Newer(_)),
            matches!(Tasks::<Untagged>::parse(json), Loaded::Newer(_)),
        )
    };
    assert_eq!(newer(r#"{"Stay":{"id":7}}"#), (true, false, true));
    assert_eq!(newer(r#"{"type":"Stay","id":7}"#), (true, true, false));
    assert_eq!(newer(r#"{"Move":{"id":"7"}}"#), (false, false, true));
    assert_eq!(newer(r#"{"type":"Move","id":"7"}"#), (true, false, true));
    assert_eq!(newer("no json"), (false, false, false));
}

#[test]
fn a_task_of_any_kind_keeps_its_kind_and_is_not_put() {
    for text in [
        r#"{"kind":"archive","id":"a1","task":{"id":7,"n":1.50},"tenant":"contoso"}"#,
        r#"{"kind":"restore","id":"a1","claim":"jobs/a1","sha256":"00ff"}"#,
        r#"{"kind":"*","id":"a1","task":null}"#,
    ] {
        let envelope = Envelope::read(text, "m1", AnyTask::KIND).unwrap();
        assert_eq!(envelope.text(AnyTask::KIND), text);
        assert_eq!(envelope.as_put_aside().text(AnyTask::KIND), text);
    }
    for text in [r#"{"id":7}"#, "7", "eyJpZCI6N30="] {
        let error = Envelope::read(text, "m1", AnyTask::KIND).unwrap_err();
        assert!(error.contains("names no kind"), "{error}");
    }
    let task: AnyTask = serde_json::from_str(r#"{"secret":7}"#).unwrap();
    assert!(!format!("{task:?}").contains("secret"));
    assert_eq!(json_of(&task).unwrap_err().kind(), ErrorKind::Invalid);
}
