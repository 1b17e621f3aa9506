//! Batches that no client and no service sends: read or refused, within bounds.

use rowkey_fuzz::batch;

use crate::mutate::Random;

const SCRAPS: [&str; 17] = [
    "\r\n",
    "\n",
    "\r",
    "--",
    "--b",
    "--c",
    ":",
    " ",
    "{}",
    "\u{e9}",
    "Content-Type: multipart/mixed; boundary=c\r\n\r\n",
    "Content-Type: application/http\r\n\r\n",
    "POST /t HTTP/1.1\r\n",
    "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n",
    "Content-Length:\r\n",
    "Content-Length: 2\r\n",
    "Accept: a\r\n\r\n",
];

/// Without these, scraps hardly ever make a batch.
const WRAPS: [(&str, &str); 3] = [
    ("", ""),
    ("--b\r\nContent-Type: application/http\r\n\r\n", "\r\n--b--"),
    ("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n", "\r\n--c--\r\n--b--\r\n"),
];

#[test]
fn fragments_of_batches_are_parsed_or_rejected_within_bounds() {
    let mut random = Random(0x5EED);
    let (mut requests, mut responses) = (0, 0);
    for _ in 0..20_000 {
        let (head, tail) = WRAPS[random.below(WRAPS.len())];
        let mut body = String::from(head);
        for _ in 0..random.below(12) {
            body.push_str(SCRAPS[random.below(SCRAPS.len())]);
        }
        body.push_str(tail);
        let content_type = "multipart/mixed; boundary=b";
        requests += u32::from(batch::request(content_type, body.as_bytes()));
        responses += u32::from(batch::response(content_type, body.as_bytes()));
    }
    assert!(requests > 100, "the scraps must sometimes make a request: {requests}");
    assert!(responses > 100, "the scraps must sometimes make a response: {responses}");
}

#[test]
fn altered_recordings_do_not_panic() {
    let mut random = Random(0xBAD_5EED);
    for recorded in [
        include_str!("../../crates/rowkey-emulator/vectors/batch-python12-all-request.http"),
        include_str!("../../crates/rowkey-emulator/vectors/batch-legacy-all-request.http"),
        include_str!("../../crates/rowkey-emulator/vectors/batch-python12-all-response.http"),
        include_str!("../../crates/rowkey-emulator/vectors/batch-duplicate-response.http"),
    ] {
        let (_, recorded) = recorded.split_once("Content-Type: ").unwrap();
        let (content_type, recorded) = recorded.split_once("\n\n").unwrap();
        for _ in 0..1_000 {
            let mut body = recorded.as_bytes().to_vec();
            for _ in 0..=random.below(4) {
                let at = random.below(body.len());
                match random.below(3) {
                    0 => body[at] = u8::try_from(random.below(256)).unwrap(),
                    1 => drop(body.remove(at)),
                    _ => body.insert(at, b"\r\n-: "[random.below(5)]),
                }
            }
            let _ = (batch::request(content_type, &body), batch::response(content_type, &body));
        }
    }
}
