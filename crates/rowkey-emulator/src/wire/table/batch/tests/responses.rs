//! Responses as the server writes them.

use super::*;

/// Writes a recorded response again, from the status lines and headers in the recording.
fn rewritten(recorded: &Recording) -> (String, Bytes) {
    let batch = between(recorded.body, "--batchresponse_", "\r\n");
    let changeset = between(recorded.body, "boundary=changesetresponse_", "\r\n");
    let mut writer = ResponseWriter::new(batch, changeset);
    for part in recorded.body.split("HTTP/1.1 ").skip(1) {
        let (head, rest) = part.split_once("\r\n\r\n").unwrap();
        let mut lines = head.split("\r\n");
        let (status, reason) = lines.next().unwrap().split_once(' ').unwrap();
        let headers: Vec<_> = lines.map(|line| line.split_once(": ").unwrap()).collect();
        let body = rest.split_once("\r\n--").unwrap().0;
        writer.part(status.parse().unwrap(), reason, &headers, body.as_bytes());
    }
    writer.finish()
}

#[test]
fn responses_are_written_to_the_byte_as_recorded() {
    for recorded in [
        recording!("python12-all-response"),
        recording!("legacy-all-response"),
        recording!("created-response"),
        recording!("duplicate-response"),
        recording!("conflict-response"),
        recording!("empty-response"),
    ] {
        let (content_type, body) = rewritten(&recorded);
        assert_eq!(content_type, recorded.content_type);
        assert_eq!(std::str::from_utf8(&body).unwrap(), recorded.body);
    }
}

#[test]
fn the_answer_to_a_query_is_in_no_changeset() {
    let mut writer = ResponseWriter::query("i");
    writer.part(200, "OK", &[("Cache-Control", "no-cache")], b"{}");
    let (content_type, body) = writer.finish();
    assert_eq!(content_type, "multipart/mixed; boundary=batchresponse_i");
    assert_eq!(
        body,
        "--batchresponse_i\r\nContent-Type: application/http\r\n\
         Content-Transfer-Encoding: binary\r\n\r\nHTTP/1.1 200 OK\r\n\
         Cache-Control: no-cache\r\n\r\n{}\r\n--batchresponse_i--\r\n"
    );
}
