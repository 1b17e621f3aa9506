//! Advices about what a type declares, and about declarations of programs.

use futures_util::FutureExt as _;
use rowkey::store::{Change, Contribution, Declaration, Store};
use rowkey::{DynamicEntity, Entity, ErrorKind, StorageAccount};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;

use super::{Case, Tried, case, refused, start};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "task_{id:4}")]
#[entity(index(name = by_title, row = "title_{title}"))]
#[entity(list(name = by_tag, value = "{tags}", max = 2))]
struct Task {
    tenant: String,
    id: u32,
    title: String,
    #[entity(json)]
    tags: Vec<String>,
}

/// Has a list in a blob.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "blob_{id:4}")]
#[entity(list(name = by_city, value = "{city}", blob))]
struct InBlob {
    tenant: String,
    id: u32,
    city: String,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "all", row = "setting_{id:4}")]
struct Setting {
    id: u32,
    #[entity(default)]
    size: i32,
    color: Option<String>,
}

/// Has an index in another table.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "place_{id:4}")]
#[entity(index(name = by_city, table = "cities", partition = "{city}", row = "{tenant}_{id:4}"))]
#[entity(index(name = by_zip, partition = "zip_{zip}", row = "{tenant}_{id:4}"))]
struct Elsewhere {
    tenant: String,
    id: u32,
    city: String,
    zip: String,
}

/// The same, with both in other tables.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "place_{id:4}")]
#[entity(index(name = by_city, table = "cities", partition = "{city}", row = "{tenant}_{id:4}"))]
#[entity(index(name = by_zip, table = "zips", partition = "zip_{zip}", row = "{tenant}_{id:4}"))]
struct BothElsewhere {
    tenant: String,
    id: u32,
    city: String,
    zip: String,
}

/// A store with the table of an index.
fn elsewhere<E: Entity + Clone + Send + Sync + 'static>(
    account: &StorageAccount,
    (index, table): (&str, &str),
) -> rowkey::Result<Store<E>> {
    let builder = Store::<E>::builder(account.table("places")).queue(account.queue("places"));
    builder.index_table(index, account.table(table)).build()
}

fn task(id: u32, title: &str, tags: &[&str]) -> Task {
    let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    Task { tenant: "contoso".into(), id, title: title.into(), tags }
}

async fn tasks() -> TestResult<(Server, StorageAccount, Store<Task>)> {
    let (server, account) = start().await?;
    let tasks = Store::<Task>::builder(account.table("tasks")).build()?;
    tasks.create_if_missing().await?;
    Ok((server, account, tasks))
}

/// What a declaration does with the row `row`.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    Inserts(&'static str),
    Moves,
    Edits,
    Many,
}

struct Row(&'static str, Does);

impl Declaration<Task> for Row {
    fn name(&self) -> &str {
        self.0
    }

    fn operations(&self) -> usize {
        if self.1 == Does::Many { 200 } else { 1 }
    }

    fn reads(&self, _: Change<'_, Task>) -> rowkey::Result<Vec<String>> {
        Ok(match self.1 {
            Does::Moves | Does::Edits => vec!["row".into()],
            Does::Inserts(_) | Does::Many => Vec::new(),
        })
    }

    fn contribute(&self, _: Change<'_, Task>, plan: &mut Contribution<'_>) -> rowkey::Result<()> {
        let row = |name: &str| DynamicEntity::new("contoso", name);
        match self.1 {
            Does::Inserts(name) => plan.insert(&row(name)),
            Does::Many => Ok(()),
            Does::Moves | Does::Edits => {
                let name = if self.1 == Does::Moves { "other" } else { "row" };
                plan.edit("row", |stored| {
                    *stored = Some(row(name));
                    Ok(())
                })
            }
        }
    }
}

/// The error of a store or a write with the first declarations; the second ones are accepted.
async fn contributed(wrong: [Row; 2], right: [Row; 2]) -> Tried {
    let (_server, account, _) = tasks().await?;
    let insert = async |[one, other]: [Row; 2]| {
        let builder = Store::<Task>::builder(account.table("tasks")).with(one).with(other);
        builder.build()?.insert(&task(1, "a", &[])).await
    };
    let error = refused(insert(wrong).await)?;
    insert(right).await?;
    Ok(error)
}

pub(super) const CASES: &[Case] = &[
    case("add `table = \"..\"` to its declaration", || {
        async {
            let (_server, account) = start().await?;
            let table = ("by_zip", "zips");
            let error = refused(elsewhere::<Elsewhere>(&account, table))?;
            elsewhere::<BothElsewhere>(&account, table)?;
            Ok(error)
        }
        .boxed()
    }),
    case("name one that has `table = \"..\"`", || {
        async {
            let (_server, account) = start().await?;
            let error = refused(elsewhere::<Elsewhere>(&account, ("by_town", "towns")))?;
            elsewhere::<Elsewhere>(&account, ("by_city", "towns"))?;
            Ok(error)
        }
        .boxed()
    }),
    case("give it another table", || {
        async {
            let (_server, account) = start().await?;
            let error = refused(elsewhere::<Elsewhere>(&account, ("by_city", "places")))?;
            elsewhere::<Elsewhere>(&account, ("by_city", "towns"))?;
            Ok(error)
        }
        .boxed()
    }),
    case("create the table, with `Store::create_if_missing`", || {
        async {
            let (_server, account) = start().await?;
            let places = elsewhere::<Elsewhere>(&account, ("by_city", "towns"))?;
            places.table().create().await?;
            let error = refused(places.find(Elsewhere::by_city("leeds", "contoso", 1)).await)?;
            places.create_if_missing().await?;
            assert!(places.find(Elsewhere::by_city("leeds", "contoso", 1)).await?.is_none());
            Ok(error)
        }
        .boxed()
    }),
    case("give one to `StoreBuilder::blobs`", || {
        async {
            let (_server, account) = start().await?;
            let builder =
                || Store::<InBlob>::builder(account.table("tasks")).queue(account.queue("tasks"));
            let error = refused(builder().build())?;
            builder().blobs(account.container("tasks")).build()?;
            Ok(error)
        }
        .boxed()
    }),
    case("declare fewer indexes, or move some to partitions of their own", || {
        async {
            let some = || [Row("one", Does::Inserts("a")), Row("other", Does::Inserts("b"))];
            contributed([Row("one", Does::Many), Row("other", Does::Many)], some()).await
        }
        .boxed()
    }),
    case("give the rows of each declaration unique RowKeys", || {
        async {
            let rows = |a, b| [Row("one", Does::Inserts(a)), Row("other", Does::Inserts(b))];
            contributed(rows("a", "a"), rows("a", "b")).await
        }
        .boxed()
    }),
    case("keep the keys of the row that `Declaration::reads` named", || {
        async {
            let rows = |does| [Row("one", does), Row("other", Does::Inserts("b"))];
            contributed(rows(Does::Moves), rows(Does::Edits)).await
        }
        .boxed()
    }),
    case("give the entity fewer values, or raise `max` of the list", || {
        async {
            let (_server, _, tasks) = tasks().await?;
            let error = refused(tasks.insert(&task(1, "a", &["x", "y", "z"])).await)?;
            assert_eq!(error.kind(), ErrorKind::TooLarge);
            tasks.insert(&task(1, "a", &["x", "y"])).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("it is the key of its row in the index `{index}`", || {
        async {
            let (_server, _, tasks) = tasks().await?;
            let error = refused(tasks.insert(&task(1, &"x".repeat(2_000), &[])).await)?;
            tasks.insert(&task(1, "x", &[])).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("it is the key of its row in the list `{}`", || {
        async {
            let (_server, _, tasks) = tasks().await?;
            let error = refused(tasks.insert(&task(1, "a", &["x".repeat(2_000).as_str()])).await)?;
            tasks.insert(&task(1, "a", &["x"])).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("set it to that, or make the field an Option without a default", || {
        async {
            let (_server, account) = start().await?;
            let settings = Store::<Setting>::builder(account.table("settings")).build()?;
            settings.create_if_missing().await?;
            settings.insert(&Setting { id: 1, size: 7, color: Some("red".into()) }).await?;
            let patch = || settings.patch(Setting::key(1));
            let error = refused(patch().clear(Setting::SIZE).send().await)?;
            patch().set(Setting::SIZE, 0).send().await?;
            patch().clear(Setting::COLOR).send().await?;
            Ok(error)
        }
        .boxed()
    }),
];
