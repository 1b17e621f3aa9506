//! A self-signed certificate of a server, X.509 version 3 in DER.
//!
//! By hand, because a library for certificates of all kinds brings seven crates, and what is needed here is one form
//! with a new key, names and dates. Clients check it, in the tests of `identity`.

use std::io;
use std::net::IpAddr;

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand::{self, SystemRandom};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};

/// The contents of the object identifiers, <https://www.rfc-editor.org/rfc/rfc5280> and rfc5480.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const EXT_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const SERVER_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const PRIME256V1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

/// A certificate and its key (PKCS#8), in DER.
pub(super) struct Made {
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
}

/// Makes a certificate for these names and addresses, valid between two days, `(year, month, day)`.
pub(super) fn make(names: &[String], from: [u32; 3], until: [u32; 3]) -> io::Result<Made> {
    let random = SystemRandom::new();
    let failed = |_: Unspecified| io::Error::other("a key cannot be made");
    let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(failed)?;
    let key = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref()).map_err(io::Error::other)?;
    let mut serial = [0; 16];
    rand::fill(&mut serial).map_err(failed)?;
    // Positive, and without a leading zero.
    serial[0] = serial[0] & 0x3f | 0x40;
    let signing = node(SEQUENCE, &[&node(OBJECT_IDENTIFIER, &[ECDSA_WITH_SHA256])]);
    let name = pair(SEQUENCE, COMMON_NAME, &node(UTF8_STRING, &[b"rowkey-server"]));
    let name = node(SEQUENCE, &[&node(SET, &[&name])]);
    let names: Vec<u8> = names.iter().flat_map(|name| subject(name)).collect();
    let usages = node(SEQUENCE, &[&node(OBJECT_IDENTIFIER, &[SERVER_AUTH])]);
    let extensions = [
        extension(SUBJECT_ALT_NAME, false, &node(SEQUENCE, &[&names])),
        // The first bit: digital signatures.
        extension(KEY_USAGE, true, &node(BIT_STRING, &[&[7, 0x80]])),
        extension(EXT_KEY_USAGE, false, &usages),
    ];
    let kind = pair(SEQUENCE, EC_PUBLIC_KEY, &node(OBJECT_IDENTIFIER, &[PRIME256V1]));
    let body = node(
        SEQUENCE,
        &[
            &node(VERSION, &[&node(INTEGER, &[&[2]])]),
            &node(INTEGER, &[&serial]),
            &signing,
            &name,
            &node(SEQUENCE, &[&time(from), &time(until)]),
            &name,
            &node(SEQUENCE, &[&kind, &node(BIT_STRING, &[&[0], key.public_key().as_ref()])]),
            &node(EXTENSIONS, &[&node(SEQUENCE, &[&extensions.concat()])]),
        ],
    );
    let signature = key.sign(&random, &body).map_err(failed)?;
    let signature = node(BIT_STRING, &[&[0], signature.as_ref()]);
    let certificate = node(SEQUENCE, &[&body, &signing, &signature]);
    Ok(Made { certificate, key: document.as_ref().to_vec() })
}

fn subject(name: &str) -> Vec<u8> {
    match name.parse() {
        Ok(IpAddr::V4(ip)) => node(IP_ADDRESS, &[&ip.octets()]),
        Ok(IpAddr::V6(ip)) => node(IP_ADDRESS, &[&ip.octets()]),
        Err(_) => node(DNS_NAME, &[name.as_bytes()]),
    }
}

fn extension(identifier: &[u8], is_critical: bool, value: &[u8]) -> Vec<u8> {
    let critical = if is_critical { node(BOOLEAN, &[&[0xff]]) } else { Vec::new() };
    let identifier = node(OBJECT_IDENTIFIER, &[identifier]);
    node(SEQUENCE, &[&identifier, &critical, &node(OCTET_STRING, &[value])])
}

/// Midnight of a day. Years from 2050 on have another form.
fn time([year, month, day]: [u32; 3]) -> Vec<u8> {
    if year < 2050 {
        let text = format!("{:02}{month:02}{day:02}000000Z", year % 100);
        return node(UTC_TIME, &[text.as_bytes()]);
    }
    node(GENERALIZED_TIME, &[format!("{year:04}{month:02}{day:02}000000Z").as_bytes()])
}

/// An identifier, and what belongs to it.
fn pair(tag: u8, identifier: &[u8], value: &[u8]) -> Vec<u8> {
    node(tag, &[&node(OBJECT_IDENTIFIER, &[identifier]), value])
}

/// A tag, the length of the contents, and the contents.
fn node(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let contents = parts.concat();
    let length = contents.len().to_be_bytes();
    let length = &length[contents.len().leading_zeros() as usize / 8..];
    let mut whole = vec![tag];
    match length {
        [] => whole.push(0),
        [short] if *short < 0x80 => whole.push(*short),
        long => {
            whole.push(0x80 | u8::try_from(long.len()).unwrap_or_default());
            whole.extend_from_slice(long);
        }
    }
    whole.extend(contents);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_as_many_bytes_as_they_need() {
        for (length, head) in [
            (0, &[4, 0][..]),
            (0x7f, &[4, 0x7f]),
            (0x80, &[4, 0x81, 0x80]),
            (0x100, &[4, 0x82, 1, 0]),
        ] {
            let whole = node(OCTET_STRING, &[&vec![7; length]]);
            assert_eq!((&whole[..head.len()], whole.len()), (head, head.len() + length));
        }
    }

    #[test]
    fn years_after_2049_have_four_digits() {
        assert_eq!(time([2049, 12, 31]), b"\x17\x0d491231000000Z");
        assert_eq!(time([2050, 1, 1]), b"\x18\x0f20500101000000Z");
    }
}
