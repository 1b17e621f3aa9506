//! Tests against tokens of other libraries (`vectors/auth-vectors.json`), and of warnings.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use rowkey_entity::{DynamicEntity, Key, Partition};
use rowkey_wire::auth::DelegationKey;
use serde_json::Value;

use super::*;
use crate::account::StorageAccount;
use crate::account::builder::StorageAccountBuilder;
use crate::blob::ContentHeaders;
use crate::clock::ManualClock;
use crate::credential::Credential;
use crate::error::{ErrorKind, Result};
use crate::service::Service;

fn vector(name: &str) -> Value {
    let all: Vec<Value> =
        serde_json::from_str(include_str!("../../vectors/auth-vectors.json")).unwrap();
    all.into_iter().find(|vector| vector["name"] == name).unwrap()
}

/// The account that signed a vector.
fn account_of(vector: &Value) -> StorageAccount {
    let hex = vector["key_hex"].as_str().unwrap();
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let key: Vec<u8> = (0..hex.len()).step_by(2).map(digit).collect();
    account(vector["account"].as_str().unwrap(), &BASE64_STANDARD.encode(key))
}

fn account(name: &str, key: &str) -> StorageAccount {
    StorageAccount::builder()
        .credential(Credential::shared_key(name, key).unwrap())
        .clock(ManualClock::new(at("2026-01-01T12:00:00Z")))
        .build()
        .unwrap()
}

fn contoso() -> StorageAccount {
    account("contoso", "YmFy")
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn parts(query: &str) -> BTreeMap<String, String> {
    query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn table_sas_matches_other_libraries() {
    let read = || Sas::table("testTable").permissions(TablePermissions::QUERY).allow_http();
    let until = at("2021-12-12T01:00:00Z");
    let key = || Key::<DynamicEntity>::new("P1", "1");
    let mut checked = 0;
    for (name, sas) in [
        ("table-sas-default", read().expires(until)),
        (
            "table-sas-perm-ad",
            read().permissions(TablePermissions::DELETE | TablePermissions::ADD).expires(until),
        ),
        ("table-sas-expiry", read().expires(at("2022-12-12T00:00:00Z"))),
        ("table-sas-identifier", Sas::table("testTable").policy("MyAccessPolicy").allow_http()),
        ("table-sas-start-pk-rk", read().expires(until).keys(key()..)),
        ("table-sas-end-pk-rk", read().expires(until).keys(..=key())),
    ] {
        let vector = vector(name);
        let token = sas.sign(&account_of(&vector)).unwrap();
        let theirs = vector["inputs"]["query"].as_str().unwrap();
        assert_eq!(parts(token.query()), parts(theirs), "{name}");
        checked += 1;
    }
    assert_eq!(checked, 6);
}

#[test]
fn account_sas_matches_other_libraries() {
    use AccountPermissions as Permissions;
    let tables = || Sas::account(Services::TABLE, ResourceTypes::ALL).allow_http();
    let until = at("2021-12-12T01:00:00Z");
    let read = Permissions::READ | Permissions::LIST;
    for (name, sas) in [
        ("account-sas-default", tables().permissions(read).expires(until)),
        (
            "account-sas-perm-da",
            tables().permissions(Permissions::ADD | Permissions::DELETE).expires(until),
        ),
        ("account-sas-expiry", tables().permissions(read).expires(at("2022-12-12T00:00:00Z"))),
    ] {
        let vector = vector(name);
        let token = sas.sign(&account_of(&vector)).unwrap();
        let theirs = vector["inputs"]["query"].as_str().unwrap();
        assert_eq!(parts(token.query()), parts(theirs), "{name}");
    }
}

#[test]
fn ip_range_protocol_and_start_are_signed_like_in_other_libraries() {
    let node = vector("account-sas-node");
    let mut sas = Sas::account(Services::BLOB, ResourceTypes::SERVICE)
        .permissions(AccountPermissions::READ)
        .starts(at("2016-02-16T00:00:00Z"))
        .expires(at("2016-02-16T00:30:00Z"))
        .ip([168, 1, 5, 60].into()..=[168, 1, 5, 70].into());
    sas.terms.version = Some("2018-03-28");
    assert_signed(&sas.sign(&account_of(&node)).unwrap(), &node);

    // That name is not valid for a table, so the check of names is skipped.
    let go = vector("table-sas-go");
    let query = go["inputs"]["query"].as_str().unwrap();
    let wire = rowkey_wire::auth::Sas::from_query(query).unwrap();
    assert_eq!(parts(&wire.encode()), parts(query));
}

#[test]
fn blob_and_container_sas_match_other_libraries() {
    let always = at("0001-01-01T00:00:00Z");
    let read = |mut sas: Sas<BlobPermissions>, version| {
        sas.terms.version = Some(version);
        sas.permissions(BlobPermissions::READ).expires(always)
    };
    for (name, sas) in [
        ("blob-sas-2013-08-15", read(Sas::blob("container", "name"), "2013-08-15").allow_http()),
        ("container-sas-2013-08-15", read(Sas::container("container"), "2013-08-15").allow_http()),
        (
            "blob-sas-2015-04-05",
            read(Sas::blob("container", "name"), "2015-04-05")
                .ip([127, 0, 0, 1].into()..=[127, 0, 0, 1].into()),
        ),
    ] {
        // These versions sign the older resource names.
        let vector = vector(name);
        assert_signed(&sas.sign(&account_of(&vector)).unwrap(), &vector);
    }
}

#[test]
fn queue_blob_and_newer_version_sas_match_the_python_libraries() {
    let (start, until) = (at("2026-01-01T11:00:00Z"), at("2026-01-01T13:00:00Z"));
    // Created with azure-storage-queue 12.18.1 and azure-storage-blob 12.31.1, set to these
    // versions.
    let account = contoso();
    let queue = Sas::queue("jobs")
        .permissions(QueuePermissions::ALL)
        .starts(start)
        .expires(until)
        .ip([10, 0, 0, 1].into()..=[10, 0, 0, 9].into());
    let blob = Sas::blob("logs", "a/b c.txt").expires(until).permissions(
        BlobPermissions::READ
            | BlobPermissions::ADD
            | BlobPermissions::CREATE
            | BlobPermissions::WRITE
            | BlobPermissions::DELETE,
    );
    let container = Sas::container("logs").permissions(BlobPermissions::ALL);
    let mut services = Sas::account(Services::BLOB, ResourceTypes::ALL)
        .permissions(AccountPermissions::ALL)
        .expires(until);
    services.terms.version = Some("2026-10-06");
    for (token, theirs) in [
        (
            queue.sign(&account),
            "st=2026-01-01T11%3A00%3A00Z&se=2026-01-01T13%3A00%3A00Z&sp=raup\
             &sip=10.0.0.1-10.0.0.9&spr=https&sv=2019-02-02\
             &sig=4Nkt7Mlf3PAoNHbdCQz8FYRKMFN%2BedgamSnGnzko51I%3D",
        ),
        (
            Sas::queue("jobs").policy("p").sign(&account),
            "spr=https&sv=2019-02-02&si=p&sig=bleKxtiLOG4tMugHRfr7ABnt2MKyhL9wtHeq45C9fxo%3D",
        ),
        (
            blob.sign(&account),
            "se=2026-01-01T13%3A00%3A00Z&sp=racwd&spr=https&sv=2020-12-06&sr=b\
             &sig=Av6kxJ4jxL9kQPP5rmfDixy/tdwFFy%2Bgoi3yTK6rYY8%3D",
        ),
        (
            container.starts(start).expires(until).sign(&account),
            "st=2026-01-01T11%3A00%3A00Z&se=2026-01-01T13%3A00%3A00Z&sp=racwdl&spr=https\
             &sv=2020-12-06&sr=c&sig=ONQMOOro5rFzk%2BjCpkdUnF3njVg4SZxs3ad7LIglwEU%3D",
        ),
        (
            services.sign(&account),
            "se=2026-01-01T13%3A00%3A00Z&sp=rwdlacup&spr=https&sv=2026-10-06&ss=b&srt=sco\
             &sig=nrpd9gP0pLf1GlgK5cO89oYZCyR9XjxgGs%2BF%2B1eUDFw%3D",
        ),
    ] {
        let token = token.unwrap();
        assert_eq!(parts(token.query()), parts(&theirs.replace('/', "%2F")), "{token:?}");
    }
}

fn assert_signed(token: &SasToken, vector: &Value) {
    let signature = &parts(token.query())["sig"];
    let signature = signature.replace("%2B", "+").replace("%2F", "/").replace("%3D", "=");
    assert_eq!(signature, vector["signature"].as_str().unwrap(), "{}", vector["name"]);
}

#[test]
fn a_queue_sas_has_permissions_and_expiry() {
    let token = Sas::queue("jobs")
        .permissions(QueuePermissions::ADD | QueuePermissions::PROCESS)
        .valid_for(Duration::from_secs(3600))
        .sign(&contoso())
        .unwrap();
    let parts = parts(token.query());
    assert_eq!((&*parts["sp"], &*parts["se"]), ("ap", "2026-01-01T13%3A00%3A00Z"));
    assert_eq!(parts["spr"], "https", "unless something else is asked for");
    let url = token.url();
    assert!(url.starts_with("https://contoso.queue.core.windows.net/jobs?sv="), "{url}");
    assert_eq!(
        token.connection_string(),
        format!(
            "AccountName=contoso;QueueEndpoint=https://contoso.queue.core.windows.net;\
             SharedAccessSignature={}",
            token.query()
        )
    );
}

#[test]
fn a_partition_sas_covers_only_rows_of_its_type() {
    let range = |sas: Sas<TablePermissions>| {
        let sas = sas.permissions(TablePermissions::ALL).valid_for(Duration::from_secs(60));
        let parts = parts(sas.sign(&contoso()).unwrap().query());
        let part = |name: &str| parts.get(name).cloned().unwrap_or_default();
        ["spk", "srk", "epk", "erk"].map(part)
    };
    let table = || Sas::table("orders");
    let ada = || Partition::<DynamicEntity>::new("ada");
    assert_eq!(range(table()), ["", "", "", ""]);
    assert_eq!(range(table().partition(ada())), ["ada", "", "ada", ""]);
    // The end of a range is inclusive, so the first key after the prefix must not be the end.
    assert_eq!(
        range(table().partition(ada().prefix("order_"))),
        ["ada", "order_", "ada", "order_%EF%BF%BF"]
    );
    assert_eq!(range(table().partitions("a"..="m")), ["a", "", "m", ""]);
    assert_eq!(range(table().partitions("a".."m")), ["a", "", "l%EF%BF%BF", ""]);
    let key = |partition: &str, row: &str| Key::<DynamicEntity>::new(partition, row);
    assert_eq!(range(table().keys(key("a", "1")..=key("b", "2"))), ["a", "1", "b", "2"]);
    assert_eq!(range(table().keys(..key("b", ""))), ["", "", "a%EF%BF%BF", ""]);
}

#[test]
fn a_sas_that_the_service_would_reject_is_not_signed() {
    let sas = || Sas::table("orders").permissions(TablePermissions::QUERY);
    let hour = Duration::from_secs(3600);
    let key = |partition: &str| Key::<DynamicEntity>::new(partition, "");
    for (sas, named) in [
        (sas(), "no expiry"),
        (Sas::table("orders").valid_for(hour), "no permissions"),
        (
            sas().starts(at("2026-01-02T00:00:00Z")).expires(at("2026-01-01T00:00:00Z")),
            "ends before it begins",
        ),
        (Sas::table("a").permissions(TablePermissions::QUERY).valid_for(hour), "name"),
        (sas().valid_for(hour).keys(key("a/b")..), "in the range: keys must not contain"),
        (sas().valid_for(hour).keys(..key("")), "no keys in the range"),
    ] {
        let error = sas.sign(&contoso()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(named), "{named}: {error}");
    }
    assert!(Sas::table("orders").policy("readers").sign(&contoso()).is_ok());
    // Stored access policies belong to a resource; an account has none.
    let whole = Sas::account(Services::TABLE, ResourceTypes::ALL)
        .permissions(AccountPermissions::READ)
        .valid_for(hour);
    assert!(whole.sign(&contoso()).is_ok());
    let error = whole.policy("readers").sign(&contoso()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("policy"), "{error}");
    let cosmos = StorageAccount::builder()
        .credential(Credential::shared_key("contoso", "YmFy").unwrap())
        .endpoint(Service::Table, "https://contoso.table.cosmos.azure.com")
        .unwrap()
        .build()
        .unwrap();
    assert!(sas().valid_for(hour).sign(&cosmos).is_ok());
    assert!(sas().valid_for(hour).partitions("a"..="a").sign(&cosmos).is_err());
    let keyless = StorageAccount::from_connection_string(
        &sas().valid_for(hour).sign(&contoso()).unwrap().connection_string(),
    );
    let error = sas().valid_for(hour).sign(&keyless.unwrap()).unwrap_err();
    assert!(error.to_string().contains("the account key"), "{error}");
}

#[test]
fn a_sas_for_a_local_emulator_permits_http() {
    let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true").unwrap();
    let sas = Sas::table("orders").permissions(TablePermissions::QUERY);
    let token = sas.valid_for(Duration::from_secs(60)).sign(&account).unwrap();
    assert_eq!(parts(token.query()).get("spr"), None);
}

#[test]
fn debug_shows_the_permissions_and_not_the_signature() {
    let sas = Sas::table("orders").permissions(TablePermissions::QUERY);
    let sas = sas.partitions("secret-user"..="secret-user").valid_for(Duration::from_secs(60));
    let before = format!("{sas:?}");
    assert!(before.contains("orders") && !before.contains("secret-user"), "{before}");
    let token = sas.sign(&contoso()).unwrap();
    let shown = format!("{token:?}");
    assert!(shown.contains("2026-01-01T12:01:00Z"), "{shown}");
    let signature = &parts(token.query())["sig"];
    for secret in [&**signature, "secret-user", "sig"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}

#[test]
fn risky_sas_settings_are_warnings() {
    use Warning::{
        AllowsHttp, Expired, LongLived, NoExpiry, NoPolicy, NotYetValid, OpenRange,
        ServiceSasWouldDo, StartWithoutMargin, WholeTable,
    };
    let now = at("2026-01-01T12:00:00Z");
    let good = "spr=https&se=2026-01-01T13:00:00Z&sp=r&tn=t&spk=a&epk=a&sig=x";
    for (change, warnings) in [
        ("", vec![]),
        ("spr=https,http", vec![AllowsHttp]),
        ("spr=", vec![AllowsHttp]),
        ("se=2026-01-01T12:00:00Z", vec![Expired]),
        ("se=2026-01-01T14:00:00Z", vec![NoPolicy]),
        ("se=2026-02-01", vec![LongLived { lifetime: TimeDelta::hours(30 * 24 + 12) }, NoPolicy]),
        ("se=2026-02-01&si=p", vec![]),
        ("se=", vec![NoExpiry]),
        ("se=&si=p", vec![]),
        ("st=2026-01-01T11:45:00Z", vec![]),
        ("st=2026-01-01T11:45:01Z", vec![StartWithoutMargin]),
        ("st=2026-01-01T12:00:00Z", vec![StartWithoutMargin]),
        ("st=2026-01-01T12:30:00Z", vec![NotYetValid]),
        ("spk=&epk=", vec![WholeTable]),
        ("epk=", vec![OpenRange]),
        ("tn=&ss=t&srt=o&spk=&epk=", vec![ServiceSasWouldDo]),
        ("tn=&ss=bqt&srt=sco&spk=&epk=", vec![]),
    ] {
        let mut all = parts(good);
        if !change.is_empty() {
            all.extend(parts(change));
        }
        all.retain(|_, value| !value.is_empty());
        let query: Vec<String> =
            all.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let found = lint(&format!("https://a.b/t?{}", query.join("&")), now).unwrap();
        assert_eq!(found, warnings, "{change}");
        for warning in found {
            assert!(warning.to_string().len() > 20, "{warning:?}");
        }
    }
    assert!(lint("sv=1", now).is_err());
}

#[test]
fn permissions_are_written_in_the_order_of_the_service() {
    let all = TablePermissions::DELETE | TablePermissions::QUERY | TablePermissions::ADD;
    assert_eq!(all.to_string(), "rad");
    assert_eq!(TablePermissions::ALL.to_string(), "raud");
    assert_eq!(AccountPermissions::ALL.to_string(), "rwdlacup");
    assert_eq!(format!("{:?}", Services::ALL), "Services(bqt)");
    assert!(all.contains(TablePermissions::ADD) && !all.contains(TablePermissions::UPDATE));
    assert!(!all.contains(TablePermissions::ALL) && TablePermissions::default().is_empty());
}

/// Signs with `text` in every part that accepts text. Returns the results by part.
fn refusals(account: &StorageAccount, text: &str) -> Vec<(&'static str, Result<SasToken>)> {
    let hour = Duration::from_secs(3600);
    let table = || Sas::table("orders").permissions(TablePermissions::QUERY).valid_for(hour);
    let queue = |name: &str| Sas::queue(name).permissions(QueuePermissions::READ).valid_for(hour);
    let blob = |sas: Sas<BlobPermissions>| sas.permissions(BlobPermissions::READ).valid_for(hour);
    let some = || Some(text.to_owned());
    let none = ContentHeaders::default;
    let mut all = vec![
        ("in the range", table().partitions(text..=text).sign(account)),
        ("in the range", table().partitions(..text).sign(account)),
        ("in the range", table().keys(Key::<DynamicEntity>::new("p", text)..).sign(account)),
        ("in the range", table().partition(Partition::<DynamicEntity>::new(text)).sign(account)),
        ("the id of a stored access policy", table().policy(text).sign(account)),
        ("the id of a stored access policy", queue("jobs").policy(text).sign(account)),
        (
            "the id of a stored access policy",
            blob(Sas::container("photos")).policy(text).sign(account),
        ),
        ("a table's name", {
            let sas = Sas::table(text).permissions(TablePermissions::QUERY);
            sas.valid_for(hour).sign(account)
        }),
        ("a queue's name", queue(text).sign(account)),
        ("the name of a container", blob(Sas::container(text)).sign(account)),
        ("the name of a container", blob(Sas::blob(text, "b")).sign(account)),
        ("`blob` of a shared", blob(Sas::blob("photos", text)).sign(account)),
    ];
    for (part, headers) in [
        ("`rscc` of a shared", ContentHeaders { cache_control: some(), ..none() }),
        ("`rscd` of a shared", ContentHeaders { content_disposition: some(), ..none() }),
        ("`rsce` of a shared", ContentHeaders { content_encoding: some(), ..none() }),
        ("`rscl` of a shared", ContentHeaders { content_language: some(), ..none() }),
        ("`rsct` of a shared", ContentHeaders { content_type: some(), ..none() }),
    ] {
        let sas = Sas::blob("photos", "b").answer_headers(headers);
        all.push((part, blob(sas).sign(account)));
    }
    let signer = rowkey_wire::auth::SigningKey::from_base64("YmFy").unwrap();
    let part = || text.to_owned();
    for (named, key) in [
        ("`skoid` of a shared", DelegationKey { oid: part(), ..DelegationKey::default() }),
        ("`sktid` of a shared", DelegationKey { tid: part(), ..DelegationKey::default() }),
        ("`skt` of a shared", DelegationKey { start: part(), ..DelegationKey::default() }),
        ("`ske` of a shared", DelegationKey { expiry: part(), ..DelegationKey::default() }),
        ("`sks` of a shared", DelegationKey { service: part(), ..DelegationKey::default() }),
        ("`skv` of a shared", DelegationKey { version: part(), ..DelegationKey::default() }),
    ] {
        let key = UserDelegationKey { key, signer: signer.clone(), service: Service::Blob };
        all.push((named, blob(Sas::blob("photos", "b")).sign_with(account, &key)));
    }
    let other = StorageAccount::builder()
        .credential(Credential::shared_key(text, "YmFy").unwrap())
        .endpoint(Service::Table, "http://127.0.0.1:10002/contoso")
        .unwrap()
        .build()
        .unwrap();
    all.push(("`account` of a shared", table().sign(&other)));
    let services = Sas::account(Services::TABLE, ResourceTypes::ALL);
    let services = services.permissions(AccountPermissions::READ).valid_for(hour);
    all.push(("`account` of a shared", services.sign(&other)));
    all
}

/// The signed text consists of lines, so a line break in one part would add other parts.
#[test]
fn a_sas_with_a_control_character_is_not_signed() {
    let account = contoso();
    let controls = ('\0'..' ').chain('\u{7F}'..'\u{A0}');
    for character in controls {
        let text = format!("abc{character}victim");
        for (named, signed) in refusals(&account, &text) {
            let error = signed.expect_err(named);
            assert_eq!(error.kind(), ErrorKind::Invalid);
            let shown = error.to_string();
            assert!(shown.contains(named), "{character:?} {named}: {shown}");
            assert!(!shown.contains("victim"), "{shown}");
        }
    }
    // Keys and ids may contain these, but they are refused because some readers treat them as line
    // breaks.
    for character in ['\u{2028}', '\u{2029}'] {
        for (named, signed) in refusals(&account, &format!("abc{character}victim")) {
            assert!(signed.is_err(), "{character:?} {named}");
        }
    }
}

/// The signatures are those of the official libraries, see the tests of the wire.
#[test]
fn a_user_delegation_key_signs_for_its_own_service_alone() {
    let key = |service, letter: &str| UserDelegationKey {
        key: DelegationKey {
            oid: "11111111-2222-3333-4444-555555555555".into(),
            tid: "66666666-7777-8888-9999-000000000000".into(),
            start: "2026-01-01T00:00:00Z".into(),
            expiry: "2026-01-02T00:00:00Z".into(),
            service: letter.into(),
            version: "2025-07-05".into(),
            ..DelegationKey::default()
        },
        signer: rowkey_wire::auth::SigningKey::from_base64("c2VjcmV0").unwrap(),
        service,
    };
    let hour = Duration::from_secs(3600);
    let account = contoso();
    let tables = Sas::table("orders").permissions(TablePermissions::QUERY).valid_for(hour);
    let queues = Sas::queue("jobs").permissions(QueuePermissions::READ).valid_for(hour);
    let blobs = Sas::container("photos").permissions(BlobPermissions::READ).valid_for(hour);
    for (service, letter, version) in [
        (Service::Blob, "b", "2026-04-06"),
        (Service::Queue, "q", "2026-02-06"),
        (Service::Table, "t", "2025-07-05"),
    ] {
        let key = key(service, letter);
        for (own, signed) in [
            (Service::Table, tables.sign_with(&account, &key)),
            (Service::Queue, queues.sign_with(&account, &key)),
            (Service::Blob, blobs.sign_with(&account, &key)),
        ] {
            if own == service {
                let token = signed.unwrap();
                let query = token.query();
                assert!(query.contains(&format!("sv={version}&")), "{query}");
                assert!(query.contains(&format!("&sks={letter}&skv=2025-07-05&")), "{query}");
            } else {
                let error = signed.unwrap_err().to_string();
                assert!(error.starts_with("the user delegation key is of another"), "{error}");
            }
        }
        assert!(tables.clone().policy("p").sign_with(&account, &key).is_err());
        let all = Sas::account(Services::ALL, ResourceTypes::ALL);
        let all = all.permissions(AccountPermissions::READ).valid_for(hour);
        let error = all.sign_with(&account, &key).unwrap_err().to_string();
        assert!(error.starts_with("a user delegation key signs for no account"), "{error}");
    }
    // The range of keys is signed, too.
    let range = tables.partitions("ada"..="ada").sign_with(&account, &key(Service::Table, "t"));
    let range = range.unwrap();
    let sas = rowkey_wire::auth::Sas::from_query(range.query()).unwrap();
    let text = sas.string_to_sign("contoso", rowkey_wire::auth::Resource::Table("orders"));
    assert!(text.contains("/table/contoso/orders\n11111111-"), "{text}");
    assert!(text.ends_with("\n2025-07-05\n\n\n\nhttps\n2025-07-05\nada\n\nada\n"), "{text}");
}

#[test]
fn a_sas_for_an_invalid_resource_name_is_not_signed() {
    let hour = Duration::from_secs(3600);
    let queue = |name| Sas::queue(name).permissions(QueuePermissions::READ).valid_for(hour);
    for name in ["", "../x", "jobs/messages", "Jobs", "jo", "a--b"] {
        let error = queue(name).sign(&contoso()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name}: {error}");
    }
    let read = |sas: Sas<BlobPermissions>| sas.permissions(BlobPermissions::READ).valid_for(hour);
    for (container, blob) in [
        ("", None),
        ("../x", None),
        ("public/..", None),
        ("Public", None),
        ("", Some("b")),
        ("public", Some("")),
        ("public", Some("../secret/b")),
        ("public", Some("a/../../secret/b")),
        ("public", Some(".")),
        ("public", Some("a/..")),
    ] {
        let sas = match blob {
            Some(blob) => Sas::blob(container, blob),
            None => Sas::container(container),
        };
        let error = read(sas).sign(&contoso()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{container} {blob:?}: {error}");
    }
    assert!(read(Sas::blob("$root", "a..b/...")).sign(&contoso()).is_ok());
    for policy in ["", &"p".repeat(65)] {
        assert!(queue("jobs").policy(policy).sign(&contoso()).is_err(), "{policy}");
    }
    for partition in ["a/b", "a\\b", "a#b", "a?b", &"x".repeat(513)] {
        let sas = Sas::table("orders").permissions(TablePermissions::QUERY).valid_for(hour);
        assert!(sas.partitions(partition..).sign(&contoso()).is_err(), "{partition}");
    }
}

#[test]
fn a_sas_for_an_allowed_http_host_permits_http() {
    let account = StorageAccount::builder()
        .credential(Credential::shared_key("acct", "YmFy").unwrap())
        .endpoint(Service::Table, "http://rowkey:10002/acct")
        .unwrap();
    let sas = Sas::table("orders")
        .permissions(TablePermissions::QUERY)
        .valid_for(Duration::from_secs(60));
    let sign = |builder: StorageAccountBuilder| sas.sign(&builder.build().unwrap()).unwrap();
    assert!(sign(account.clone()).query().contains("spr=https"));
    assert!(!sign(account.allow_http_to("rowkey")).query().contains("spr=https"));
}
