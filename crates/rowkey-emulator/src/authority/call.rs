//! One request to the authority: its parameters, and the address it was sent to.

use bytes::Bytes;
use http::HeaderMap;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use rowkey_wire::edm::DateTime;

use crate::front::route;
use crate::identity::Issuer;
use crate::tls::Https;

/// One request to the authority.
pub(super) struct Call<'a> {
    pub(super) issuer: &'a Issuer,
    pub(super) now: DateTime,
    pub(super) headers: &'a HeaderMap,
    /// The authority's address as the client wrote it, without a slash at the end.
    pub(super) authority: String,
    /// The parameters of the query and of the form.
    parameters: Vec<(String, String)>,
}

impl<'a> Call<'a> {
    pub(super) fn new(
        issuer: &'a Issuer,
        now: DateTime,
        request: &'a Parts,
        body: &'a Bytes,
    ) -> Self {
        let Parts { headers, uri, .. } = request;
        let scheme = if request.extensions.get::<Https>().is_some() { "https" } else { "http" };
        let authority = match route::host(uri, headers) {
            Some(host) => format!("{scheme}://{host}"),
            None => issuer.address().to_owned(),
        };
        let mut parameters = Vec::new();
        for text in [uri.query().unwrap_or_default(), str::from_utf8(body).unwrap_or_default()] {
            parameters.extend(
                text.split('&')
                    .filter_map(|pair| pair.split_once('='))
                    .map(|(name, value)| (decode(name), decode(value))),
            );
        }
        Self { issuer, now, headers, authority, parameters }
    }

    /// A parameter, unless it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.parameters.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// The host of the authority, with its port.
    pub(super) fn host(&self) -> &str {
        self.authority.split_once("://").map_or("", |(_, host)| host)
    }
}

/// Decodes a part of a form.
fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}
