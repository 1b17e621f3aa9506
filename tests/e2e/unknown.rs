//! Properties that a type does not know: an old program changes entities of a newer one.

use rowkey::edm::{DateTime, Guid, Value};
use rowkey::{DynamicEntity, Entity, Key};
use rowkey_emulator::{Fault, Injected, Operation, Server};
use rowkey_tests::{Arm, Fixture, TestResult, arm, sweep};

/// The type of the old program.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}")]
struct Old {
    department: String,
    id: u32,
    salary: f64,
    title: Option<String>,
}

fn key() -> Key<Old> {
    Old::key("sales", 1)
}

/// A row of a newer program.
fn newer() -> DynamicEntity {
    let mut entity = DynamicEntity::new("sales", "id_000001");
    entity.set("salary", 1.5);
    entity.set("title", "Boss");
    // Azurite answers a whole Double as an integer.
    entity.set("Double", if arm() == Arm::Azurite { 3.5 } else { 3.0 });
    entity.set("Count", 7_i64);
    entity.set("Small", 7_i32);
    entity.set("Seen", "2026-11-20T12:34:56.7654321Z".parse::<DateTime>().unwrap());
    entity.set("Photo", vec![0_u8, 255]);
    entity.set("Device", "c9da6455-213d-42c9-9a79-3e9149a57833".parse::<Guid>().unwrap());
    entity.set("Note", "é\n\"");
    entity
}

#[tokio::test]
async fn an_update_keeps_unknown_properties() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    table.insert(&newer()).await?;
    table.update(key(), |old| old.salary = 2.5).await?;
    let mut expected = newer();
    expected.set("salary", 2.5);
    let stored = table.get(newer().key()).await?.unwrap();
    assert_eq!(stored.entity, expected);
    Ok(())
}

#[tokio::test]
async fn an_update_that_removes_a_property_keeps_the_unknown_ones_with_their_types() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    table.insert(&newer()).await?;
    let updated = table.update(key(), |old| old.title = None).await?;
    let mut expected = newer();
    expected.remove("title");
    let stored = table.get(newer().key()).await?.unwrap();
    assert_eq!(stored.entity, expected);
    assert_eq!((updated.entity.title, updated.etag), (None, stored.etag));
    // And it comes back when it is set again.
    table.update(key(), |old| old.title = Some("Chief".into())).await?;
    expected.set("title", "Chief");
    assert_eq!(table.get(newer().key()).await?.unwrap().entity, expected);
    Ok(())
}

#[tokio::test]
async fn an_update_with_a_lost_response_keeps_unknown_properties() -> TestResult {
    for title in [Some("Chief".to_owned()), None] {
        let server = Server::builder().manual_clock().start().await?;
        let account = sweep::account(&server)?;
        let table = account.table("staff");
        table.create().await?;
        table.insert(&newer()).await?;
        let faults = [Operation::MergeEntity, Operation::UpdateEntity]
            .map(|operation| server.inject(Fault::on(operation).times(1).close_after_commit()));
        let updated = table.update(key(), |old| old.title.clone_from(&title)).await?;
        assert_eq!(faults.iter().map(Injected::hits).sum::<u64>(), 1);
        assert_eq!(updated.entity.title, title);
        let stored = table.get(newer().key()).await?.unwrap().entity;
        assert_eq!(stored.get("Count"), Some(&Value::Int64(7)));
        assert_eq!(stored.get("title").is_some(), title.is_some());
    }
    Ok(())
}

/// Two versions in one set.
mod versions {
    use rowkey::{Entity, EntitySet};

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(partition = "{department}", row = "id_{id:6}")]
    pub(super) struct V1 {
        pub(super) department: String,
        pub(super) id: u32,
        pub(super) salary: f64,
    }

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(partition = "{department}", row = "id_{id:6}", version = 2)]
    pub(super) struct V2 {
        pub(super) department: String,
        pub(super) id: u32,
        pub(super) cents: i64,
    }

    impl From<V1> for V2 {
        #[expect(clippy::cast_possible_truncation, reason = "the salaries here are small")]
        fn from(V1 { department, id, salary }: V1) -> Self {
            Self { department, id, cents: (salary * 100.0) as i64 }
        }
    }

    #[derive(Clone, Debug, PartialEq, EntitySet)]
    pub(super) enum Staff {
        #[entity_set(older(V1))]
        Employee(V2),
    }
}

#[tokio::test]
async fn a_conversion_drops_only_properties_of_the_older_version() -> TestResult {
    use versions::Staff;
    let table = Fixture::new().await?.table_with_server().await?;
    table.insert(&newer()).await?;
    table.update(Key::<Staff>::new("sales", "id_000001"), |_| {}).await?;
    let mut expected = newer();
    expected.remove("salary");
    expected.set("EntityVersion", 2_i32);
    expected.set("cents", 150_i64);
    assert_eq!(table.get(newer().key()).await?.unwrap().entity, expected);
    Ok(())
}
