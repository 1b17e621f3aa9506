//! XML documents of the three services, those of requests and those of responses.

use rowkey::internals::{self, Body};
use rowkey_emulator::fuzzing as server;
use rowkey_wire::xml;

/// Every decoder of XML.
pub fn all(input: &[u8]) {
    let _ = (policies(input), policies_of_response(input));
    let _ = (properties(input), xml::decode_properties(input).is_ok());
    let _ = (server::key_info(input), message(input));
    for what in [
        Body::Blobs,
        Body::Containers,
        Body::DelegationKey,
        Body::Messages,
        Body::Queues,
        Body::Statistics,
    ] {
        let _ = internals::read(what, input, |_| ());
    }
    let _ = blocks(input);
}

/// Whether it is a document of access policies; asserts that both sides parse the formatted document.
pub fn policies(input: &[u8]) -> bool {
    let Ok(policies) = xml::parse_acl(input) else { return false };
    let again = xml::decode_acl(xml::render_acl(&policies).as_bytes()).expect("rendered policies");
    assert_eq!(again.len(), policies.len());
    let again = xml::parse_acl(xml::encode_acl(&policies).as_bytes()).expect("encoded policies");
    assert_eq!(again, policies);
    true
}

/// Whether it is a response's access policies.
pub fn policies_of_response(input: &[u8]) -> bool {
    xml::decode_acl(input).is_ok()
}

/// Whether it is a request's service properties; asserts that the client reads them rendered.
pub fn properties(input: &[u8]) -> bool {
    let Ok(properties) = xml::parse_properties(input) else { return false };
    let rendered = xml::render_properties(&properties);
    assert!(xml::decode_properties(rendered.as_bytes()).is_ok(), "{rendered}");
    true
}

/// Whether it is a message that is put; asserts that the text can be written in XML again.
pub fn message(input: &[u8]) -> bool {
    let Some(text) = server::message(input) else { return false };
    assert!(xml::can_hold(&text), "{text:?}");
    true
}

/// Whether it is a list of blocks to commit; asserts that it is read again as written.
pub fn blocks(input: &[u8]) -> bool {
    let Some(blocks) = server::blocks(input) else { return false };
    let text = internals::block_list(blocks.iter().map(|(source, id)| (*source, id.as_str())));
    assert_eq!(server::blocks(text.as_bytes()).expect("an encoded list"), blocks);
    true
}
