//! Advices about encrypted fields.

use futures_util::FutureExt as _;
use rowkey::encryption::{AesKeyWrap, KeyRing, MacKey};
use rowkey::store::{Store, StoreBuilder};
use rowkey::{DynamicEntity, Entity, Filter, Key, Operator, Projection, StorageAccount};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;

use super::{Case, case, refused, start};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{ward}", row = "patient_{id:4}")]
#[entity(index(name = by_bed, row = "bed_{bed}"))]
struct Patient {
    ward: String,
    id: u32,
    bed: u32,
    #[entity(encrypt)]
    name: String,
}

/// The same type without encryption.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{ward}", row = "patient_{id:4}")]
#[entity(index(name = by_bed, row = "bed_{bed}"))]
struct Plain {
    ward: String,
    id: u32,
    bed: u32,
    name: String,
}

/// The type before it had a name.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{ward}", row = "patient_{id:4}")]
#[entity(index(name = by_bed, row = "bed_{bed}"))]
struct Without {
    ward: String,
    id: u32,
    bed: u32,
}

/// Single properties.
#[derive(Debug, Projection)]
struct Bed {
    bed: u32,
}

fn ring() -> KeyRing {
    KeyRing::new("patients", AesKeyWrap::new("2026", [26; 32]), MacKey::new("records", [1; 32]))
}

fn patient(id: u32) -> Patient {
    Patient { ward: "north".into(), id, bed: id, name: "Ada".into() }
}

fn plain(account: &StorageAccount) -> StoreBuilder<Plain> {
    Store::builder(account.table("patients"))
}

fn sealed(account: &StorageAccount) -> StoreBuilder<Patient> {
    Store::builder(account.table("patients"))
}

async fn patients() -> TestResult<(Server, StorageAccount, Store<Patient>)> {
    let (server, account) = start().await?;
    let patients = sealed(&account).keys(ring()).build()?;
    patients.create_if_missing().await?;
    patients.insert(&patient(1)).await?;
    Ok((server, account, patients))
}

pub(super) const CASES: &[Case] = &[
    case("give a ring of them to `StoreBuilder::keys`", || {
        async {
            let (_server, account) = start().await?;
            let error = refused(sealed(&account).build())?;
            sealed(&account).keys(ring()).build()?;
            Ok(error)
        }
        .boxed()
    }),
    case("mark encrypted fields with #[entity(encrypt)]", || {
        async {
            let (_server, account) = start().await?;
            let error = refused(plain(&account).keys(ring()).build())?;
            sealed(&account).keys(ring()).build()?;
            Ok(error)
        }
        .boxed()
    }),
    case("remove one of both", || {
        async {
            let (_server, account) = start().await?;
            let stopped = || ring().stop_encrypting(["name"]);
            let error = refused(sealed(&account).keys(stopped()).build())?;
            sealed(&account).keys(ring()).build()?;
            plain(&account).keys(stopped()).build()?;
            Ok(error)
        }
        .boxed()
    }),
    case(
        "mark the fields that the other programs encrypt with #[entity(encrypt)], and give their keys to `StoreBuilder::keys`",
        || {
            async {
                let (_server, account) = start().await?;
                let signing = || ring().sign_plaintext();
                let patients = sealed(&account).keys(signing()).build()?;
                patients.create_if_missing().await?;
                patients.insert(&patient(1)).await?;
                let without = || Store::<Without>::builder(account.table("patients"));
                let key = Without::key("north", 1);
                let update = without().build()?.update(key, |patient| patient.bed = 2).await;
                let error = refused(update)?;
                let keys_alone = refused(without().keys(signing()).build())?.to_string();
                assert!(keys_alone.contains("mark encrypted fields"), "{keys_alone}");
                let marked = sealed(&account).keys(signing()).build()?;
                marked.update(Patient::key("north", 1), |patient| patient.bed = 2).await?;
                let read = patients.get(Patient::key("north", 1)).await?.unwrap();
                assert_eq!(read.entity, Patient { bed: 2, ..patient(1) });
                Ok(error)
            }
            .boxed()
        },
    ),
    case("`Store::verify` reports such rows, `Store::repair` repairs them", || {
        async {
            let (_server, _, patients) = patients().await?;
            let copy = Key::<DynamicEntity>::new("north", "bed_0000000001");
            let mut row = patients.table().get(copy).await?.unwrap().entity;
            row.row_key = "bed_0000000005".into();
            patients.table().insert(&row).await?;
            let find = async || patients.find(Patient::by_bed("north", 5_u32)).await;
            let error = refused(find().await)?;
            assert_eq!(patients.verify().run().await?.part("by_bed").orphaned, 1);
            assert!(patients.repair().run().await?.is_clean());
            assert!(find().await?.is_none());
            Ok(error)
        }
        .boxed()
    }),
    case("read entities instead", || {
        async {
            let (_server, _, patients) = patients().await?;
            let found = patients.find_as::<Bed, _>(Patient::by_bed("north", 1_u32)).await;
            let error = refused(found.map(|bed| bed.map(|bed| bed.bed)))?;
            let found = patients.find(Patient::by_bed("north", 1_u32)).await?;
            assert_eq!(found.unwrap().entity, patient(1));
            Ok(error)
        }
        .boxed()
    }),
    case("read more entities and compare them in the program", || {
        async {
            let (_server, _, patients) = patients().await?;
            let all = || patients.query(Patient::partition("north"));
            let named = Filter::dynamic("name", Operator::Equal, "Ada");
            let error = refused(all().filter(named).page(1, None).await.map(drop))?;
            let found = all().all().await?;
            assert_eq!(found.iter().filter(|found| found.entity.name == "Ada").count(), 1);
            Ok(error)
        }
        .boxed()
    }),
    case("declare the field with the same `encrypt` and `blob` in all programs", || {
        async {
            let (_server, account, patients) = patients().await?;
            let without = Store::<Without>::builder(account.table("patients")).build()?;
            let patch = without.patch(Without::key("north", 1)).set(Plain::NAME, "Eve");
            let error = refused(patch.send().await)?;
            patients.patch(Patient::key("north", 1)).set(Patient::NAME, "Eve").send().await?;
            let read = patients.get(Patient::key("north", 1)).await?.unwrap();
            assert_eq!(read.entity.name, "Eve");
            Ok(error)
        }
        .boxed()
    }),
];
