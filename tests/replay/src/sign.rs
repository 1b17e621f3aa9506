//! Authorization: Shared Key, Shared Key Lite, shared access signatures, MD5 of bodies.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use md5::{Digest as _, Md5};
use sha2::Sha256;

use crate::exchange::{Auth, Headers, Service};
use crate::text;

/// The account that every emulator has.
pub(crate) const ACCOUNT: &str = "devstoreaccount1";

/// Its published key.
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The MD5 of a body, as headers have it.
pub(crate) fn md5(body: &[u8]) -> String {
    STANDARD.encode(Md5::digest(body))
}

fn signature(text: &str, wrong_key: bool) -> String {
    let key = if wrong_key { vec![7; 64] } else { STANDARD.decode(KEY).unwrap_or_default() };
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key may have any length");
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

/// The `Authorization` header of a request as it will be sent. A length of zero is signed as empty.
pub(crate) fn authorization(
    service: Service,
    method: &str,
    target: &str,
    headers: &Headers,
    auth: Auth,
) -> String {
    let (path, query) = (text::path(target), text::query(target));
    let mut parameters = BTreeMap::<String, Vec<String>>::new();
    for (name, value) in text::query_items(query) {
        let name = text::unquote(name).to_lowercase();
        parameters.entry(name).or_default().push(text::unquote_plus(value));
    }
    let get = |name: &str| headers.get(name).map_or("", String::as_str);
    let lite = auth == Auth::Lite;
    let mut resource = format!("/{ACCOUNT}{path}");
    if service == Service::Table || lite {
        if let Some(comp) = parameters.get("comp").and_then(|it| it.first()) {
            let _ = write!(resource, "?comp={comp}");
        }
    } else {
        for (name, values) in &mut parameters {
            values.sort();
            let _ = write!(resource, "\n{name}:{}", values.join(","));
        }
    }
    let signed = if service == Service::Table {
        let date = get("x-ms-date");
        if lite {
            format!("{date}\n{resource}")
        } else {
            [method, get("content-md5"), get("content-type"), date, &resource].join("\n")
        }
    } else {
        let mut own = String::new();
        for (name, value) in headers.iter().filter(|(name, _)| name.starts_with("x-ms-")) {
            let _ = writeln!(own, "{name}:{}", value.trim());
        }
        let length = Some(get("content-length")).filter(|it| *it != "0").unwrap_or_default();
        let standard = [
            method,
            get("content-encoding"),
            get("content-language"),
            length,
            get("content-md5"),
            get("content-type"),
            "",
            get("if-modified-since"),
            get("if-match"),
            get("if-none-match"),
            get("if-unmodified-since"),
            get("range"),
        ];
        format!("{}\n{own}{resource}", standard.join("\n"))
    };
    let scheme = if lite { "SharedKeyLite" } else { "SharedKey" };
    format!("{scheme} {ACCOUNT}:{}", signature(&signed, auth == Auth::WrongKey))
}

/// The signature of a shared access signature with these parameters, for a path without the account.
pub(crate) fn sas(
    query: &BTreeMap<String, String>,
    service: Service,
    path: &str,
    wrong_key: bool,
) -> String {
    let get = |name: &str| query.get(name).cloned().unwrap_or_default();
    let version = get("sv");
    let since = |first: &str| version.as_str() >= first;
    let mut lines: Vec<String> = Vec::new();
    if query.contains_key("ss") {
        lines.push(ACCOUNT.to_owned());
        lines.extend(["sp", "ss", "srt", "st", "se", "sip", "spr", "sv"].map(get));
        if since("2020-12-06") {
            lines.push(get("ses"));
        }
        lines.push(String::new());
        return signature(&lines.join("\n"), wrong_key);
    }
    let path = text::unquote(path);
    let path = path.trim_start_matches('/');
    let name = match service {
        Service::Table => get("tn").to_lowercase(),
        Service::Blob if get("sr").starts_with('b') => path.to_owned(),
        _ => path.split('/').next().unwrap_or_default().to_owned(),
    };
    let prefix = if since("2015-02-21") { format!("/{}", service.name()) } else { String::new() };
    lines.extend(["sp", "st", "se"].map(get));
    lines.push(format!("{prefix}/{ACCOUNT}/{name}"));
    lines.push(get("si"));
    if since("2015-04-05") {
        lines.extend(["sip", "spr"].map(get));
    }
    lines.push(get("sv"));
    match service {
        Service::Table => lines.extend(["spk", "srk", "epk", "erk"].map(get)),
        Service::Queue => {}
        Service::Blob => {
            if since("2018-11-09") {
                lines.extend(["sr", "snapshot"].map(get));
            }
            if since("2020-12-06") {
                lines.push(get("ses"));
            }
            if since("2013-08-15") {
                lines.extend(["rscc", "rscd", "rsce", "rscl", "rsct"].map(get));
            }
        }
    }
    signature(&lines.join("\n"), wrong_key)
}
