//! Two versions of a program write one table: the new one declares an index more.

use std::time::Duration;

use rowkey::store::{Change, Contribution, Declaration, Stage, Store};
use rowkey::{Entity, ErrorKind, ManualClock, StorageAccount};
use rowkey_emulator::{Operation, Server};
use rowkey_tests::{TestResult, sweep};

mod old {
    use rowkey::Entity;

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{team}", row = "task_{id:4}")]
    #[entity(index(name = by_owner, row = "owner_{owner}", many))]
    pub(super) struct Task {
        pub(super) team: String,
        pub(super) id: u32,
        pub(super) owner: String,
        pub(super) tag: String,
    }
}

mod new {
    use rowkey::Entity;

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{team}", row = "task_{id:4}")]
    #[entity(index(name = by_owner, row = "owner_{owner}", many))]
    #[entity(index(name = by_tag, row = "tag_{tag}", many))]
    pub(super) struct Task {
        pub(super) team: String,
        pub(super) id: u32,
        pub(super) owner: String,
        pub(super) tag: String,
    }

    /// The same template over another field.
    pub(super) mod swapped {
        use rowkey::Entity;

        #[derive(Clone, Debug, PartialEq, Entity)]
        #[entity(store, partition = "{team}", row = "task_{id:4}")]
        #[entity(index(name = by_owner, row = "owner_{tag}", many))]
        pub(in super::super) struct Task {
            pub(in super::super) team: String,
            pub(in super::super) id: u32,
            pub(in super::super) owner: String,
            pub(in super::super) tag: String,
        }
    }

    /// The same name over something else.
    pub(super) mod other {
        use rowkey::Entity;

        #[derive(Clone, Debug, PartialEq, Entity)]
        #[entity(store, partition = "{team}", row = "task_{id:4}")]
        #[entity(index(name = by_owner, row = "person_{tag}", many))]
        pub(in super::super) struct Task {
            pub(in super::super) team: String,
            pub(in super::super) id: u32,
            pub(in super::super) tag: String,
        }
    }
}

/// A server and a client whose clocks are moved together.
struct Setup {
    server: Server,
    clock: ManualClock,
    account: StorageAccount,
}

impl Setup {
    async fn start() -> TestResult<Self> {
        let server = Server::builder().manual_clock().start().await?;
        let (account, clock) = sweep::waiting(&server)?;
        account.table("tasks").create().await?;
        Ok(Self { server, clock, account })
    }

    fn pass(&self, seconds: u64) {
        self.server.clock().advance(Duration::from_secs(seconds));
        self.clock.advance(Duration::from_secs(seconds));
    }

    async fn open<E>(&self) -> rowkey::Result<Store<E>>
    where
        E: Entity + Clone + Send + Sync + 'static,
    {
        Store::<E>::builder(self.account.table("tasks")).build()?.open().await
    }
}

fn old_task(id: u32) -> old::Task {
    old::Task { team: "core".into(), id, owner: "ada".into(), tag: "a".into() }
}

fn new_task(id: u32) -> new::Task {
    new::Task { team: "core".into(), id, owner: "ada".into(), tag: "a".into() }
}

#[tokio::test]
async fn an_index_added_by_a_new_program_is_complete_when_readable() -> TestResult {
    let setup = Setup::start().await?;
    let old = setup.open::<old::Task>().await?;
    for id in 1..4 {
        old.insert(&old_task(id)).await?;
    }
    // The first program on an empty table reads by all that it declares.
    assert_eq!(old.query(old::Task::by_owner("core", "ada")).all().await?.len(), 3);

    // Announced: both write, and neither reads by it.
    let new = setup.open::<new::Task>().await?;
    let by_tag = || new.query(new::Task::by_tag("core", "a"));
    let refused = by_tag().all().await.unwrap_err();
    assert_eq!((refused.kind(), refused.details().index), (ErrorKind::Invalid, Some("by_tag")));
    assert!(refused.to_string().contains("announced"), "{refused}");
    assert_eq!(new.query(new::Task::by_owner("core", "ada")).all().await?.len(), 3);
    new.insert(&new_task(4)).await?;
    new.insert(&new_task(5)).await?;
    old.insert(&old_task(6)).await?;
    old.update(old::Task::key("core", 4), |task| task.tag = "b".into()).await?;
    // The old program leaves the copy of the new one.
    assert!(old.delete(old::Task::key("core", 5)).await?);

    // Required: the old program writes for as long as it holds the manifest.
    assert_eq!(new.advance("by_tag").await?, Stage::Required);
    old.insert(&old_task(7)).await?;
    setup.pass(61);
    let refused = old.insert(&old_task(8)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("`by_tag` is required"), "{refused}");
    assert!(setup.open::<old::Task>().await.is_err());
    assert!(old.delete(old::Task::key("core", 1)).await.is_err());
    assert!(old.transaction().insert(&old_task(8)).submit().await.is_err());
    new.insert(&new_task(9)).await?;
    assert_eq!(by_tag().all().await.unwrap_err().details().index, Some("by_tag"));
    let early = new.advance("by_tag").await.unwrap_err();
    assert_eq!(early.kind(), ErrorKind::Unavailable);

    // Readable: complete, and without orphans.
    setup.pass(660);
    assert_eq!(new.advance("by_tag").await?, Stage::Readable);
    let found = by_tag().all().await?;
    let found: Vec<_> = found.into_iter().map(|task| task.entity.id).collect();
    assert_eq!(found, [1, 2, 3, 6, 7, 9]);
    assert_eq!(new.count(new::Task::by_tag("core", "a")).await?, 6);
    assert_eq!(new.query(new::Task::by_tag("core", "b")).all().await?.len(), 1);
    assert!(new.verify().run().await?.is_clean());

    // Retiring, and gone: the old program may write again.
    assert_eq!(new.retire("by_tag").await?, Stage::Retiring);
    assert_eq!(by_tag().all().await.unwrap_err().details().index, Some("by_tag"));
    setup.pass(61);
    old.insert(&old_task(10)).await?;
    assert!(new.advance("by_tag").await.is_err(), "it is too early");
    setup.pass(660);
    assert_eq!(old.advance("by_tag").await?, Stage::Gone);
    Ok(())
}

#[tokio::test]
async fn a_declaration_with_another_template_is_rejected() -> TestResult {
    let setup = Setup::start().await?;
    setup.open::<old::Task>().await?;
    let refused = setup.open::<new::other::Task>().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("`by_owner` is declared with another template"));
    let refused = setup.open::<new::swapped::Task>().await.unwrap_err();
    assert!(refused.to_string().contains("`by_owner` is declared with another template"));
    Ok(())
}

/// Declarations of each kind, and the rows that remain after their removal.
mod many {
    use rowkey::Entity;

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{team}", row = "task_{id:4}")]
    #[entity(index(name = by_owner, row = "owner_{owner}", many))]
    #[entity(index(name = by_tag, row = "tag_{tag}", many))]
    #[entity(index(name = far, partition = "far_{tag}", row = "{id}"))]
    #[entity(unique(name = number, value = "{id}"))]
    #[entity(list(name = near, value = "{tag}"))]
    #[entity(list(name = shelf, partition = "shelves", value = "{tag}"))]
    #[entity(list(name = boxes, value = "{tag}", blob))]
    pub(super) struct Task {
        pub(super) team: String,
        pub(super) id: u32,
        pub(super) owner: String,
        pub(super) tag: String,
    }
}

#[tokio::test]
async fn rows_of_removed_declarations_are_deleted() -> TestResult {
    let setup = Setup::start().await?;
    let Setup { server, account, .. } = &setup;
    account.queue("tasks").create().await?;
    account.container("tasks").create().await?;
    let many = Store::<many::Task>::builder(account.table("tasks"))
        .queue(account.queue("tasks"))
        .blobs(account.container("tasks"))
        .build()?
        .open()
        .await?;
    for id in 1..=20 {
        let old::Task { team, id, owner, tag } = old_task(id);
        many.insert(&many::Task { team, id, owner, tag }).await?;
    }
    let gone = ["by_tag", "far", "number", "near", "shelf", "boxes"];
    let old = Store::<old::Task>::builder(account.table("tasks"))
        .blobs(account.container("tasks"))
        .build()?;
    for name in gone {
        assert_eq!(many.retire(name).await?, Stage::Retiring);
        assert_eq!(many.retire(name).await?, Stage::Retiring);
    }
    let old = old.open().await?;
    assert_eq!(old.clean("by_tag").await.unwrap_err().kind(), ErrorKind::Invalid);
    setup.pass(721);
    for name in gone {
        assert_eq!(old.advance(name).await?, Stage::Gone);
    }
    setup.pass(61);
    // A name that is gone stays so.
    let declared = many.delete(many::Task::key("core", 1)).await.unwrap_err();
    assert!(declared.to_string().contains("was retired"), "{declared}");
    assert!(setup.open::<new::Task>().await.is_err());
    assert_eq!(many.clean("by_tag").await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(old.clean("by_tag").await.unwrap_err().kind(), ErrorKind::Unavailable);
    setup.pass(660);
    for (name, rows) in gone.into_iter().zip([20, 20, 20, 1, 1, 1]) {
        let mut told = 0;
        let job = old.clean(name).await?.progress(|progress| {
            told += 1;
            assert!(progress.checkpoint.to_string().contains(name));
        });
        let report = job.run().await?;
        assert_eq!(
            (report.part(name).orphaned, report.part(name).repaired),
            (rows, rows),
            "{name}"
        );
        assert!(told > 0);
        assert_eq!(old.clean(name).await?.run().await?.part(name).orphaned, 0);
    }
    let snapshot = server.snapshot();
    let rows = snapshot.table("tasks").unwrap();
    // An entity and the copy in the index that stays, and the manifest.
    assert_eq!(rows.len(), 2 * 20 + 1);
    assert_eq!(snapshot.blobs("tasks").count(), 0);
    assert!(old.verify().run().await?.is_clean());
    assert_eq!(old.query(old::Task::by_owner("core", "ada")).all().await?.len(), 20);
    Ok(())
}

#[tokio::test]
async fn a_store_writes_a_missing_manifest() -> TestResult {
    let setup = Setup::start().await?;
    let built = Store::<old::Task>::builder(setup.account.table("tasks")).build()?;
    built.insert(&old_task(1)).await?;
    let by_owner = || old::Task::by_owner("core", "ada");
    assert_eq!(built.query(by_owner()).all().await?.len(), 1, "what is only built reads");
    let opened = setup.open::<old::Task>().await?;
    assert_eq!(opened.query(by_owner()).all().await.unwrap_err().details().index, Some("by_owner"));
    opened.advance("by_owner").await?;
    setup.pass(721);
    assert_eq!(opened.advance("by_owner").await?, Stage::Readable);
    assert_eq!(opened.query(by_owner()).all().await?.len(), 1);
    Ok(())
}

/// A declaration that a program gives its store: it has a target for each change.
struct Follows;

impl<E> Declaration<E> for Follows {
    fn name(&self) -> &'static str {
        "mirror"
    }

    fn operations(&self) -> usize {
        0
    }

    fn needs_queue(&self) -> bool {
        true
    }

    fn contribute(&self, _: Change<'_, E>, plan: &mut Contribution<'_>) -> rowkey::Result<()> {
        plan.target("anything");
        Ok(())
    }
}

/// A declaration of a program is no part of the type: programs without it would leave its rows behind.
#[tokio::test]
async fn a_writer_without_a_declaration_of_another_program_is_rejected() -> TestResult {
    let setup = Setup::start().await?;
    let Setup { server, account, .. } = &setup;
    account.queue("tasks").create().await?;
    let without = setup.open::<old::Task>().await?;
    without.insert(&old_task(1)).await?;
    let with = Store::<old::Task>::builder(account.table("tasks"))
        .queue(account.queue("tasks"))
        .with(Follows)
        .build()?
        .open()
        .await?;
    without.insert(&old_task(2)).await?;
    assert_eq!(with.advance("mirror").await?, Stage::Required);
    setup.pass(61);
    let rows = || server.snapshot().table("tasks").unwrap().len();
    let before = (rows(), server.journal().count(Operation::PutMessage));
    let key = || old::Task::key("core", 1);
    let refused = [
        without.insert(&old_task(3)).await.map(drop),
        without.upsert(&old_task(1)).await.map(drop),
        without.update(key(), |task| task.tag = "b".into()).await.map(drop),
        without.delete(key()).await.map(drop),
        without.transaction().insert(&old_task(3)).submit().await.map(drop),
    ];
    for refused in refused {
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(refused.to_string().contains("`mirror` is required"), "{refused}");
    }
    let loaded = without.load(futures_util::stream::iter([old_task(3)])).run().await?;
    assert_eq!((loaded.total.failed, loaded.total.right), (1, 0));
    assert!(loaded.problems[0].error.contains("`mirror` is required"));
    let after = (rows(), server.journal().count(Operation::PutMessage));
    assert_eq!(after, before, "a writer that is refused leaves nothing");
    assert!(setup.open::<old::Task>().await.is_err());
    Ok(())
}
