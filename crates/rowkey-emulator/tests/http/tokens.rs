//! Bearer tokens: which are accepted, and the challenge to requests without a valid one.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rowkey_emulator::Server;

use crate::support::{Answer, Client};

/// The beginning of 2026, where a manual clock starts.
const NOW: i64 = 1_767_225_600;
const VERSION: (&str, &str) = ("x-ms-version", "2020-12-06");

async fn started() -> (Server, Client) {
    let server = Server::builder().manual_clock().oauth().start().await.unwrap();
    let client = Client::of(&server);
    (server, client)
}

fn part(text: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(text)
}

fn token(audience: &str, issuer: &str, from: i64, to: i64) -> String {
    let claims = format!(r#"{{"aud":"{audience}","iss":"{issuer}","nbf":{from},"exp":{to}}}"#);
    format!("{}.{}.c2lnbmF0dXJl", part(r#"{"alg":"RS256"}"#), part(&claims))
}

fn good() -> String {
    token("https://storage.azure.com", "https://sts.windows.net/0/", NOW, NOW + 60)
}

fn tables(client: &mut Client, token: &str, version: (&str, &str)) -> Answer {
    let authorization = format!("Bearer {token}");
    client.send("GET", "/Tables", &[("authorization", &authorization), version], "")
}

#[tokio::test]
async fn a_request_without_a_token_gets_a_bearer_challenge() {
    let (_server, mut client) = started().await;
    let none = ("authorization", "");
    let answer = client.send("GET", "/Tables", &[none, VERSION], "");
    assert_eq!((answer.status, answer.code()), (401, "NoAuthenticationInformation"));
    let challenge = answer.header("www-authenticate").unwrap();
    assert!(
        challenge.starts_with("Bearer authorization_uri=https://login.microsoftonline.com/"),
        "{challenge}"
    );
    assert!(challenge.ends_with("/oauth2/authorize resource_id=https://storage.azure.com"));
    let answer = client.send("GET", "/Tables", &[none], "");
    assert_eq!((answer.status, answer.header("www-authenticate")), (401, None), "too old");
}

#[tokio::test]
async fn a_token_is_valid_for_its_lifetime_and_audience() {
    let (server, mut client) = started().await;
    assert_eq!(tables(&mut client, &good(), VERSION).status, 200);
    let (storage, issuer) = ("https://storage.azure.com", "https://sts.windows.net/0/");
    for (token, why) in [
        (token(storage, issuer, NOW + 1, NOW + 60), "not yet valid"),
        (token(storage, issuer, NOW - 60, NOW), "expired"),
        (token("https://graph.microsoft.com", issuer, NOW, NOW + 60), "Audience"),
        (token(storage, "https://example.org/", NOW, NOW + 60), "Issuer"),
        ("x".to_owned(), "not a JSON Web Token"),
        ("a.b.c".to_owned(), "not a JSON Web Token"),
        (format!("{}.{}.x", part("{}"), part("{}")), "not a JSON Web Token"),
        (good().rsplit_once('.').unwrap().0.to_owned(), "not a JSON Web Token"),
        (format!("{}.x", good()), "not a JSON Web Token"),
    ] {
        let answer = tables(&mut client, &token, VERSION);
        assert_eq!((answer.status, answer.code()), (401, "InvalidAuthenticationInfo"), "{why}");
        assert!(answer.body.contains(why), "{why}: {}", answer.body);
        assert!(answer.header("www-authenticate").is_some(), "{why}");
    }
    server.clock().advance(Duration::from_secs(60));
    assert_eq!(tables(&mut client, &good(), VERSION).status, 401);
}

#[tokio::test]
async fn tokens_require_a_supporting_version_and_server() {
    let (_server, mut client) = started().await;
    let answer = tables(&mut client, &good(), ("x-ms-version", "2017-07-29"));
    assert_eq!((answer.status, answer.code()), (403, "AuthenticationFailed"));
    // The Python and JavaScript table libraries send 2019-02-02.
    for version in ["2017-11-09", "2019-02-02", "2019-12-12", "2026-10-06"] {
        let answer = tables(&mut client, &good(), ("x-ms-version", version));
        assert_eq!(answer.status, 200, "{version}: {}", answer.body);
    }
    let other = Server::builder().manual_clock().start().await.unwrap();
    let answer = tables(&mut Client::of(&other), &good(), VERSION);
    assert_eq!((answer.status, answer.code()), (403, "AuthenticationFailed"));
    assert!(answer.body.contains("--oauth basic"), "{}", answer.body);
}
