//! Conditions on versions, as a request carries them in `If-Match`: of replaces, deletions and patches.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use rowkey::store::{IfMatch, Store, Version};
use rowkey::{Entity, ErrorKind, Key, Outcome, StorageAccount};
use rowkey_emulator::{Fault, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, once, stopped_at_every_request, sweep};

use super::rows::{Order, agreed, order, start, store};

/// A type without declarations, whose patch is one merge.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{room}", row = "light_{id}")]
struct Light {
    room: String,
    id: u32,
    level: i32,
    color: Option<String>,
}

fn light() -> Light {
    Light { room: "hall".into(), id: 1, level: 1, color: Some("red".into()) }
}

fn lights(account: &StorageAccount) -> rowkey::Result<Store<Light>> {
    Store::builder(account.table("lights")).build()
}

async fn with_light() -> TestResult<(Server, Store<Light>, Version)> {
    let server = Server::builder().manual_clock().start().await?;
    let lights = lights(&account(&server)?)?;
    lights.create_if_missing().await?;
    let version = lights.insert(&light()).await?.version;
    Ok((server, lights, version))
}

fn bulb() -> Key<Light> {
    Light::key("hall", 1)
}

fn key() -> Key<Order> {
    Order::key("contoso", 1)
}

/// What a request with these values of `If-Match` demands.
fn header(value: &str) -> IfMatch {
    IfMatch::of([value]).unwrap()
}

#[tokio::test]
async fn a_list_costs_no_more_than_one_tag_and_a_condition_that_is_never_met_sends_nothing()
-> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    orders.insert(&order(1)).await?;
    let mut before = server.journal();
    let mut cost = || {
        let now = server.journal();
        let requests = now.clone().since(&before).len();
        before = now;
        requests
    };
    let current = orders.get(key()).await?.unwrap().version;
    cost();
    let dear = Order { cents: 5, ..order(1) };
    orders.replace_if(&dear, &current).await?;
    let one = cost();
    let current = orders.get(key()).await?.unwrap().version;
    cost();
    let list = header(&format!("\"a\", W/{current}, \"op-x\", \"op-00000000000000ff\", {current}"));
    orders.replace_if(&order(1), &list).await?;
    assert_eq!(cost(), one, "a list");
    orders.replace_if(&dear, IfMatch::Any).await?;
    assert_eq!(cost(), one, "any version");

    for stale in [header(&current.to_string()), header("\"a\""), list] {
        let error = orders.replace_if(&order(1), &stale).await.unwrap_err();
        assert_eq!((error.kind(), cost()), (ErrorKind::Conflict, 1), "{stale:?}");
        let error = orders.delete_if(key(), &stale).await.unwrap_err();
        assert_eq!((error.kind(), cost()), (ErrorKind::Conflict, 1));
        let patch = || orders.patch(key()).set(Order::CENTS, 9).if_version(&stale);
        assert_eq!(patch().explain().await.unwrap_err().kind(), ErrorKind::Conflict);
        cost();
        let error = patch().send().await.unwrap_err();
        assert_eq!((error.kind(), cost()), (ErrorKind::Conflict, 1), "{error}");
    }
    let weak = header("W/\"a\"");
    for error in [
        orders.replace_if(&order(1), &weak).await.unwrap_err(),
        orders.delete_if(key(), &weak).await.unwrap_err(),
        orders.patch(key()).set(Order::CENTS, 9).if_version(&weak).send().await.unwrap_err(),
        orders.transaction().delete_if(&key(), &weak).submit().await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Conflict, Outcome::NotSent));
    }
    assert_eq!(cost(), 0);
    assert_eq!(agreed(&server.snapshot(), true), [("order_0001".into(), 5)]);

    orders.delete_if(key(), IfMatch::Any).await?;
    cost();
    for error in [
        orders.replace_if(&order(1), IfMatch::Any).await.unwrap_err(),
        orders.delete_if(key(), IfMatch::Any).await.unwrap_err(),
        orders.patch(key()).set(Order::CENTS, 9).if_version(IfMatch::Any).send().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Conflict, "there is none");
    }
    assert_eq!(cost(), 3, "a read each");
    Ok(())
}

#[tokio::test]
async fn a_patch_is_guarded_by_the_version_of_any_read() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let mut old = vec![orders.insert(&order(1)).await?.version];
    let patch =
        |cents, version: &Version| orders.patch(key()).set(Order::CENTS, cents).if_version(version);
    for cents in 1..=4 {
        let read = match cents {
            1 => orders.get(key()).await?,
            2 => orders.find(Order::by_desk("contoso", 1_u32)).await?,
            3 => orders.find(Order::by_courier("kim", "contoso", 1_u32)).await?,
            _ => orders.find(Order::by_number("A1")).await?,
        };
        let version: Version = read.unwrap().version.to_string().parse()?;
        let plan = patch(cents, &version).explain().await?;
        assert_eq!(plan.reads(), 1, "{plan}");
        old.push(patch(cents, &version).send().await?);
        old.push(version);
        assert_eq!(agreed(&server.snapshot(), true), [("order_0001".into(), cents)]);
        // What the patch returned is the version now; all others are outdated.
        let current = old.swap_remove(old.len() - 2);
        for version in &old {
            let error = patch(9, version).send().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{version}");
        }
        old.push(patch(cents, &current).send().await?);
        old.push(current);
        let last = old.len() - 2;
        let version = old.remove(last);
        assert_eq!(orders.get(key()).await?.unwrap().version, version);
        old.push(orders.patch(key()).clear(Order::SIZE).set(Order::SIZE, 1_u32).send().await?);
        assert_eq!(orders.get(key()).await?.unwrap().version, old.pop().unwrap());
    }
    Ok(())
}

#[tokio::test]
async fn a_patch_without_declarations_is_one_request_under_its_version() -> TestResult {
    let (server, lights, version) = with_light().await?;
    let mut before = server.journal();
    let mut cost = || {
        let now = server.journal();
        let requests = now.clone().since(&before).len();
        before = now;
        requests
    };
    let patch = |level| lights.patch(bulb()).set(Light::LEVEL, level);
    cost();
    assert!(!patch(2).if_version(&version).reads());
    let second = patch(2).if_version(&version).send().await?;
    assert_eq!(cost(), 1);
    let stale = patch(3).if_version(&version).send().await.unwrap_err();
    assert_eq!((stale.kind(), cost()), (ErrorKind::Conflict, 1));
    // A list, a mark, and a removal are a read and a write.
    let list = header(&format!("{version}, {second}"));
    assert!(patch(4).if_version(&list).reads());
    let third = patch(4).if_version(&list).send().await?;
    assert_eq!(cost(), 2);
    let cleared = lights.patch(bulb()).clear(Light::COLOR).if_version(&third).send().await?;
    assert_eq!(cost(), 2);
    // Tags that the service would answer with 400 are compared here.
    for other in ["\"a\"", "\"datetime'é'\"", "\"datetime'2026\"", "\"op-00000000000000ff\""] {
        let error = patch(5).if_version(header(other)).send().await.unwrap_err();
        assert_eq!((error.kind(), cost()), (ErrorKind::Conflict, 1), "{other}");
    }
    patch(6).if_version(&second).if_version(&cleared).send().await?;
    patch(7).if_version(IfMatch::Any).send().await?;
    assert_eq!(cost(), 2, "the last condition counts, and any version is one request");
    let expected = Light { level: 7, color: None, ..light() };
    assert_eq!(lights.get(bulb()).await?.unwrap().entity, expected);
    let missing = lights.patch(Light::key("hall", 2)).set(Light::LEVEL, 1).if_version(IfMatch::Any);
    assert_eq!(missing.send().await.unwrap_err().kind(), ErrorKind::Conflict);
    lights.delete_if(bulb(), IfMatch::Any).await?;
    let error = patch(8).if_version(&cleared).send().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "it was deleted");
    lights.table().delete_table().await?;
    let error = patch(8).if_version(IfMatch::Any).send().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "no condition tells of a missing table");
    Ok(())
}

/// A patch with each condition and without declarations, and one with all declarations: after each lost
/// answer it says what happened.
#[tokio::test]
async fn a_guarded_patch_says_whether_it_was_made_after_each_lost_answer() -> TestResult {
    let level = |snapshot: &Snapshot| {
        let table = snapshot.table("lights").unwrap();
        let row = table.entities().next().unwrap();
        match row.get("level") {
            Some(rowkey::edm::Value::Int32(level)) => level,
            other => panic!("{other:?}"),
        }
    };
    let (server, _, version) = with_light().await?;
    for condition in [IfMatch::from(&version), header(&format!("{version}, \"a\"")), IfMatch::Any] {
        for repeats in [true, false] {
            let runs = sweep(
                &server,
                async |account| {
                    let account = if repeats { account.clone() } else { once(account) };
                    let lights = lights(&account)?;
                    lights.patch(bulb()).set(Light::LEVEL, 2).if_version(&condition).send().await
                },
                async |_, _| Ok(()),
                |snapshot, patched| match patched {
                    Ok(_) => assert_eq!(level(snapshot), 2),
                    Err(error) if error.outcome() == Outcome::Unknown => {
                        assert!(!repeats, "one lost answer does not leave it unknown: {error}");
                    }
                    Err(error) => assert_eq!(level(snapshot), 1, "{error}"),
                },
            )
            .await?;
            assert!(runs.failures > 0);
        }
    }
    let (server, account) = start().await?;
    let version = store(&account)?.insert(&order(1)).await?.version;
    let patch = async |account: &StorageAccount| {
        let orders = store(account)?;
        let patch = orders.patch(key()).set(Order::CENTS, 7).set(Order::SIZE, 9_u32);
        patch.if_version(&version).send().await
    };
    let recover = async |account: &StorageAccount| {
        let orders = store(account)?;
        orders.drain_backlog().await?;
        orders.work_once().await?;
        Ok(())
    };
    sweep(
        &server,
        patch,
        async |account, _| recover(account).await,
        |snapshot, patched| {
            let expected = if patched.is_ok() { 7 } else { 100 };
            assert_eq!(agreed(snapshot, true), [("order_0001".into(), expected)], "{patched:?}");
        },
    )
    .await?;
    stopped_at_every_request(&server, patch, recover, |snapshot| {
        let stored = agreed(snapshot, true);
        assert!([7, 100].contains(&stored[0].1), "{stored:?}");
    })
    .await?;
    Ok(())
}

/// Another writer between any two requests: a guarded change fails, or is made before or on top of that
/// writer's change, and no change is lost.
#[tokio::test]
async fn a_writer_between_any_two_requests_is_a_conflict_and_never_lost() -> TestResult {
    type Guarded = fn(Store<Order>, IfMatch) -> futures_util::future::BoxFuture<'static, bool>;
    fn is_made<T>(written: rowkey::Result<T>) -> bool {
        match written {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(
                    (error.kind(), error.outcome() == Outcome::Unknown),
                    (ErrorKind::Conflict, false),
                    "{error}"
                );
                false
            }
        }
    }
    let writes: [(&str, Guarded); 3] = [
        ("patch", |orders, condition| {
            Box::pin(async move {
                let patch = orders.patch(key()).set(Order::CENTS, 7).set(Order::SIZE, 9_u32);
                is_made(patch.if_version(condition).send().await)
            })
        }),
        ("replace", |orders, condition| {
            Box::pin(async move {
                let replaced = Order { cents: 7, size: 9, ..order(1) };
                is_made(orders.replace_if(&replaced, condition).await)
            })
        }),
        ("delete", |orders, condition| {
            Box::pin(async move { is_made(orders.delete_if(key(), condition).await) })
        }),
    ];
    for (name, write) in writes {
        for any in [false, true] {
            let mut made = [0, 0];
            for nth in 1.. {
                let (server, account) = start().await?;
                let orders = store(&account)?;
                let version = orders.insert(&order(1)).await?.version;
                let condition = if any { IfMatch::Any } else { version.into() };
                let held = server.inject(Fault::any().nth(nth).hold());
                let mut writing = pin!(write(orders.clone(), condition));
                let rival = async {
                    held.wait_until_held().await;
                    let raised = orders.update(key(), |order| order.desk = Some(44)).await;
                    held.release();
                    raised.is_ok()
                };
                let (is_made, was_raised) = match select(&mut writing, pin!(rival)).await {
                    Either::Left((_, _)) => break,
                    Either::Right((was_raised, _)) => (writing.await, was_raised),
                };
                made[usize::from(is_made)] += 1;
                assert!(is_made || !any, "{name} {nth}: any version is right");
                server.clock().advance(Duration::from_secs(60));
                let later = store(&self::account(&server)?)?;
                for _ in 0..2 {
                    later.drain_backlog().await?;
                    assert_eq!(later.work_once().await?.failed, 0);
                }
                agreed(&server.snapshot(), true);
                let stored = orders.get(key()).await?.map(|stored| stored.entity);
                match (name, is_made, was_raised) {
                    ("delete", true, _) => assert_eq!(stored, None),
                    (_, true, _) => assert_eq!(
                        stored.as_ref().map(|one| (one.cents, one.size)),
                        Some((7, 9)),
                        "{nth}"
                    ),
                    (_, false, raised) => {
                        assert!(raised);
                        assert_eq!(stored.map(|one| (one.cents, one.desk)), Some((100, Some(44))));
                    }
                }
            }
            eprintln!("{name}, any {any}: {made:?}");
            assert!(made[1] > 1 && (any || made[0] > 1), "{name}: {made:?}");
        }
    }
    Ok(())
}
