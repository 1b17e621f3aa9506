//! What cannot be committed is refused before anything is sent, and says so.

use futures_util::future::join;
use rowkey::store::{Change, Contribution, Declaration, Settled, Store};
use rowkey::{DynamicEntity, Entity, ErrorKind, Outcome};
use rowkey_emulator::{Fault, Operation};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::once;

use super::rows::{Order, agreed, left, order, start, store};

#[tokio::test]
async fn two_entities_of_one_transaction_cannot_share_a_unique_value() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let (one, two) = (order(1), Order { number: Some("A1".into()), ..order(2) });
    let before = server.journal();
    let error = orders.transaction().insert(&one).insert(&two).submit().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.details().index),
        (ErrorKind::AlreadyExists, Some("by_number"))
    );
    assert_eq!(server.journal().since(&before).len(), 0, "it is refused before anything is sent");
    assert!(agreed(&server.snapshot(), true).is_empty());
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "desk-{id:4}")]
#[entity(unique(name = by_label, value = "{label}"))]
#[entity(index(name = by_floor, partition = "floor_{floor}", row = "{tenant}_{id}"))]
pub(crate) struct Desk {
    pub(crate) tenant: String,
    pub(crate) id: u32,
    pub(crate) label: String,
    pub(crate) floor: u32,
}

pub(crate) fn desk(id: u32) -> Desk {
    Desk { tenant: "contoso".into(), id, label: format!("L{id}"), floor: id }
}

#[tokio::test]
async fn a_store_of_another_table_is_rejected() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let desks =
        Store::<Desk>::builder(account.table("desks")).queue(account.queue("orders")).build()?;
    desks.create_if_missing().await?;
    let (order, desk) = (order(1), desk(1));
    let submitted = orders.transaction().insert(&order).with(&desks, &desk).submit().await;
    assert_eq!(submitted.unwrap_err().kind(), ErrorKind::Invalid);
    let rows = server.snapshot().table("orders").unwrap().entities().count();
    assert_eq!(rows, 0);
    Ok(())
}

/// A write that can no longer be committed is not reported as unknown.
#[tokio::test]
async fn a_lost_response_to_an_announcement_or_claim_leaves_a_known_outcome() -> TestResult {
    let (server, account) = start().await?;
    for down in [true, false] {
        let orders = store(&once(&account))?;
        let rows = server.inject(Fault::on(Operation::InsertEntity).close_before_commit());
        let queue = Fault::on(Operation::PutMessage).times(u64::from(down));
        let queue = server.inject(queue.close_before_commit());
        let error = orders.insert(&order(1)).await.unwrap_err();
        assert_ne!(error.outcome(), Outcome::Unknown, "{error}");
        drop((rows, queue));
        assert_eq!(agreed(&server.snapshot(), false).len(), 0);
    }
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "p", row = "note_{id}")]
struct Note {
    id: u32,
    text: String,
}

/// Two entities in one transaction; its request is lost, and another program deletes the first entity.
#[tokio::test]
async fn an_entity_that_another_writer_deleted_does_not_prove_a_commit() -> TestResult {
    let (server, account) = start().await?;
    let notes = Store::<Note>::builder(account.table("orders")).build()?;
    let (one, two) = (Note { id: 1, text: "a".into() }, Note { id: 2, text: "b".into() });
    let version = notes.insert(&one).await?.version;
    let unsure = Store::<Note>::builder(once(&account).table("orders")).build()?;
    let lost = server.inject(Fault::on(Operation::Transaction).nth(1).close_before_commit());
    let held = server.inject(Fault::on(Operation::GetEntity).nth(2).hold());
    let submit = unsure.transaction().delete_if(&Note::key(1_u32), version).insert(&two).submit();
    let other = async {
        held.wait_until_held().await;
        let deleted = notes.delete(Note::key(1_u32)).await;
        held.release();
        deleted
    };
    let (submitted, deleted) = join(submit, other).await;
    assert!(deleted?);
    assert_eq!(lost.hits(), 1);
    let second = notes.get(Note::key(2_u32)).await?;
    assert!(submitted.is_err() || second.is_some(), "it says that it was committed");
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "p", row = "file_{id}")]
#[entity(index(name = by_owner, partition = "owner_{owner}", row = "{id}"))]
struct File {
    id: u32,
    owner: String,
    a: String,
    b: String,
    c: String,
    d: String,
    e: String,
    f: String,
    g: String,
    h: String,
    i: String,
    j: String,
    k: String,
    l: String,
    m: String,
    n: String,
    o: String,
    p: String,
}

/// An entity of which a copy would be too large.
#[tokio::test]
async fn an_entity_with_an_oversized_copy_is_rejected() -> TestResult {
    let (server, account) = start().await?;
    let files =
        Store::<File>::builder(account.table("orders")).queue(account.queue("orders")).build()?;
    let part = || "x".repeat(32 * 1024);
    let mut taken = 0;
    for rest in (32_400..32_768).step_by(8) {
        let file = File {
            id: rest,
            owner: "ada".into(),
            a: part(),
            b: part(),
            c: part(),
            d: part(),
            e: part(),
            f: part(),
            g: part(),
            h: part(),
            i: part(),
            j: part(),
            k: part(),
            l: part(),
            m: part(),
            n: part(),
            o: part(),
            p: "x".repeat(usize::try_from(rest)?),
        };
        match files.insert(&file).await {
            Ok(written) => {
                taken += 1;
                assert_eq!(written.settled, Settled::Done, "{rest}");
            }
            Err(error) => {
                assert_eq!(
                    (error.kind(), error.outcome()),
                    (ErrorKind::TooLarge, Outcome::NotSent)
                );
            }
        }
    }
    eprintln!("{taken} taken");
    assert_eq!(left(&server), Vec::<String>::new());
    Ok(())
}

/// Invalid declarations.
enum Wrong {
    EditsTheEntity,
    MovesARow,
}

impl Declaration<Order> for Wrong {
    fn name(&self) -> &'static str {
        "wrong"
    }

    fn operations(&self) -> usize {
        1
    }

    fn reads(&self, change: Change<'_, Order>) -> rowkey::Result<Vec<String>> {
        Ok(vec![match self {
            Self::EditsTheEntity => change.row_key().to_owned(),
            Self::MovesARow => "tally".to_owned(),
        }])
    }

    fn contribute(
        &self,
        change: Change<'_, Order>,
        plan: &mut Contribution<'_>,
    ) -> rowkey::Result<()> {
        match self {
            Self::EditsTheEntity => plan.edit(change.row_key(), |row| {
                *row = Some(DynamicEntity::new(change.partition_key(), change.row_key()));
                Ok(())
            }),
            Self::MovesARow => plan.edit("tally", |row| {
                *row = Some(DynamicEntity::new(change.partition_key(), "order_0009"));
                Ok(())
            }),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "memo_{id}")]
struct Memo {
    tenant: String,
    id: u32,
}

/// A declaration that names a target.
struct Tells {
    needs_queue: bool,
}

impl Declaration<Memo> for Tells {
    fn name(&self) -> &'static str {
        "tells"
    }

    fn operations(&self) -> usize {
        0
    }

    fn needs_queue(&self) -> bool {
        self.needs_queue
    }

    fn contribute(
        &self,
        change: Change<'_, Memo>,
        plan: &mut Contribution<'_>,
    ) -> rowkey::Result<()> {
        plan.target(change.row_key());
        Ok(())
    }
}

/// Without a queue, a declaration that needs one is refused when the store is built, and one that does not say so when
/// it names a target.
#[tokio::test]
async fn a_declaration_that_names_a_target_needs_a_queue() -> TestResult {
    let (server, account) = start().await?;
    let built = |needs_queue| {
        Store::<Memo>::builder(account.table("orders")).with(Tells { needs_queue }).build()
    };
    let refused = built(true).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let what = "`tells` is settled after the commit, which needs a queue";
    assert!(refused.to_string().contains(what), "{refused}");

    let before = server.journal();
    let memo = Memo { tenant: "contoso".into(), id: 1 };
    let refused = built(false)?.insert(&memo).await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    assert!(refused.to_string().contains("needs a queue"), "{refused}");
    assert_eq!(server.journal().since(&before).len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_declaration_that_edits_foreign_rows_is_rejected_before_sending() -> TestResult {
    let (server, account) = start().await?;
    for wrong in [Wrong::EditsTheEntity, Wrong::MovesARow] {
        let orders = Store::<Order>::builder(account.table("orders"))
            .queue(account.queue("orders"))
            .with(wrong)
            .build()?;
        let error = orders.insert(&order(1)).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotSent, "{error}");
        let rows = server.snapshot().table("orders").unwrap().entities().count();
        assert_eq!(rows, 0);
    }
    Ok(())
}
