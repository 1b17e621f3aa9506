//! How a request, or any input, is damaged.

use crate::corpus::Request;

/// A small generator (`SplitMix64`), so that a run is the same each time.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

/// Values that are at the edge of something, or beyond.
const VALUES: &[&[u8]] = &[
    b"",
    b"0",
    b"-1",
    b"1",
    b"9999999999999999999999",
    b"18446744073709551615",
    b"9223372036854775807",
    b"2147483648",
    b"NaN",
    b"true",
    b"*",
    b"\"*\"",
    b"W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\"",
    b"\"0xFFFFFFFFFFFFFFFF\"",
    b"bytes=0-0",
    b"bytes=5-2",
    b"bytes=-1",
    b"bytes=18446744073709551615-18446744073709551615",
    b"bytes=0-18446744073709551615",
    b"Thu, 01 Jan 1970 00:00:00 GMT",
    b"Fri, 31 Dec 9999 23:59:59 GMT",
    b"Mon, 31 Feb 2020 25:61:61 GMT",
    b"0001-01-01T00:00:00.0000000Z",
    b"99999-99-99T99:99:99Z",
    b"2999-01-01",
    b"AAAAAAAAAAA=",
    b"1B2M2Y8AsgTpgAmY7PhCfg==",
    b"====",
    b"application/atom+xml",
    b"application/json;odata=fullmetadata",
    b"multipart/mixed; boundary=",
    b"multipart/mixed; boundary=\"",
    b"multipart/mixed; boundary=batch_a",
    b"bearer x",
    b"\xc3\xa9\xf0\x9f\x98\x80",
    b"\xff\xfe\xc0\xaf",
    b"00000000-0000-0000-0000-000000000000",
    b"break",
    b"acquire",
    b"http://127.0.0.1/devstoreaccount1/robust/block",
    b"1!8!AAAAAAAA",
    b"1!9999999!",
    b"%",
    b"%00",
    b"%zz",
    b"%c0%af",
    b"%ff%fe%fd",
    b"%F0%9F%98%80",
    b"../../..",
    b"$root",
    b"(PartitionKey='',RowKey='')",
    b"(PartitionKey='a''b',RowKey='%00')",
    b"('",
    b"2147483647-2147483648",
];

/// Pieces of what bodies and queries are written in.
const PIECES: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"null",
    b"1e999",
    b"-0.0",
    b"123456789012345678901234567890",
    b"\"@odata.type\":\"Edm.Int64\",",
    b"Edm.DateTime",
    b"Edm.Binary",
    b"\"PartitionKey\":\"x\",",
    b"\"Timestamp\":1,",
    b"<",
    b">",
    b"</",
    b"/>",
    b"&",
    b"&amp;",
    b"&#0;",
    b"&#xD800;",
    b"&x;",
    b"<![CDATA[",
    b"]]>",
    b"<!--",
    b"-->",
    b"<?xml",
    b"<!DOCTYPE a [<!ENTITY x \"y\">]>",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\n",
    b"\r\n\r\n",
    b"--",
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b"Content-Length: 99999999999\r\n",
    b"Content-ID: -1\r\n",
    b"Content-Transfer-Encoding: binary\r\n",
    b"GET /robust HTTP/1.1\r\n",
    b"'",
    b"''",
    b"%27",
    b" and ",
    b" or not ",
    b"(",
    b")",
    b"datetime'",
    b"guid'",
    b"X'0",
    b"binary'00'",
    b"L",
    b"?",
    b"&$filter=",
    b"&$top=-1",
    b"&comp=",
    b"&snapshot=",
    b"#",
    b"+",
    b"%2",
    b"/",
    b"//",
    b";",
];

/// Openings, for nesting that has no end.
const OPENINGS: &[&[u8]] =
    &[b"[", b"{\"a\":", b"<a>", b"(", b"not ", b"--a\r\n", b"<QueueMessage>", b"%28", b"a/"];

/// Damages bytes in one place. `others` are inputs to take pieces from.
pub(crate) fn bytes(random: &mut Random, input: &mut Vec<u8>, others: &[&[u8]]) {
    let at = random.below(input.len() + 1);
    match random.below(11) {
        0 | 1 if at < input.len() => input[at] ^= 1 << random.below(8),
        2 => {
            let byte = random.byte();
            input.insert(at, byte);
        }
        3 => {
            let end = (at + 1 + random.below(16)).min(input.len());
            input.drain(at..end);
        }
        4 => input.truncate(at),
        5 => {
            let end = (at + random.below(200)).min(input.len());
            let copy = input[at..end].to_vec();
            insert(input, at, &copy.repeat(1 + random.below(3)));
        }
        6 => {
            let opening = random.pick(OPENINGS);
            let most = if random.one_in(10) { 5000 } else { 50 };
            let times = 1 + random.below(most);
            insert(input, at, &opening.repeat(times));
        }
        7 if !others.is_empty() => {
            let other = random.pick(others);
            let from = random.below(other.len() + 1);
            let end = (from + random.below(200)).min(other.len());
            insert(input, at, &other[from..end]);
        }
        8 => {
            let value = random.pick(VALUES);
            insert(input, at, value);
        }
        _ => {
            let piece = random.pick(PIECES);
            insert(input, at, piece);
        }
    }
}

fn insert(input: &mut Vec<u8>, at: usize, what: &[u8]) {
    input.splice(at..at, what.iter().copied());
}

/// Damages a request in one place, so that its framing stays whole.
pub(crate) fn request(random: &mut Random, request: &mut Request, others: &[Request]) {
    let other = &others[random.below(others.len())];
    match random.below(16) {
        0 => {
            let methods =
                ["GET", "HEAD", "PUT", "POST", "MERGE", "PATCH", "DELETE", "OPTIONS", "X"];
            random.pick(&methods).clone_into(&mut request.method);
        }
        1..=3 => target(random, &mut request.target, &other.target),
        4 => query(random, &mut request.target, &other.target),
        5 if !request.headers.is_empty() => {
            let at = random.below(request.headers.len());
            request.headers.remove(at);
        }
        6 | 7 if !request.headers.is_empty() => {
            let at = random.below(request.headers.len());
            random.pick(VALUES).clone_into(&mut request.headers[at].1);
        }
        8 if !request.headers.is_empty() => {
            let at = random.below(request.headers.len());
            bytes(random, &mut request.headers[at].1, &[]);
        }
        9 => request.headers.extend(other.headers.iter().cloned()),
        10 => {
            // A value in the place of another's.
            if let (Some(mine), Some((_, theirs))) =
                (request.headers.first_mut(), other.headers.last())
            {
                mine.1.clone_from(theirs);
            }
        }
        11 => header(random, request),
        12 => request.body.clone_from(&other.body),
        _ => bytes(random, &mut request.body, &[&other.body]),
    }
}

fn target(random: &mut Random, target: &mut Vec<u8>, other: &[u8]) {
    bytes(random, target, &[other]);
    if random.one_in(50) {
        let filler = random.pick(&[&b"a"[..], b"%41", b"&a=b", b"/a", b"'"]);
        let times = 1 + random.below(10_000);
        target.extend(filler.repeat(times));
    }
    if random.one_in(2) {
        // The rest would only be rejected as malformed HTTP.
        target.retain(u8::is_ascii_graphic);
    }
}

/// Damages one value of the query, or takes a value from another query.
fn query(random: &mut Random, target: &mut Vec<u8>, other: &[u8]) {
    let other = other.splitn(2, |byte| *byte == b'?').nth(1).unwrap_or(b"comp=list");
    let start = target.iter().position(|byte| *byte == b'?');
    let values: Vec<usize> =
        (start.unwrap_or(target.len())..target.len()).filter(|at| target[*at] == b'=').collect();
    if values.is_empty() || random.one_in(4) {
        target.push(if start.is_some() { b'&' } else { b'?' });
        target.extend_from_slice(other);
        return;
    }
    let from = values[random.below(values.len())] + 1;
    let len = target[from..].iter().position(|byte| *byte == b'&').unwrap_or(target.len() - from);
    let value = random.pick(VALUES);
    let value = value.iter().copied().filter(u8::is_ascii_graphic);
    target.splice(from..from + len, value);
}

/// Adds a header that means something, with a value that does not.
fn header(random: &mut Random, request: &mut Request) {
    let names = [
        "if-match",
        "if-none-match",
        "if-modified-since",
        "if-unmodified-since",
        "range",
        "x-ms-range",
        "x-ms-range-get-content-md5",
        "x-ms-range-get-content-crc64",
        "x-ms-lease-id",
        "x-ms-lease-action",
        "x-ms-lease-duration",
        "x-ms-lease-break-period",
        "x-ms-proposed-lease-id",
        "x-ms-blob-type",
        "x-ms-blob-content-md5",
        "x-ms-blob-content-length",
        "x-ms-blob-condition-appendpos",
        "x-ms-blob-condition-maxsize",
        "x-ms-blob-public-access",
        "x-ms-copy-source",
        "x-ms-meta-a",
        "x-ms-meta-",
        "x-ms-meta-0",
        "x-ms-content-crc64",
        "x-ms-delete-snapshots",
        "x-ms-client-request-id",
        "x-ms-version",
        "x-ms-date",
        "x-http-method",
        "content-md5",
        "content-type",
        "content-encoding",
        "dataserviceversion",
        "maxdataserviceversion",
        "accept",
        "prefer",
        "origin",
        "access-control-request-method",
        "access-control-request-headers",
        "expect",
        "connection",
        "authorization",
    ];
    let name = random.pick(&names).to_owned();
    let value = match random.below(8) {
        0 => b"v".repeat(1 + random.below(20_000)),
        1 => b"100-continue".to_vec(),
        _ => random.pick(VALUES).to_vec(),
    };
    request.headers.push((name, value));
}
