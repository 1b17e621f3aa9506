//! Advices about declarations that come and go: the manifest, and versions of a type.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join;
use rowkey::store::{Stage, Store};
use rowkey::{DynamicEntity, Entity, ErrorKind, ManualClock, Match, ScanPolicy, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server};
use rowkey_tests::{TestResult, sweep};

use super::{Case, case, refused, start};

mod old {
    use rowkey::Entity;

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{team}", row = "task_{id:4}")]
    pub(super) struct Task {
        pub(super) team: String,
        pub(super) id: u32,
        pub(super) tag: String,
    }
}

mod new {
    use rowkey::Entity;

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{team}", row = "task_{id:4}")]
    #[entity(index(name = by_tag, row = "tag_{tag}", many))]
    pub(super) struct Task {
        pub(super) team: String,
        pub(super) id: u32,
        pub(super) tag: String,
    }
}

/// `by_tag` is something else.
mod other {
    use rowkey::Entity;

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{team}", row = "task_{id:4}")]
    #[entity(index(name = by_tag, row = "label_{tag}", many))]
    pub(super) struct Task {
        pub(super) team: String,
        pub(super) id: u32,
        pub(super) tag: String,
    }
}

/// `other` with another name.
mod renamed {
    use rowkey::Entity;

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{team}", row = "task_{id:4}")]
    #[entity(index(name = by_tag, row = "tag_{tag}", many))]
    #[entity(index(name = by_label, row = "label_{tag}", many))]
    pub(super) struct Task {
        pub(super) team: String,
        pub(super) id: u32,
        pub(super) tag: String,
    }
}

/// The version before `NoteV2` and `Note`.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{team}", row = "note_{id:4}")]
#[entity(list(name = by_tag, partition = "tags", value = "{tag}"))]
struct NoteV1 {
    team: String,
    id: u32,
    tag: String,
}

/// Keeps the list.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, version = 2, from = NoteV1, partition = "{team}", row = "note_{id:4}")]
#[entity(list(name = by_tag, partition = "tags", value = "{tag}"))]
struct Listed {
    team: String,
    id: u32,
    tag: String,
}

/// Has no list any more.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, version = 2, from = NoteV1, partition = "{team}", row = "note_{id:4}")]
struct Note {
    team: String,
    id: u32,
    tag: String,
}

impl From<NoteV1> for Listed {
    fn from(NoteV1 { team, id, tag }: NoteV1) -> Self {
        Self { team, id, tag }
    }
}

impl From<NoteV1> for Note {
    fn from(NoteV1 { team, id, tag }: NoteV1) -> Self {
        Self { team, id, tag }
    }
}

/// A server and a client whose clocks are moved together.
struct Setup {
    server: Server,
    clock: ManualClock,
    account: StorageAccount,
}

impl Setup {
    /// A table that the older program has opened and written to.
    async fn start() -> TestResult<Self> {
        let server = Server::builder().manual_clock().start().await?;
        let (account, clock) = sweep::waiting(&server)?;
        account.table("tasks").create().await?;
        let setup = Self { server, clock, account };
        let old = setup.open::<old::Task>().await?;
        old.insert(&old::Task { team: "core".into(), id: 1, tag: "a".into() }).await?;
        Ok(setup)
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

    /// The index of the newer program in this stage.
    async fn at(&self, stage: Stage) -> TestResult<Store<new::Task>> {
        let new = self.open::<new::Task>().await?;
        if stage != Stage::Announced {
            assert_eq!(new.advance("by_tag").await?, Stage::Required);
        }
        if stage == Stage::Readable {
            self.pass(721);
            assert_eq!(new.advance("by_tag").await?, Stage::Readable);
        }
        Ok(new)
    }

    /// Takes the index out of use; returns a store of the older program.
    async fn retired(&self, new: &Store<new::Task>) -> TestResult<Store<old::Task>> {
        new.retire("by_tag").await?;
        self.pass(721);
        let old = self.open::<old::Task>().await?;
        assert_eq!(old.advance("by_tag").await?, Stage::Gone);
        Ok(old)
    }
}

fn task(id: u32) -> new::Task {
    new::Task { team: "core".into(), id, tag: "a".into() }
}

pub(super) const CASES: &[Case] = &[
    case("take its next step with `Store::advance`", || {
        async {
            let setup = Setup::start().await?;
            let new = setup.at(Stage::Announced).await?;
            let all = async || new.query(new::Task::by_tag("core", "a")).all().await;
            let error = refused(all().await)?;
            new.advance("by_tag").await?;
            setup.pass(721);
            new.advance("by_tag").await?;
            assert_eq!(all().await?.len(), 1);
            Ok(error)
        }
        .boxed()
    }),
    case("try again then", || {
        async {
            let setup = Setup::start().await?;
            let new = setup.at(Stage::Required).await?;
            let error = refused(new.advance("by_tag").await)?;
            let said = error.to_string();
            let left = said.split(": ").last().and_then(|left| left.split(' ').next()).unwrap();
            setup.pass(left.parse()?);
            assert_eq!(new.advance("by_tag").await?, Stage::Readable);
            Ok(error)
        }
        .boxed()
    }),
    case("run the step from one that does: it builds what is missing", || {
        async {
            let setup = Setup::start().await?;
            let built = Store::<old::Task>::builder(setup.account.table("tasks")).build()?;
            let old = built.open().await?;
            let new = setup.at(Stage::Required).await?;
            setup.pass(721);
            let error = refused(old.advance("by_tag").await)?;
            assert_eq!(new.advance("by_tag").await?, Stage::Readable);
            assert_eq!(new.query(new::Task::by_tag("core", "a")).all().await?.len(), 1);
            Ok(error)
        }
        .boxed()
    }),
    case("see `Store::verify`, and try again", || {
        async {
            let setup = Setup::start().await?;
            let new = setup.at(Stage::Required).await?;
            let broken = DynamicEntity::new("core", "task_0007");
            new.table().insert(&broken).await?;
            setup.pass(721);
            let error = refused(new.advance("by_tag").await)?;
            let report = new.verify().run().await?;
            assert_eq!(&*report.problems[0].row_key, "task_0007");
            new.table().delete(broken.key(), Match::Any).await?;
            assert_eq!(new.advance("by_tag").await?, Stage::Readable);
            Ok(error)
        }
        .boxed()
    }),
    case("try again", || {
        async {
            let setup = Setup::start().await?;
            let new = setup.at(Stage::Announced).await?;
            let held = setup.server.inject(Fault::on(Operation::UpdateEntity).nth(1).hold());
            let other = async {
                held.wait_until_held().await;
                let retired = new.retire("by_tag").await;
                held.release();
                retired
            };
            let (first, other) = join(new.advance("by_tag"), other).await;
            assert_eq!(other?, Stage::Retiring);
            let error = refused(first)?;
            drop(held);
            setup.pass(721);
            new.advance("by_tag").await?;
            Ok(error)
        }
        .boxed()
    }),
    case("open the store again", || {
        async {
            let setup = Setup::start().await?;
            let new = setup.at(Stage::Readable).await?;
            let rows = new.table().scan::<DynamicEntity>().scan_policy(ScanPolicy::Allow);
            for row in rows.all().await? {
                if row.entity.partition_key != "core" {
                    new.table().delete(row.entity.key(), Match::Any).await?;
                }
            }
            setup.pass(61);
            let error = refused(new.insert(&task(2)).await)?;
            let new = setup.open::<new::Task>().await?;
            new.insert(&task(2)).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("run a program with that declaration, or give yours another name", || {
        async {
            let setup = Setup::start().await?;
            setup.at(Stage::Readable).await?;
            let error = refused(setup.open::<other::Task>().await)?;
            setup.open::<new::Task>().await?;
            setup.open::<renamed::Task>().await?;
            Ok(error)
        }
        .boxed()
    }),
    case("take it out of use with `retire` and `advance`", || {
        async {
            let setup = Setup::start().await?;
            let new = setup.at(Stage::Readable).await?;
            new.retire("by_tag").await?;
            let old = setup.open::<old::Task>().await?;
            let error = refused(old.clean("by_tag").await)?;
            setup.pass(721);
            assert_eq!(old.advance("by_tag").await?, Stage::Gone);
            setup.pass(721);
            assert_eq!(old.clean("by_tag").await?.run().await?.part("by_tag").repaired, 1);
            Ok(error)
        }
        .boxed()
    }),
    case("clean up from a program that does not", || {
        async {
            let setup = Setup::start().await?;
            let new = setup.at(Stage::Readable).await?;
            let old = setup.retired(&new).await?;
            setup.pass(721);
            let error = refused(new.clean("by_tag").await)?;
            assert_eq!(old.clean("by_tag").await?.run().await?.part("by_tag").repaired, 1);
            Ok(error)
        }
        .boxed()
    }),
    case("keep the declaration until `migrate` has finished", || {
        async {
            let (_server, account) = start().await?;
            let (table, queue) = (account.table("notes"), account.queue("notes"));
            let first = Store::<NoteV1>::builder(table.clone()).queue(queue.clone()).build()?;
            first.create_if_missing().await?;
            first.insert(&NoteV1 { team: "core".into(), id: 1, tag: "a".into() }).await?;
            let notes = Store::<Note>::builder(table.clone()).queue(queue.clone()).build()?;
            let update = async || {
                let key = Note::key("core", 1);
                notes.update(key, |note| note.tag = "b".into()).await
            };
            let error = refused(update().await)?;
            assert_eq!(error.kind(), ErrorKind::Invalid);
            let listed = Store::<Listed>::builder(table).queue(queue).build()?;
            assert_eq!(listed.migrate().run().await?.total.repaired, 1);
            assert_eq!(update().await?.entity.tag, "b");
            Ok(error)
        }
        .boxed()
    }),
];
