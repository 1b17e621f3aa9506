//! Item 9: jobs that read whole tables follow different rules.

use rowkey::{ClientOptions, Entity, ErrorKind, ScanPolicy, StorageAccount};
use rowkey_encryption::{AesKeyWrap, Encrypted, KeyRing};
use rowkey_eventual::remote_index_entity::RemoteIndexEntity;
use rowkey_eventual::unique::Unique;
use rowkey_eventual::view::View;

use crate::{Employee, by_city, source, start};

/// How many employees live in a town.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "summary", rename_all = "PascalCase")]
struct Town {
    name: String,
    people: i64,
}

/// What each job that reads a whole table says.
async fn jobs(account: &StorageAccount) -> Vec<(&'static str, rowkey::Result<()>)> {
    let table = |name: &str| account.table(name);
    let name = |employee: &Employee| Some(employee.last_name.clone());
    let view = View::new("towns", table("staff"), table("others"), |e: &Employee| {
        Some(Town::key(&e.city))
    })
    .count(Town::PEOPLE);
    let lists = RemoteIndexEntity::new("name", table("staff"), table("others"), name);
    let unique = Unique::new(table("staff"), table("others"), "name", name);
    let ring = KeyRing::new(AesKeyWrap::new("2026", [26; 32]));
    let encrypted = Encrypted::<Employee>::new(table("others"), ring);
    vec![
        ("index elsewhere", by_city(account).verify().repair().run().await.map(drop)),
        ("view", view.repair().run().await.map(drop)),
        ("lists elsewhere", lists.repair().run().await.map(drop)),
        ("unique value", unique.repair().await.map(drop)),
        ("drain", source(account).drain(std::time::Duration::ZERO).run().await.map(drop)),
        ("re-encryption", encrypted.reencryption().run().await.map(drop)),
    ]
}

/// Item 9: `ScanPolicy::Deny` stops one of the jobs that read a whole table, and not the others.
#[tokio::test]
#[should_panic(expected = "`ScanPolicy::Deny` stops re-encryption alone")]
async fn a_scan_policy_stops_all_jobs_or_none() {
    let (_server, account) = start().await;
    account.table("others").create().await.unwrap();
    let scan_policy = ScanPolicy::Deny;
    let denying = account.with_options(ClientOptions { scan_policy, ..account.options().clone() });
    let results = Box::pin(jobs(&denying)).await;
    let stopped = results.iter().filter(|(_, result)| {
        result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Invalid)
    });
    let stopped: Vec<_> = stopped.map(|(job, _)| *job).collect();
    let done = results.iter().filter(|(_, result)| result.is_ok()).count();
    assert_eq!(stopped.len() + done, results.len(), "{results:?}");
    assert!(
        stopped.is_empty() || done == 0,
        "`ScanPolicy::Deny` stops {} alone",
        stopped.join(", ")
    );
}
