//! Bytes that no client sends: read or refused, within bounds.

use super::*;

/// A small generator (xorshift), so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

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
fn scraps_of_batches_are_read_or_refused_within_bounds() {
    let mut random = Random(0x5EED);
    let mut read = 0;
    for _ in 0..20_000 {
        let (head, tail) = WRAPS[random.below(WRAPS.len())];
        let mut body = String::from(head);
        for _ in 0..random.below(12) {
            body.push_str(SCRAPS[random.below(SCRAPS.len())]);
        }
        body.push_str(tail);
        let body = Bytes::from(body);
        let content_type = "multipart/mixed; boundary=b";
        match parse_request(content_type, &body) {
            Err(error) => assert!(error.at <= body.len(), "{error:?} {body:?}"),
            Ok(_) => read += 1,
        }
    }
    assert!(read > 100, "the scraps must sometimes make a batch");
}

#[test]
fn recordings_with_bytes_changed_do_not_panic() {
    let mut random = Random(0xBAD_5EED);
    for recorded in [
        recording!("python12-all-request"),
        recording!("legacy-all-request"),
        recording!("python12-all-response"),
        recording!("duplicate-response"),
    ] {
        for _ in 0..1_000 {
            let mut body = recorded.body.as_bytes().to_vec();
            for _ in 0..=random.below(4) {
                let at = random.below(body.len());
                match random.below(3) {
                    0 => body[at] = u8::try_from(random.below(256)).unwrap(),
                    1 => drop(body.remove(at)),
                    _ => body.insert(at, b"\r\n-: "[random.below(5)]),
                }
            }
            let body = Bytes::from(body);
            let error = parse_request(recorded.content_type, &body).err();
            assert!(error.is_none_or(|error| error.at <= body.len()));
        }
    }
}
