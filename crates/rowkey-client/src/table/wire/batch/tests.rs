//! Tests of requests as the client writes them, against recorded bytes (`vectors/batch-*.http`).

use rowkey_wire::multipart::{self, Ending, Part};

use super::*;
use crate::transport::batch::tests::recording;

/// The text between two marks.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    text.split_once(start).unwrap().1.split_once(end).unwrap().0
}

#[test]
fn a_batch_matches_that_of_the_python_library() {
    let recorded = recording(include_str!("../../../../vectors/batch-python12-all-request.http"));
    let batch = between(recorded.body, "--batch_", "\r\n");
    let changeset = between(recorded.body, "boundary=changeset_", "\r\n");
    // The recorded bytes are changed in two respects: that library creates two ids where we create
    // one, and adds dates after Content-Length, which the service ignores within a batch.
    let date =
        "x-ms-date: Thu, 17 Jun 2021 16:53:06 GMT\r\nDate: Thu, 17 Jun 2021 16:53:06 GMT\r\n";
    assert_eq!(recorded.body.matches(date).count(), 6);
    let expected = recorded.body.replace(date, "").replace(changeset, batch);

    let common = [("x-ms-version", "2019-02-02"), ("DataServiceVersion", "3.0")];
    let address = "https://seankaneprim.table.core.windows.net/uttable3e36157d";
    let entity = |n: usize| {
        format!("{address}(PartitionKey='003',RowKey='batch_all_operations_together-{n}')")
    };
    let json = |marker: &str| {
        let start = recorded.body.find(marker).unwrap();
        let body = recorded.body[start..].split_once("\r\n\r\n").unwrap().1;
        body.split_once("\r\n--").unwrap().0.as_bytes()
    };
    let mut writer = BatchWriter::new(batch);
    assert_eq!(writer.operations, 0);
    let headers = [
        common[0],
        common[1],
        ("Prefer", "return-no-content"),
        ("Content-Type", "application/json;odata=nometadata"),
        ("Accept", "application/json;odata=minimalmetadata"),
    ];
    writer.operation("POST", address, &headers, Some(json("POST ")));
    let headers = [
        common[0],
        common[1],
        ("If-Match", "*"),
        ("Accept", "application/json;odata=minimalmetadata"),
    ];
    writer.operation("DELETE", &entity(1), &headers, None);
    let headers = [
        common[0],
        common[1],
        ("If-Match", "*"),
        ("Content-Type", "application/json"),
        ("Accept", "application/json"),
    ];
    let upsert = [headers[0], headers[1], headers[3], headers[4]];
    for (n, (method, headers)) in
        [("PATCH", &headers[..]), ("PUT", &headers), ("PATCH", &upsert), ("PUT", &upsert)]
            .into_iter()
            .enumerate()
    {
        let n = n + 2;
        writer.operation(method, &entity(n), headers, Some(json(&format!("together-{n}')"))));
    }

    assert_eq!(writer.operations, 6);
    assert_eq!(writer.content_type(), recorded.content_type);
    let len = writer.len();
    let body = writer.finish();
    assert_eq!(std::str::from_utf8(&body).unwrap(), expected);
    assert_eq!(body.len(), len);
}

#[test]
fn the_length_of_a_batch_is_known_before_it_is_written() {
    for (count, length) in [(0, 0), (1, 0), (2, 9), (10, 10), (11, 999), (100, 1000)] {
        let id = "0f8fad5b-d9cb-469f-a165-70867728950e";
        let mut writer = BatchWriter::new(id);
        let mut expected = BatchWriter::envelope_len(id.len());
        let body = vec![b'x'; length];
        for number in 0..count {
            let body = (number % 2 == 0).then_some(&*body);
            let headers = [("If-Match", "*"), ("Accept", "application/json")];
            writer.operation("PUT", "/t(PartitionKey='',RowKey='')", &headers, body);
            let target = "/t(PartitionKey='',RowKey='')";
            expected += BatchWriter::operation_len(id.len(), "PUT", target.len(), &headers, body);
        }
        // The first ten numbers have one digit.
        assert_eq!(writer.len(), expected - count.min(10), "{count} of {length}");
    }
}

#[test]
fn a_value_with_line_breaks_adds_no_header_and_no_operation() {
    let mut writer = BatchWriter::new("x");
    let tag = "\"\r\n\r\n--changeset_x\r\nContent-Type: application/http\r\n\r\nDELETE /t HTTP/1.1";
    writer.operation("DELETE", "/t(PartitionKey='',RowKey='')", &[("If-Match", tag)], None);
    let content_type = writer.content_type();
    let body = writer.finish();
    let parts = multipart::parts(&content_type, &body, Ending::Closed).unwrap();
    let [Part::Changeset { messages, .. }] = &*parts else { panic!("not one changeset") };
    assert_eq!(messages.len(), 1);
    let mut names = Vec::new();
    let (_, at) = multipart::start_line(&body, messages[0].clone()).unwrap();
    multipart::head(&body, at..messages[0].end, |header| {
        names.push(header.name.to_owned());
        Ok(())
    })
    .unwrap();
    assert_eq!(names, [b"If-Match"]);
}
