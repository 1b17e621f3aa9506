//! Tests of the decoder, with responses as the service writes them (`vectors/batch-*.http`).

use super::*;

/// A recording: a line that names its source, the `Content-Type`, an empty line, and the body.
pub(crate) struct Recording {
    pub(crate) content_type: &'static str,
    pub(crate) body: &'static str,
}

pub(crate) fn recording(text: &'static str) -> Recording {
    let (source, rest) = text.split_once('\n').unwrap();
    assert!(source.starts_with("source: "));
    let (content_type, body) = rest.split_once("\n\n").unwrap();
    Recording { content_type: content_type.strip_prefix("Content-Type: ").unwrap(), body }
}

macro_rules! recording {
    ($name:literal) => {
        recording(include_str!(concat!("../../../vectors/batch-", $name, ".http")))
    };
}

fn decode(recording: &Recording) -> Vec<PartResponse<'static>> {
    decode_response(recording.content_type, recording.body.as_bytes()).unwrap()
}

#[test]
fn responses_to_every_kind_of_write_decode_in_order() {
    let answers = decode(&recording!("python12-all-response"));
    assert_eq!(answers.len(), 6);
    assert!(answers.iter().all(|answer| answer.status == 204 && answer.body.is_empty()));
    let tagged: Vec<bool> = answers.iter().map(|answer| answer.etag.is_some()).collect();
    assert_eq!(tagged, [true, false, true, true, true, true], "a delete has no tag");
    assert!(answers[0].etag.unwrap().starts_with("W/\"datetime'2021-06-17T16%3A53%3A"));
    assert_eq!(answers[0].header("preference-applied"), Some("return-no-content"));
    assert_eq!(answers[0].header("DATASERVICEVERSION"), Some("3.0;"));
    assert_eq!(answers[1].header("Location"), None);

    let answers = decode(&recording!("legacy-all-response"));
    let tags: Vec<Option<&str>> = answers.iter().map(|answer| answer.etag).collect();
    assert_eq!(tags[0], Some("W/\"datetime'2017-11-10T02%3A43%3A36.2754988Z'\""));
    assert_eq!(tags[1], None);
    assert_eq!(tags[5], Some("W/\"datetime'2017-11-10T02%3A43%3A36.0856593Z'\""));
}

#[test]
fn an_inserted_entity_is_the_body() {
    let answers = decode(&recording!("created-response"));
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].status, 201);
    assert!(answers[0].body.starts_with(b"{\"odata.metadata\":"));
    assert!(answers[0].body.ends_with(b"\"test5\":\"2020-09-16T18:39:20Z\"}"));
}

#[test]
fn a_failed_transaction_has_one_response_with_the_error() {
    for (recorded, status, code) in [
        (recording!("duplicate-response"), 400, "InvalidDuplicateRow"),
        (recording!("conflict-response"), 412, "UpdateConditionNotSatisfied"),
    ] {
        let answers = decode(&recorded);
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].status, status);
        assert_eq!(answers[0].etag, None);
        let failure = failure(recorded.content_type, recorded.body.as_bytes());
        assert_eq!(failure.map(|part| part.status), Some(status));
        let error: serde_json::Value = serde_json::from_slice(answers[0].body).unwrap();
        assert_eq!(error["odata.error"]["code"], code);
    }
}

#[test]
fn the_response_to_an_empty_changeset_is_empty() {
    assert_eq!(decode(&recording!("empty-response")).len(), 0);
}

#[test]
fn a_success_has_no_failure() {
    for recorded in [recording!("legacy-all-response"), recording!("empty-response")] {
        assert!(failure(recorded.content_type, recorded.body.as_bytes()).is_none());
    }
}

#[test]
fn every_line_ending_decodes_alike() {
    let recorded = recording!("legacy-all-response");
    let expected = decode(&recorded);
    let line_feeds = recorded.body.replace("\r\n", "\n");
    for body in [line_feeds.as_str(), line_feeds.trim_end(), recorded.body.trim_end()] {
        let answers = decode_response(recorded.content_type, body.as_bytes()).unwrap();
        let same = answers.iter().zip(&expected).all(|(answer, expected)| {
            (answer.status, answer.etag, answer.body)
                == (expected.status, expected.etag, expected.body)
        });
        assert!(same && answers.len() == expected.len());
    }
}

#[test]
fn a_response_without_a_changeset_decodes() {
    let body = b"--r\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
        HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n\r\n{\"odata.error\":{}}\r\n--r--\r\n";
    let answers = decode_response("multipart/mixed; boundary=r", body).unwrap();
    assert_eq!((answers.len(), answers[0].status), (1, 404));
    assert_eq!(answers[0].body, b"{\"odata.error\":{}}");
}

#[test]
fn every_truncated_response_is_an_error() {
    for recorded in [recording!("legacy-all-response"), recording!("created-response")] {
        let whole = recorded.body.trim_end().len();
        for len in 0..whole {
            let cut = &recorded.body.as_bytes()[..len];
            assert!(decode_response(recorded.content_type, cut).is_err(), "{len}");
        }
    }
}

#[test]
fn an_invalid_status_line_is_an_error() {
    let recorded = recording!("created-response");
    for line in ["HTTP/1.1", "HTTP/1.1 20 OK", "HTTP/1.1 999 OK", "HTTP/1.1 +20", "201 Created"] {
        let body = recorded.body.replace("HTTP/1.1 201 Created", line);
        let error = decode_response(recorded.content_type, body.as_bytes()).unwrap_err();
        assert_eq!(error.fault, BatchFault::StartLine, "{line}");
        assert_eq!(error.at, body.find(line).unwrap());
    }
}

#[test]
fn neither_debug_nor_errors_show_contents() {
    let recorded = recording!("created-response");
    let shown = format!("{:?}", decode(&recorded));
    assert!(!shown.contains("PartitionKey"), "{shown}");
    let error = decode_response(recorded.content_type, &recorded.body.as_bytes()[..900]);
    assert!(!error.unwrap_err().to_string().contains("PartitionKey"));
}
