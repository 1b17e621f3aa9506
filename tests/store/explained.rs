//! Plans as text, and the actual cost of the writes; and pages of lists.

use std::collections::BTreeSet;

use rowkey::store::{Explanation, Store};
use rowkey::{Entity, ErrorKind};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;

use super::rows::{Order, order, start, store};

/// How many requests a call sent.
fn sent(server: &Server, before: usize) -> usize {
    server.journal().len() - before
}

fn at_most(plan: &Explanation) -> usize {
    plan.reads() + plan.requests()
}

#[tokio::test]
async fn each_write_costs_at_most_its_explained_plan() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let key = || Order::key("contoso", 1);
    let count = || server.journal().len();

    let plan = orders.explain().insert(&order(1)).await?;
    assert_eq!(
        count(),
        2,
        "explaining an insert sends nothing: the table and the queue were created"
    );
    let before = count();
    orders.insert(&order(1)).await?;
    assert!(sent(&server, before) <= at_most(&plan), "{} requests\n{plan}", sent(&server, before));
    for part in ["op row", "entity", "copy in by_desk", "claim a value of by_number", "by_courier"]
    {
        assert!(plan.to_string().contains(part), "{plan}");
    }

    let change = |order: &mut Order| order.number = Some("B".into());
    let plan = orders.explain().update(key(), change).await?;
    assert_eq!(plan.reads(), 1);
    let before = count();
    let written = orders.update(key(), change).await?;
    assert!(sent(&server, before) <= at_most(&plan), "{} requests\n{plan}", sent(&server, before));

    let other = Order { cents: 7, ..written.entity };
    let plan = orders.explain().replace_if(&other, &written.version).await?;
    let before = count();
    orders.replace_if(&other, &written.version).await?;
    assert!(sent(&server, before) <= at_most(&plan), "{} requests\n{plan}", sent(&server, before));
    let refused = orders.explain().replace_if(&other, &written.version).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);

    let patch = || orders.patch(key()).set(Order::CENTS, 9);
    let plan = patch().explain().await?;
    assert!(plan.to_string().starts_with("read: the entity"), "{plan}");
    let before = count();
    patch().send().await?;
    assert!(sent(&server, before) <= at_most(&plan), "{} requests\n{plan}", sent(&server, before));

    let plan = orders.explain().delete(key()).await?;
    let before = count();
    assert!(orders.delete(key()).await?);
    assert!(sent(&server, before) <= at_most(&plan), "{} requests\n{plan}", sent(&server, before));

    let many: Vec<_> = (2..30).map(order).collect();
    let plan = orders.explain().load(&many).await?;
    let before = count();
    orders.load(futures_util::stream::iter(many)).run().await?;
    assert!(sent(&server, before) <= at_most(&plan), "{} requests\n{plan}", sent(&server, before));

    let query = || orders.query(Order::by_size(1_u32, "ada"));
    let before = count();
    let plan = query().explain(10);
    query().page(10, None).await?;
    assert!(sent(&server, before) <= plan.reads(), "{} requests\n{plan}", sent(&server, before));
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{team}", row = "task_{id:4}")]
#[entity(list(name = by_tag, value = "{tag}"))]
struct Task {
    team: String,
    id: u32,
    tag: String,
}

#[tokio::test]
async fn a_list_is_paged_with_its_own_token() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let tasks = Store::<Task>::builder(account.table("tasks")).build()?;
    tasks.create_if_missing().await?;
    for id in 0..25 {
        tasks.insert(&Task { team: "core".into(), id, tag: "a".into() }).await?;
    }
    let list = || tasks.query(Task::by_tag("core", "a"));
    let (mut found, mut token, mut pages) = (BTreeSet::new(), None, 0);
    loop {
        let from = token.as_ref().map(|token: &String| token.parse()).transpose()?;
        let page = list().page(10, from).await?;
        found.extend(page.entities.iter().map(|task| task.entity.id));
        pages += 1;
        if pages == 1 {
            // The returned rows are deleted, and the next page is still full.
            for id in [3, 11, 12] {
                assert!(tasks.delete(Task::key("core", id)).await?);
            }
        }
        let Some(next) = page.continuation else { break };
        let next = next.to_string();
        assert!(next.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
        let other = tasks.query(Task::by_tag("core", "b")).page(10, Some(next.parse()?)).await;
        assert_eq!(other.unwrap_err().kind(), ErrorKind::Invalid);
        token = Some(next);
    }
    assert_eq!((pages, found.len()), (3, 23));
    assert_eq!(tasks.count(Task::by_tag("core", "a")).await?, 22);
    assert_eq!(
        list().filter(Task::TAG.ge("a")).all().await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
    assert_eq!(list().page(0, None).await.unwrap_err().kind(), ErrorKind::Invalid);
    Ok(())
}
