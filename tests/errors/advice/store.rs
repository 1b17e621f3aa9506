//! Advices about stores: declarations, writes, transactions and reads.

use futures_util::FutureExt as _;
use rowkey::store::{Change, Contribution, Copies, Declaration, RemoteCopies, Store, Version};
use rowkey::{DynamicEntity, Entity, Key, Match, Projection, StorageAccount};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;

use super::{Case, case, refused, start};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "user_{id:4}")]
#[entity(index(name = by_desk, row = "desk_{desk}"))]
#[entity(unique(name = by_email, value = "{email}"))]
struct User {
    tenant: String,
    id: u32,
    desk: u32,
    email: String,
    rank: i32,
}

fn user(id: u32) -> User {
    User { tenant: "contoso".into(), id, desk: id, email: format!("{id}@contoso.com"), rank: 1 }
}

/// Its index lies in another partition.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "remote_{id:4}")]
#[entity(index(name = by_city, partition = "city_{city}", row = "{tenant}_{id:4}"))]
struct Remote {
    tenant: String,
    id: u32,
    city: String,
}

/// A plain row of the same partition.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{tenant}", row = "team_{name}")]
struct Team {
    tenant: String,
    name: String,
    lead: Option<String>,
}

/// Its values are not in the order of its RowKeys.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{tenant}", row = "spot_{x:4}_{y:4,desc}")]
struct Spot {
    tenant: String,
    x: u32,
    y: u32,
    lead: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "member_{id:4}")]
struct Member {
    tenant: String,
    id: u32,
    #[entity(json)]
    team: Option<(String, String)>,
}

async fn users() -> TestResult<(Server, StorageAccount, Store<User>)> {
    let (server, account) = start().await?;
    let users =
        Store::<User>::builder(account.table("users")).queue(account.queue("users")).build()?;
    users.create_if_missing().await?;
    Ok((server, account, users))
}

fn key(id: u32) -> Key<User> {
    User::key("contoso", id)
}

pub(super) const CASES: &[Case] = &[
    case("give one to `StoreBuilder::queue`", || {
        async {
            let (_server, account) = start().await?;
            let builder = || Store::<Remote>::builder(account.table("remotes"));
            let error = refused(builder().build())?;
            builder().queue(account.queue("remotes")).build()?;
            Ok(error)
        }
        .boxed()
    }),
    case("write another value, or change that entity first", || {
        async {
            let (_server, _, users) = users().await?;
            users.insert(&user(1)).await?;
            let same = User { email: user(1).email, ..user(2) };
            let error = refused(users.insert(&same).await)?;
            assert!(users.upsert(&same).await.is_err(), "an upsert does not help");
            users.insert(&user(2)).await?;
            users.update(key(1), |user| user.email = "other".into()).await?;
            users.upsert(&same).await?;
            Ok(error)
        }
        .boxed()
    }),
    case(
        "another entity has the same value in the index `{}`: write another value, or change that entity first",
        || {
            async {
                let (_server, _, users) = users().await?;
                users.insert(&user(1)).await?;
                let same = User { desk: 1, ..user(2) };
                let error = refused(users.insert(&same).await)?;
                users.update(key(1), |user| user.desk = 9).await?;
                users.insert(&same).await?;
                users.insert(&user(3)).await?;
                Ok(error)
            }
            .boxed()
        },
    ),
    case(
        "another program's row has the key of a copy in the index `{}`: move or delete it",
        || {
            async {
                let (_server, _, users) = users().await?;
                let foreign = DynamicEntity::new("contoso", "desk_0000000001");
                users.table().insert(&foreign).await?;
                let error = refused(users.insert(&user(1)).await)?;
                users.table().delete(foreign.key(), Match::Any).await?;
                users.insert(&user(1)).await?;
                Ok(error)
            }
            .boxed()
        },
    ),
    case("read it, and use `replace_if` with its version", || {
        async {
            let (_server, _, users) = users().await?;
            users.insert(&user(1)).await?;
            let again = User { email: "new".into(), desk: 7, ..user(1) };
            let error = refused(users.transaction().insert(&again).submit().await)?;
            let read = users.get(key(1)).await?.unwrap();
            users.transaction().replace_if(&again, read.version).submit().await?;
            Ok(error)
        }
        .boxed()
    }),
    case("give the row beside the entity another key: a row with this one exists", || {
        async {
            let (_server, _, users) = users().await?;
            let row = |name: &str| DynamicEntity::new("contoso", name);
            users.table().insert(&row("note")).await?;
            let one = user(1);
            let with = |row: &DynamicEntity| users.transaction().insert(&one).row(row).submit();
            let error = refused(with(&row("note")).await)?;
            with(&row("note-2")).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("give each entity another value", || {
        async {
            let (_server, _, users) = users().await?;
            let (one, two) = (user(1), User { desk: 1, ..user(2) });
            let error = refused(users.transaction().insert(&one).insert(&two).submit().await)?;
            let two = User { email: user(1).email, ..user(2) };
            let claimed = refused(users.transaction().insert(&one).insert(&two).submit().await)?;
            assert!(claimed.to_string().contains("give each entity another value"), "{claimed}");
            let two = user(2);
            users.transaction().insert(&one).insert(&two).submit().await?;
            Ok(error)
        }
        .boxed()
    }),
    case("write each entity once", || {
        async {
            let (_server, _, users) = users().await?;
            let one = user(1);
            let error = refused(users.transaction().insert(&one).insert(&one).submit().await)?;
            users.transaction().insert(&one).submit().await?;
            Ok(error)
        }
        .boxed()
    }),
    case("write fewer entities in one transaction", || {
        async {
            let (_server, _, users) = users().await?;
            let all: Vec<_> = (1..=60).map(user).collect();
            let send = |users: &Store<User>, all: &[User]| {
                let (users, all) = (users.clone(), all.to_vec());
                async move {
                    let each =
                        all.iter().fold(users.transaction(), rowkey::store::Transaction::insert);
                    each.submit().await
                }
            };
            let error = refused(send(&users, &all).await)?;
            send(&users, &all[..30]).await?;
            send(&users, &all[30..]).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("write those of one partition in one transaction", || {
        async {
            let (_server, _, users) = users().await?;
            let (one, other) = (user(1), User { tenant: "fabrikam".into(), ..user(2) });
            let error = refused(users.transaction().insert(&one).insert(&other).submit().await)?;
            users.transaction().insert(&one).submit().await?;
            users.transaction().insert(&other).submit().await?;
            Ok(error)
        }
        .boxed()
    }),
    case("delete the entity and insert the other one, in one transaction", || {
        async {
            let (_server, _, users) = users().await?;
            users.insert(&user(1)).await?;
            let error = refused(users.update(key(1), |user| user.id = 2).await)?;
            let read = users.get(key(1)).await?.unwrap();
            // The unique value is free only after the commit, so the other one has another.
            let other = User { id: 2, email: "2".into(), ..user(1) };
            let moved = users.transaction().delete_if(&key(1), read.version).insert(&other);
            moved.submit().await?;
            Ok(error)
        }
        .boxed()
    }),
    case("read it again", || {
        async {
            let (_server, _, users) = users().await?;
            let old = users.insert(&user(1)).await?.version;
            users.update(key(1), |user| user.rank = 5).await?;
            let error = refused(users.replace_if(&user(1), &old).await)?;
            let read = users.get(key(1)).await?.unwrap();
            users.replace_if(&user(1), &read.version).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("give it to `StoreBuilder::with`", || {
        async {
            let (_server, _, users) = users().await?;
            let one = user(1);
            refused(users.transaction().insert(&one).target("mail", Ok("x".into())).submit().await)
        }
        .boxed()
    }),
    case("give one strong entity tag, in its quotes", || {
        async {
            let error = refused("abc".parse::<Version>())?;
            "\"abc\"".parse::<Version>()?;
            Ok(error)
        }
        .boxed()
    }),
    case("name it as a target, and write it when that is settled", || {
        async { contributed(Adds("fabrikam", "row")).await }.boxed()
    }),
    case("name the row in `Declaration::reads`", || async { contributed(Edits).await }.boxed()),
    case("name keys, prefixes of RowKeys, or ranges that differ in the last part alone", || {
        async {
            let (_server, account) = start().await?;
            let spots = account.table("spots");
            spots.create().await?;
            let members = |to: Key<Spot>| {
                let copies = RemoteCopies::new(
                    "leads",
                    &spots,
                    move |_: &Member| {
                        [Spot::partition("contoso").range(Spot::key("contoso", 1, 2)..to.clone())]
                    },
                    |member| member.id,
                    |spot: &mut Spot, lead| spot.lead = lead.copied(),
                );
                Store::<Member>::builder(account.table("members"))
                    .queue(account.queue("members"))
                    .with(copies)
                    .build()
            };
            let member = Member { tenant: "contoso".into(), id: 1, team: None };
            members(Spot::key("contoso", 3, 4))?.create_if_missing().await?;
            let error = refused(members(Spot::key("contoso", 3, 4))?.insert(&member).await)?;
            members(Spot::key("contoso", 1, 9))?.insert(&member).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("use letters, digits and `_` in the name of the copies", || {
        async {
            let (_server, account, _) = users().await?;
            let all = |_: &Member| [User::partition("contoso")];
            let error = refused(through(&account, "the leads", all))?;
            through(&account, "the_leads", all)?;
            Ok(error)
        }
        .boxed()
    }),
    case(
        "copy into another type: copies that lead back to their source would write it again and again",
        || {
            async {
                let (_server, account, users) = users().await?;
                let copies = RemoteCopies::through(
                    "leads",
                    &users,
                    |user: &User| [User::key("contoso", user.id + 1)],
                    |user| user.rank,
                    |other: &mut User, rank| other.rank = rank.copied().unwrap_or_default(),
                );
                let queue = account.queue("users");
                let table = users.table().clone();
                let error =
                    refused(Store::<User>::builder(table).queue(queue).with(copies).build())?;
                through(&account, "leads", |_: &Member| [User::partition("contoso")])?;
                Ok(error)
            }
            .boxed()
        },
    ),
    case("name only targets in the partition of the entity, or use `RemoteCopies`", || {
        async { copied("fabrikam", "red").await }.boxed()
    }),
    case("store it first, or name it as a target only when it exists", || {
        async { copied("contoso", "green").await }.boxed()
    }),
    case("call `Store::open`", || {
        async {
            let (_server, _, users) = users().await?;
            let error = refused(users.advance("by_desk").await)?;
            if let Err(next) = users.open().await?.advance("by_desk").await {
                assert!(!next.to_string().contains("Store::open"), "{next}");
            }
            Ok(error)
        }
        .boxed()
    }),
    case("find the entity", || {
        async {
            #[derive(Debug, Projection)]
            struct Rank {
                rank: i32,
            }
            let (_server, _, users) = users().await?;
            users.insert(&user(1)).await?;
            let found = users.find_as::<Rank, _>(User::by_email("1@contoso.com")).await;
            let error = refused(found.map(|rank| rank.map(|rank| rank.rank)))?;
            assert_eq!(users.find(User::by_email("1@contoso.com")).await?.unwrap().entity, user(1));
            Ok(error)
        }
        .boxed()
    }),
];

/// Adds a row at these keys.
struct Adds(&'static str, &'static str);

impl Declaration<User> for Adds {
    fn name(&self) -> &'static str {
        "adds"
    }

    fn operations(&self) -> usize {
        1
    }

    fn contribute(&self, _: Change<'_, User>, plan: &mut Contribution<'_>) -> rowkey::Result<()> {
        plan.insert(&DynamicEntity::new(self.0, self.1))
    }
}

/// Edits a row that it has not read.
struct Edits;

impl Declaration<User> for Edits {
    fn name(&self) -> &'static str {
        "edits"
    }

    fn operations(&self) -> usize {
        1
    }

    fn contribute(&self, _: Change<'_, User>, plan: &mut Contribution<'_>) -> rowkey::Result<()> {
        plan.edit("row", |row| {
            *row = Some(DynamicEntity::new("contoso", "row"));
            Ok(())
        })
    }
}

/// Reads the row, and edits it.
struct Reads;

impl Declaration<User> for Reads {
    fn name(&self) -> &'static str {
        "reads"
    }

    fn operations(&self) -> usize {
        1
    }

    fn reads(&self, _: Change<'_, User>) -> rowkey::Result<Vec<String>> {
        Ok(vec!["row".into()])
    }

    fn contribute(
        &self,
        change: Change<'_, User>,
        plan: &mut Contribution<'_>,
    ) -> rowkey::Result<()> {
        let _ = change;
        plan.edit("row", |row| {
            *row = Some(DynamicEntity::new("contoso", "row"));
            Ok(())
        })
    }
}

/// The error of a write with a declaration that does what it must not; one that does as advised is accepted.
async fn contributed(wrong: impl Declaration<User> + 'static) -> super::Tried {
    let (_server, account, _) = users().await?;
    let builder = || Store::<User>::builder(account.table("users")).queue(account.queue("users"));
    let error = refused(builder().with(wrong).build()?.insert(&user(1)).await)?;
    builder().with(Reads).build()?.insert(&user(1)).await?;
    Ok(error)
}

/// Members whose ids are copied into users.
fn through<I>(
    account: &StorageAccount,
    name: &'static str,
    targets: impl Fn(&Member) -> I + Send + Sync + 'static,
) -> rowkey::Result<Store<Member>>
where
    I: IntoIterator<Item = rowkey::Partition<User>>,
{
    let users =
        Store::<User>::builder(account.table("users")).queue(account.queue("users")).build()?;
    let copies = RemoteCopies::through(
        name,
        &users,
        targets,
        |member| member.id,
        |user: &mut User, id| user.rank = id.map_or(0, |_| 1),
    );
    Store::builder(account.table("members")).queue(account.queue("members")).with(copies).build()
}

/// The error of a copy into a team that is not there; one into a team that is there is accepted.
async fn copied(tenant: &str, name: &str) -> super::Tried {
    let (_server, account) = start().await?;
    let copies = Copies::new(
        "leads",
        1,
        |member: &Member| member.team.as_ref().map(|(tenant, name)| Team::key(tenant, name)),
        |member| member.id.to_string(),
        |team: &mut Team, lead| team.lead = lead.cloned(),
    );
    let members = Store::<Member>::builder(account.table("members")).with(copies).build()?;
    members.create_if_missing().await?;
    members
        .table()
        .insert(&Team { tenant: "contoso".into(), name: "red".into(), lead: None })
        .await?;
    let of = |tenant: &str, name: &str| Member {
        tenant: "contoso".into(),
        id: 1,
        team: Some((tenant.to_owned(), name.to_owned())),
    };
    let error = refused(members.insert(&of(tenant, name)).await)?;
    members.insert(&of("contoso", "red")).await?;
    Ok(error)
}
