//! Batch requests as clients write them.

use super::*;

#[test]
fn the_batch_of_the_python_library_is_read() {
    let changes = parse(&recording!("python12-all-request"));
    let methods: Vec<&str> = changes.iter().map(|change| change.method.as_str()).collect();
    assert_eq!(methods, ["POST", "DELETE", "PATCH", "PUT", "PATCH", "PUT"]);
    for change in &changes {
        assert_eq!(change.head.content_id, None, "it stands in the head of the part, not inside");
        assert!(change.head.headers["x-ms-version"] == "2019-02-02");
        assert!(change.target.starts_with("https://seankaneprim.table.core.windows.net/"));
        assert!(!change.head.headers.contains_key("content-length"));
    }
    assert!(changes[0].body.starts_with(b"{\"PartitionKey\": \"003\""));
    assert!(changes[0].body.ends_with(b"\"test5@odata.type\": \"Edm.DateTime\"}"));
    assert_eq!(changes[1].head.headers["if-match"], "*");
    assert!(changes[1].body.is_empty());
}

#[test]
fn the_batch_of_the_older_library_with_bare_line_feeds_is_read() {
    let changes = parse(&recording!("legacy-all-request"));
    let seen: Vec<_> = changes
        .iter()
        .map(|change| (change.method.as_str(), change.head.content_id.as_deref().unwrap()))
        .collect();
    assert_eq!(
        seen,
        [
            ("POST", "1"),
            ("DELETE", "2"),
            ("PUT", "3"),
            ("MERGE", "4"),
            ("PUT", "5"),
            ("MERGE", "6")
        ]
    );
    assert_eq!(changes[0].target, "/table194014d4");
    assert_eq!(
        changes[1].target,
        "/table194014d4(PartitionKey='003',RowKey='batch_all_operations_together-1')"
    );
    let lengths: Vec<usize> = changes.iter().map(|change| change.body.len()).collect();
    assert_eq!(lengths, [272, 0, 275, 276, 275, 275], "as the recorded Content-Length says");
    assert!(changes[3].head.headers.contains_key("if-match"));
    assert!(!changes[5].head.headers.contains_key("if-match"));
}

#[test]
fn the_batch_of_the_retired_rust_library_is_read_although_it_is_not_closed() {
    let changes = parse(&recording!("rust021-request"));
    let methods: Vec<&str> = changes.iter().map(|change| change.method.as_str()).collect();
    assert_eq!(methods, ["POST", "PUT", "MERGE", "DELETE"]);
    let lengths: Vec<usize> = changes.iter().map(|change| change.body.len()).collect();
    assert_eq!(lengths, [59, 59, 59, 0]);
    assert!(changes[0].target.ends_with("/devstoreaccount1/people"));
    assert_eq!(changes[3].head.headers["if-match"], "*");
}

/// Azurite accepts each of these.
#[test]
fn a_batch_may_end_with_its_changeset_and_anything_behind_it() {
    let whole = batch(&changeset(&["POST /t HTTP/1.1\r\n\r\n{}", "DELETE /t() HTTP/1.1\r\n"]));
    let (changeset, _) = whole.split_once("--c--").unwrap();
    for ending in [
        "--c--\r\n--b--\r\n",
        "--c--\r\n--b--",
        "--c--\r\n--b\r\n",
        "--c--\n--b\n",
        "--c--\r\n--b",
        "--c--\r\n",
        "--c--",
        "--c--\r\n--b \r\n\r\n",
        "--c--\r\n--b--more",
    ] {
        let body = format!("{changeset}{ending}");
        let changes = parse_changes(TYPE, &body);
        assert_eq!(changes.len(), 2, "{ending:?}");
        assert_eq!(changes[0].body, b"{}", "{ending:?}");
    }
    // The end of the changeset is required: without it, operations may be missing.
    for ending in ["", "--c", "--c-", "--c\r\n", "--c\r\n--b--\r\n", "--b--\r\n"] {
        let body = Bytes::from(format!("{changeset}{ending}"));
        assert!(parse_request(TYPE, &body).is_err(), "{ending:?}");
    }
}

#[test]
fn a_query_that_is_not_closed_is_whole_behind_its_delimiter() {
    let query = "--b\r\nContent-Type: application/http\r\n\r\nGET /t() HTTP/1.1\r\n\r\n";
    for (ending, read) in [("--b--", true), ("--b", true), ("--b\r\n\r\n", true), ("", false)] {
        let body = Bytes::from(format!("{query}{ending}"));
        assert_eq!(parse_request(TYPE, &body).is_ok(), read, "{ending:?}");
    }
}

/// 300 bytes of this once stopped a server: for an empty `Content-Length`, the digits were searched
/// beyond the line, in the body.
#[test]
fn an_empty_content_length_is_none_whatever_comes_behind_it() {
    for empty in ["", " ", "\t ", "   "] {
        for body in [" {}", "\t", "", " \r\n 7", "12"] {
            let message = format!("PUT /t HTTP/1.1\r\nContent-Length:{empty}\r\n\r\n{body}");
            let batch = batch(&changeset(&[&message, &message, "DELETE /t() HTTP/1.1\r\n"]));
            let changes = parse_changes(TYPE, &batch);
            assert_eq!(changes.len(), 3, "{message:?}");
            assert_eq!(changes[0].body, body.trim_start_matches("\r\n").as_bytes());
            assert_eq!(changes[0].body, changes[1].body);
        }
    }
}

#[test]
fn a_content_length_is_digits_alone() {
    for (length, body) in [("2", "{}"), ("+4", "{}"), ("2 2", "{}"), ("0x2", "{}")] {
        let message = format!("PUT /t HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{{}}\r\n");
        let batch = batch(&changeset(&[&message, &message]));
        let changes = parse_changes(TYPE, &batch);
        assert!(changes.iter().all(|change| change.body == body.as_bytes()), "{length}");
    }
}

#[test]
fn an_empty_changeset_is_read_because_the_service_accepts_it() {
    assert!(parse(&recording!("empty-request")).is_empty());
}

#[test]
fn bodies_share_the_memory_of_the_batch() {
    let recorded = recording!("created-request");
    let body = Bytes::from_static(recorded.body.as_bytes());
    let BatchRequest::Changes(changes) = parse_request(recorded.content_type, &body).unwrap()
    else {
        panic!("not a changeset")
    };
    assert!(body.as_ptr_range().contains(&changes[0].body.as_ptr()));
    assert_eq!(changes[0].body.len(), 481);
}

#[test]
fn operations_with_the_same_head_have_it_in_common_and_others_their_own() {
    let heads = [
        "Accept: a\r\n",
        "Accept: a\r\n",
        "Accept: ab\r\n",
        "Accept: a\r\nContent-Length:  2\r\nPrefer: b\r\n",
        "Accept: a\r\nContent-Length:  0002\r\nPrefer: b\r\n",
        "Accept: a\r\nContent-Length:  2x\r\nPrefer: b\r\n",
        "",
    ];
    let part = "--c\r\nContent-Type: application/http\r\n\r\nPUT /t HTTP/1.1\r\n";
    let body = heads.map(|head| [part, head, "\r\n{}\r\n"].concat()).concat();
    let start = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n";
    let body = format!("{start}{body}--c--\r\n--b--\r\n");
    let changes = parse_changes("multipart/mixed; boundary=b", &body);
    let read: Vec<_> = changes
        .iter()
        .map(|change| {
            let headers = &change.head.headers;
            (headers.get("accept").map(|it| it.to_str().unwrap()), headers.len())
        })
        .collect();
    let (a, two) = ((Some("a"), 1), (Some("a"), 2));
    assert_eq!(read, [a, a, (Some("ab"), 1), two, two, two, (None, 0)]);
    let shares =
        |one: usize, other: usize| std::sync::Arc::ptr_eq(&changes[one].head, &changes[other].head);
    assert!(shares(0, 1) && shares(3, 4) && !shares(4, 5));
    assert!(changes.iter().all(|change| change.body == b"{}"));
}

#[test]
fn every_line_ending_gives_the_same_operations() {
    for recorded in [recording!("python12-all-request"), recording!("legacy-all-request")] {
        let line_feeds = recorded.body.replace("\r\n", "\n");
        let expected = parse(&recorded);
        for body in [line_feeds.clone(), line_feeds.replace('\n', "\r\n")] {
            let changes = parse_changes(recorded.content_type, &body);
            assert_eq!(changes.len(), expected.len());
            for (change, expected) in changes.iter().zip(&expected) {
                assert_eq!(change.target, expected.target);
                assert_eq!(change.head.headers, expected.head.headers);
                assert_eq!(change.body, expected.body);
            }
        }
    }
}

#[test]
fn the_shape_of_the_javascript_library_is_read() {
    // Azure/azure-sdk-for-js, batch_operations recordings: lower-case names, no Content-Length, and
    // one empty line more than needed before the changeset and before the body.
    let changes = parse_changes(
        "multipart/mixed; boundary=batch_fakeId",
        "--batch_fakeId\r\ncontent-type: multipart/mixed; boundary=changeset_fakeId\r\n\r\n\r\n\
         --changeset_fakeId\r\ncontent-type: application/http\r\n\
         content-transfer-encoding: binary\r\n\r\nPOST https://a/t HTTP/1.1\r\n\
         accept: application/json\r\n\r\n\r\n{\"x\":1}\r\n\
         --changeset_fakeId\r\ncontent-type: application/http\r\n\
         content-transfer-encoding: binary\r\n\r\nDELETE https://a/t() HTTP/1.1\r\n\
         if-match: *\r\n\r\n\r\n--changeset_fakeId--\r\n--batch_fakeId--\r\n",
    );
    assert_eq!(changes.len(), 2);
    assert_eq!(changes[0].body, b"{\"x\":1}");
    assert_eq!(changes[1].head.headers["if-match"], "*");
}

/// A batch with `inside` between the outer delimiters.
fn batch(inside: &str) -> String {
    format!("--b\r\n{inside}\r\n--b--\r\n")
}

fn changeset(messages: &[&str]) -> String {
    let mut parts = String::new();
    for message in messages {
        parts += "--c\r\nContent-Type: application/http\r\n\r\n";
        parts += message;
        parts += "\r\n";
    }
    format!("Content-Type: multipart/mixed; boundary=c\r\n\r\n{parts}--c--\r\n")
}

const TYPE: &str = "multipart/mixed; boundary=b";

#[test]
fn a_query_stands_alone_and_in_no_changeset() {
    let get = "Content-Type: application/http\r\n\r\nGET /t(PartitionKey='a b',RowKey='') HTTP/1.1\r\nAccept: application/json\r\n";
    let body = Bytes::from(batch(get));
    let BatchRequest::Query(query) = parse_request(TYPE, &body).unwrap() else {
        panic!("not a query")
    };
    assert_eq!(query.method, Method::GET);
    assert_eq!(query.target, "/t(PartitionKey='a b',RowKey='')");
    assert_eq!(query.head.headers["accept"], "application/json");

    let inside = batch(&changeset(&["POST /t HTTP/1.1\r\n\r\n{}", "GET /t() HTTP/1.1\r\n\r\n"]));
    let head = "Content-Type: application/http\r\n\r\n";
    assert_eq!(fault(TYPE, &inside), (BatchFault::QueryInChangeset, inside.find("GET").unwrap()));
    let outside = batch(&format!("{head}DELETE /t() HTTP/1.1\r\n"));
    assert_eq!(
        fault(TYPE, &outside),
        (BatchFault::WriteOutsideChangeset, outside.find("DELETE").unwrap())
    );
    let two = format!("--b\r\n{get}\r\n{}", batch(get));
    assert_eq!(fault(TYPE, &two), (BatchFault::SecondPart, two.rfind("GET").unwrap()));
}

#[test]
fn the_table_is_told_by_the_first_part() {
    for recorded in [recording!("python12-all-request"), recording!("legacy-all-request")] {
        let target = &parse(&recorded)[0].target;
        let named = target.split('(').next().unwrap().rsplit('/').next();
        assert_eq!(table(recorded.body.as_bytes()).as_deref(), named);
    }
    let one = |line: &str| changeset(&[line]);
    for (line, name) in [
        ("GET /acc/t(PartitionKey='a/b',RowKey='') HTTP/1.1\r\n", Some("t")),
        ("POST http://h/acc/t?x=/y HTTP/1.1\r\n\r\n{}", Some("t")),
        ("POST", None),
    ] {
        assert_eq!(table(one(line).as_bytes()).as_deref(), name, "{line}");
    }
}

#[test]
fn two_changesets_are_refused() {
    let one = changeset(&["POST /t HTTP/1.1\r\n\r\n{}"]);
    let two = batch(&format!("{one}\r\n--b\r\n{one}"));
    let second = two.rfind("Content-Type: multipart").unwrap();
    assert_eq!(fault(TYPE, &two), (BatchFault::SecondPart, second));
}

#[test]
fn lines_around_the_batch_and_quoted_boundaries_are_fine() {
    let body = format!(
        "preamble\r\n--bb\r\n{}epilogue\r\n--b\r\n",
        batch(&changeset(&["POST /t HTTP/1.1\r\n\r\n{}"]))
    );
    for content_type in [
        "multipart/mixed; boundary=\"b\"",
        "Multipart/Mixed;charset=utf-8;Boundary=b",
        "multipart/mixed ; boundary = b ",
    ] {
        assert_eq!(parse_changes(content_type, &body).len(), 1, "{content_type}");
    }
}

#[test]
fn a_content_length_is_used_when_it_is_right_and_only_then() {
    let body_with = |length: &str, body: &str| {
        let message = format!("POST /t HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}");
        let body = batch(&changeset(&[&message]));
        String::from_utf8(parse_changes(TYPE, &body)[0].body.to_vec()).unwrap()
    };
    assert_eq!(body_with("4", "{}\r\n"), "{}\r\n");
    assert_eq!(body_with("2", "{}\r\n\r\n"), "{}");
    for wrong in ["1", "0", "200", "-1", "x", "99999999999999999999999", ""] {
        assert_eq!(body_with(wrong, "{}\r\n"), "{}", "{wrong}");
    }
}

#[test]
fn each_mistake_is_named_with_its_place() {
    for content_type in [
        "",
        "application/json",
        "multipart/mixed",
        "multipart/mixed; boundary=",
        "multipart/mixed; boundary=\"\"",
        "application/http; boundary=b",
    ] {
        assert_eq!(fault(content_type, "--b--"), (BatchFault::NoBoundary, 0), "{content_type}");
    }
    assert_eq!(fault(TYPE, ""), (BatchFault::Truncated, 0));
    assert_eq!(fault(TYPE, "--b--"), (BatchFault::NoPart, 5));
    assert_eq!(fault(TYPE, "--b\r\n\r\n\r\n--b--"), (BatchFault::ContentType, 5));
    let json = "--b\r\nX: y\r\nContent-Type: application/json\r\n\r\n{}\r\n--b--";
    assert_eq!(fault(TYPE, json), (BatchFault::ContentType, 11));
    let unnamed = "--b\r\nContent-Type: multipart/mixed\r\n\r\n--b--";
    assert_eq!(fault(TYPE, unnamed), (BatchFault::NoBoundary, 5));
    for (message, expected, offset) in [
        ("", BatchFault::StartLine, 0),
        ("POST", BatchFault::StartLine, 0),
        ("POST /t", BatchFault::StartLine, 0),
        ("POST  HTTP/1.1", BatchFault::StartLine, 0),
        ("PO(ST /t HTTP/1.1", BatchFault::StartLine, 0),
        ("POST /t HTTP/2", BatchFault::StartLine, 0),
        ("POST /t HTTP/1.1\r\nAccept", BatchFault::Header, 18),
        ("POST /t HTTP/1.1\r\n: x", BatchFault::Header, 18),
        ("POST /t HTTP/1.1\r\nA: b\r\nAccept : x", BatchFault::Header, 24),
        ("POST /t HTTP/1.1\r\nA\u{e9}: x", BatchFault::Header, 18),
        ("POST /t HTTP/1.1\r\nA: \0", BatchFault::Header, 18),
    ] {
        let body = batch(&changeset(&[message]));
        let start = body.find("application/http\r\n\r\n").unwrap() + 20;
        assert_eq!(fault(TYPE, &body), (expected, start + offset), "{message:?}");
    }
    let nested = batch(&changeset(&[]).replace(
        "--c--",
        "--c\r\nContent-Type: multipart/mixed; boundary=d\r\n\r\n--d--\r\n--c--",
    ));
    assert_eq!(fault(TYPE, &nested).0, BatchFault::ContentType);
    let unclosed = batch(&changeset(&["POST /t HTTP/1.1\r\n\r\n{}"]).replace("--c--", ""));
    assert_eq!(fault(TYPE, &unclosed), (BatchFault::Truncated, unclosed.find("--b--").unwrap()));
}

#[test]
fn no_prefix_of_a_batch_is_a_batch() {
    for recorded in [recording!("legacy-all-request"), recording!("created-request")] {
        let body = Bytes::from_static(recorded.body.as_bytes());
        // Up to the end of the changeset; the rest adds nothing.
        let whole =
            recorded.body.trim_end().rfind("--\n").or(recorded.body.trim_end().rfind("--\r\n"));
        let whole = whole.unwrap() + 2;
        for len in 0..whole {
            assert!(parse_request(recorded.content_type, &body.slice(..len)).is_err(), "{len}");
        }
        assert!(parse_request(recorded.content_type, &body.slice(..whole)).is_ok());
    }
}

#[test]
fn debug_shows_no_contents() {
    let shown = format!("{:?}", parse(&recording!("legacy-all-request")));
    assert!(!shown.contains("PartitionKey"), "{shown}");
}
