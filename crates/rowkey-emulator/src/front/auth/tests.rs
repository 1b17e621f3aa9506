//! Shared access signatures of clients: permissions, validity, and addresses.

use std::collections::BTreeMap;

use http::Request;
use http::request::Parts;
use rowkey_wire::auth::Resource;
use rowkey_wire::auth::{Sas, SigningKey};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::xml::SignedIdentifier;

use super::*;
use crate::account::{self, Rules};
use crate::op::entity::Strictness;
use crate::store::Names;

const KEY: &str = "YmFy";
const NOW: &str = "2026-01-01T12:00:00Z";

pub(crate) fn account() -> Account {
    let accounts = [("acc".to_owned(), vec!["YmF6".to_owned(), KEY.to_owned()])];
    let now = NOW.parse().unwrap();
    let rules = Rules { strict: Strictness::Strict, names: Names::Blocked };
    let account = account::accounts(&accounts, rules, 0).unwrap().remove(0);
    account.change_store(|store| store.create_table("Things", now).map(drop)).0.unwrap();
    account
}

fn now() -> DateTime {
    NOW.parse().unwrap()
}

pub(crate) fn caller() -> Caller<'static> {
    Caller {
        service: Service::Table,
        resource: None,
        address: [127, 0, 0, 1].into(),
        now: now(),
        secondary: false,
        signing_log: None,
    }
}

/// A signed query that permits everything in `Things`, with these changes to its parameters. An
/// empty value removes a parameter.
pub(crate) fn signed(changes: &[(&str, &str)]) -> String {
    let usual =
        [("sv", "2019-02-02"), ("tn", "Things"), ("sp", "raud"), ("se", "2026-01-01T13:00:00Z")];
    let mut all: BTreeMap<&str, &str> = usual.into();
    all.extend(changes.iter().copied());
    all.retain(|_, value| !value.is_empty());
    let encode = |text: &str| text.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let query: Vec<String> = all.iter().map(|(n, v)| format!("{n}={}", encode(v))).collect();
    let query = query.join("&");
    let sas = Sas::from_query(&format!("{query}&sig=x")).unwrap();
    let table = all.get("tn").copied().unwrap_or_default();
    let text = sas.string_to_sign("acc", Resource::Table(table));
    format!("{query}&sig={}", encode(&SigningKey::from_base64(KEY).unwrap().sign(&text)))
}

pub(crate) fn request(query: &str) -> Parts {
    let uri = format!("/acc/Things?{query}");
    Request::builder().uri(uri).body(()).unwrap().into_parts().0
}

fn code_of(account: &Account, query: &str) -> Option<ErrorCode> {
    authenticate(account, caller(), &request(query)).err().map(|r| r.code)
}

#[test]
fn both_account_keys_are_accepted() {
    assert_eq!(code_of(&account(), &signed(&[])), None);
    let forged = signed(&[]).replace("sp=raud", "sp=r");
    assert_eq!(code_of(&account(), &forged), Some(ErrorCode::AUTHENTICATION_FAILED));
    assert_eq!(code_of(&account(), ""), Some(ErrorCode::NO_AUTHENTICATION_INFORMATION));
}

#[test]
fn a_sas_is_valid_from_its_start_to_its_expiry() {
    let failed = Some(ErrorCode::AUTHENTICATION_FAILED);
    for (changes, expected) in [
        (&[("st", "2026-01-01T12:00:00Z")][..], None),
        (&[("st", "2026-01-01T12:00:01Z")], failed.clone()),
        (&[("se", "2026-01-01T12:00:00Z")], failed.clone()),
        (&[("se", "2026-01-02")], None),
        (&[("se", "")], failed.clone()),
        (&[("se", "soon")], failed.clone()),
        (&[("sv", "")], failed.clone()),
        (&[("tn", "")], failed),
    ] {
        assert_eq!(code_of(&account(), &signed(changes)), expected, "{changes:?}");
    }
}

#[test]
fn a_sas_can_be_limited_to_ip_ranges_and_https() {
    let wrong_ip = Some(ErrorCode::AUTHORIZATION_SOURCE_IP_MISMATCH);
    for (changes, expected) in [
        (&[("sip", "127.0.0.1")][..], None),
        (&[("sip", "127.0.0.0-127.0.0.9")], None),
        (&[("sip", "10.0.0.1")], wrong_ip),
        (&[("spr", "https,http")], None),
        (&[("spr", "https")], Some(ErrorCode::AUTHORIZATION_PROTOCOL_MISMATCH)),
    ] {
        assert_eq!(code_of(&account(), &signed(changes)), expected, "{changes:?}");
    }
}

#[test]
fn a_stored_policy_supplies_fields_missing_from_the_sas() {
    let account = account();
    let policy = SignedIdentifier {
        id: "p".to_owned(),
        start: None,
        expiry: Some("2026-01-01T12:30:00Z".parse().unwrap()),
        permission: Some("r".to_owned()),
    };
    let (..) = account.change_store(|store| {
        store.table_mut("things").unwrap().set_policies(vec![policy]);
    });
    let by_policy = [("si", "p"), ("sp", ""), ("se", "")];
    assert_eq!(code_of(&account, &signed(&by_policy)), None);
    let failed = Some(ErrorCode::AUTHENTICATION_FAILED);
    let twice = [("si", "p"), ("se", "")];
    assert_eq!(code_of(&account, &signed(&twice)), failed, "permissions stand in both");
    assert_eq!(code_of(&account, &signed(&[("si", "other"), ("sp", ""), ("se", "")])), failed);
}

#[test]
fn a_key_range_of_rows_has_a_partition() {
    let failed = Some(ErrorCode::AUTHENTICATION_FAILED);
    assert_eq!(code_of(&account(), &signed(&[("srk", "c")])), failed, "rows without partition");
}

/// A tenant who chooses a key could otherwise split the signed text differently: the text is the
/// same, and so is the signature.
#[test]
fn a_line_break_in_a_sas_field_does_not_grant_another_partition() {
    let key = SigningKey::from_base64(KEY).unwrap();
    let chosen = "victim\n\nvictim\n\n";
    let mut theirs =
        Sas::from_query("sv=2019-02-02&tn=Things&sp=r&se=2026-01-01T13:00:00Z&sig=x").unwrap();
    (theirs.start_partition_key, theirs.end_partition_key) =
        (Some(chosen.to_owned()), Some(chosen.to_owned()));
    let text = theirs.string_to_sign("acc", Resource::Table("Things"));
    let signature = key.sign(&text).replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    // The first lines become keys of their own, and all others belong to the last of them.
    let claimed = "sv=2019-02-02&tn=Things&sp=r&se=2026-01-01T13:00:00Z&spk=victim&srk=&epk=victim\
                   &erk=%0A%0A%0Avictim%0A%0Avictim%0A%0A%0A";
    let sas = Sas::from_query(&format!("{claimed}&sig=x")).unwrap();
    assert_eq!(sas.string_to_sign("acc", Resource::Table("Things")), text, "one text for both");
    let refused = Some(ErrorCode::AUTHENTICATION_FAILED);
    assert_eq!(code_of(&account(), &format!("{claimed}&sig={signature}")), refused);
    assert_eq!(code_of(&account(), &format!("{}&sig={signature}", theirs.encode())), refused);
}

#[test]
fn a_control_character_in_any_sas_field_is_rejected() {
    for part in ["sp", "st", "se", "si", "sip", "spr", "spk", "srk", "epk", "erk", "tn", "rscc"] {
        for character in ["%00", "%09", "%0A", "%0D", "%1F", "%7F", "%C2%85", "%E2%80%A8"] {
            let usual = signed(&[("sp", "r")]);
            let (query, _) = usual.rsplit_once("&sig=").unwrap();
            let kept = query.split('&').filter(|pair| pair.split('=').next() != Some(part));
            let query =
                kept.chain([&*format!("{part}=a{character}")]).collect::<Vec<_>>().join("&");
            let sas = Sas::from_query(&format!("{query}&sig=x")).unwrap();
            let table = sas.table.clone().unwrap_or_default();
            let text = sas.string_to_sign("acc", Resource::Table(&table));
            let signature = SigningKey::from_base64(KEY).unwrap().sign(&text);
            let signature = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
            let code = code_of(&account(), &format!("{query}&sig={signature}"));
            assert_eq!(code, Some(ErrorCode::AUTHENTICATION_FAILED), "{part} {character}");
        }
    }
}

/// The parts of the last queries are remembered; what they permit is not.
#[test]
fn a_signature_that_was_accepted_before_is_verified_again() {
    let failed = Some(ErrorCode::AUTHENTICATION_FAILED);
    let (account, query) = (account(), signed(&[("sip", "127.0.0.1")]));
    for _ in 0..2 {
        assert_eq!(code_of(&account, &query), None);
        let code = |caller| authenticate(&account, caller, &request(&query)).err().map(|r| r.code);
        let later = DateTime::from_ticks(now().ticks() + 2 * 36_000_000_000).unwrap();
        assert_eq!(code(Caller { now: later, ..caller() }), failed, "expired");
        let elsewhere = Caller { address: [127, 0, 0, 2].into(), ..caller() };
        assert_eq!(code(elsewhere), Some(ErrorCode::AUTHORIZATION_SOURCE_IP_MISMATCH));
        let queue = Caller { service: Service::Queue, ..caller() };
        assert_eq!(code(queue), failed, "another service");
        let rules = Rules { strict: Strictness::Strict, names: Names::Blocked };
        let other = [("acc".to_owned(), vec!["YmF6".to_owned()])];
        let other = account::accounts(&other, rules, 0).unwrap().remove(0);
        assert_eq!(code_of(&other, &query), failed, "another key");
    }
}

#[test]
fn a_policy_that_was_changed_or_revoked_permits_nothing_more() {
    let account = account();
    let set = |policies: Vec<SignedIdentifier>| {
        let (..) = account.change_store(|store| {
            store.table_mut("things").unwrap().set_policies(policies);
        });
    };
    let policy = |expiry: &str| SignedIdentifier {
        id: "p".to_owned(),
        start: None,
        expiry: Some(expiry.parse().unwrap()),
        permission: Some("r".to_owned()),
    };
    let query = signed(&[("si", "p"), ("sp", ""), ("se", "")]);
    let failed = Some(ErrorCode::AUTHENTICATION_FAILED);
    for _ in 0..2 {
        set(vec![policy("2026-01-01T12:30:00Z")]);
        assert_eq!(code_of(&account, &query), None);
        set(vec![policy("2026-01-01T11:30:00Z")]);
        assert_eq!(code_of(&account, &query), failed, "expired by its policy");
        set(Vec::new());
        assert_eq!(code_of(&account, &query), failed, "revoked");
    }
}

#[test]
fn signatures_are_told_apart_however_many_are_used() {
    let account = account();
    let queries: Vec<String> = (0..20)
        .map(|n| signed(&[("spk", &*format!("p{n}")), ("epk", &*format!("p{n}"))]))
        .collect();
    for round in 0..3 {
        for (number, query) in queries.iter().enumerate() {
            let access = authenticate(&account, caller(), &request(query)).unwrap();
            let window = access.window();
            let key = |text: String| crate::store::Key::from(text.as_str());
            let row = key("r".to_owned());
            for other in 0..queries.len() {
                let is_own = window.contains(&key(format!("p{other}")), &row);
                assert_eq!(is_own, other == number, "round {round}");
            }
            let forged = query.replace("sp=raud", "sp=r");
            let refused = Some(ErrorCode::AUTHENTICATION_FAILED);
            assert_eq!(code_of(&account, &forged), refused, "round {round}");
        }
    }
}
