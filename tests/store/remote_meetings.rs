//! Copies elsewhere that meet other writers: of the same targets, of the targets themselves, and of the source.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use rowkey::store::{RemoteCopies, Settled, Store};
use rowkey::{Entity, ManualClock, Match, StorageAccount, Table};
use rowkey_emulator::{ErrorCode, Fault, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, is_made, waiting};

/// A source in the table and the partition of its targets.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{house}", row = "lead_{id}")]
#[entity(index(name = by_name, row = "name_{name}", many))]
struct Lead {
    house: String,
    id: u32,
    name: String,
    /// Whether the guests of the house have its name.
    leads: bool,
}

/// A target, all properties of which may be missing: any row could be one.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{house}", row = "{row}")]
struct Guest {
    house: String,
    row: String,
    lead: Option<String>,
}

fn lead(id: u32) -> Lead {
    Lead { house: "7".into(), id, name: format!("lead {id}"), leads: true }
}

fn guest(id: u32) -> Guest {
    Guest { house: "7".into(), row: format!("guest_{id:04}"), lead: None }
}

fn leads(account: &StorageAccount) -> rowkey::Result<Store<Lead>> {
    let names = RemoteCopies::new(
        "lead",
        &account.table("houses"),
        |lead: &Lead| {
            let guests = rowkey::Partition::<Guest>::new(&*lead.house).row_keys("guest_".."guest`");
            lead.leads.then_some(guests)
        },
        |lead| lead.name.clone(),
        |guest: &mut Guest, name| guest.lead = name.cloned(),
    );
    Store::builder(account.table("houses")).queue(account.queue("houses")).with(names).build()
}

/// A server with this many guests, and a client whose clock is moved with it.
struct House {
    server: Server,
    clock: ManualClock,
    leads: Store<Lead>,
    table: Table,
}

impl House {
    async fn start(guests: u32) -> TestResult<Self> {
        let server = Server::builder().manual_clock().start().await?;
        let (account, clock) = waiting(&server)?;
        let leads = leads(&account)?;
        leads.create_if_missing().await?;
        let table = account.table("houses");
        for chunk in (0..guests).collect::<Vec<_>>().chunks(100) {
            let insert =
                |transaction: rowkey::Transaction, id: &u32| transaction.insert(&guest(*id));
            chunk.iter().fold(table.transaction(), insert).submit().await?;
        }
        Ok(Self { server, clock, leads, table })
    }

    fn pass(&self, seconds: u64) {
        self.server.clock().advance(Duration::from_secs(seconds));
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// How many guests have each name, and how many op rows and messages are left.
    fn named(&self, name: Option<&str>) -> usize {
        let snapshot = self.server.snapshot();
        let rows = snapshot.table("houses").unwrap().partition("7");
        let guests = rows.filter(|row| row.row_key().starts_with("guest_"));
        let name = name.map(|name| rowkey::edm::Value::String(name.into()));
        guests.filter(|row| row.get("lead") == name).count()
    }

    /// Runs the worker until nothing is left to do.
    async fn work(&self) -> TestResult {
        for _ in 0..12 {
            self.pass(3601);
            self.leads.drain_backlog().await?;
            self.leads.work_once().await?;
        }
        let snapshot = self.server.snapshot();
        let rows = snapshot.table("houses").unwrap().entities();
        assert_eq!(rows.filter(|row| row.row_key().starts_with("op_")).count(), 0);
        assert_eq!(snapshot.queue("houses").unwrap().messages().count(), 0);
        Ok(())
    }
}

#[tokio::test]
async fn a_source_among_its_targets_changes_only_them() -> TestResult {
    let house = House::start(3).await?;
    assert_eq!(house.leads.insert(&lead(1)).await?.settled, Settled::Done);
    assert_eq!(house.named(Some("lead 1")), 3);
    house.leads.update(Lead::key("7", 1), |lead| lead.name = "new".into()).await?;
    assert_eq!(house.named(Some("new")), 3);
    assert_eq!(house.leads.count(Lead::by_name("7", "new")).await?, 1);
    assert!(house.leads.verify().run().await?.is_clean());
    house.leads.delete(Lead::key("7", 1)).await?;
    assert_eq!((house.named(None), house.server.snapshot().table("houses").unwrap().len()), (3, 3));
    Ok(())
}

/// Two sources name the same targets, in turns and at the same time. When one gives them up, each has the copy of the
/// other one, once that is written again, and none has the copy of the one that gave up.
#[tokio::test]
async fn two_sources_that_name_the_same_targets_leave_no_copy_of_one_that_gave_them_up()
-> TestResult {
    let house = House::start(3).await?;
    for round in 0..3 {
        let name = |id: u32| format!("{id} of {round}");
        let turn = |id: u32| {
            let (leads, name) = (house.leads.clone(), name(id));
            async move { leads.upsert(&Lead { name, ..lead(id) }).await.map(drop) }
        };
        if round == 1 {
            for written in join_all([1, 2, 1, 2].map(turn)).await {
                written?;
            }
        } else {
            turn(1).await?;
            turn(2).await?;
            assert_eq!(house.named(Some(&name(2))), 3, "the last one");
        }
        house.leads.update(Lead::key("7", 1), |lead| lead.leads = false).await?;
        assert_eq!(house.named(Some(&name(1))), 0);
        house.leads.rewrite(Lead::key("7", 2)).await?;
        assert_eq!(house.named(Some(&name(2))), 3);
        assert!(house.leads.verify().run().await?.is_clean());
    }
    house.work().await?;
    house.leads.delete(Lead::key("7", 2)).await?;
    assert_eq!(house.named(None), 3);
    Ok(())
}

/// The source is deleted, changed, or deleted and stored again, before each request of a worker in its second turn.
#[tokio::test]
async fn a_source_that_changes_during_the_second_turn_of_a_worker_is_followed() -> TestResult {
    for what in ["delete", "change", "store again"] {
        for nth in (1..).filter(|nth| is_made(*nth)) {
            let house = House::start(1200).await?;
            house.leads.insert(&lead(1)).await?;
            assert_eq!(house.named(Some("lead 1")), 1000);
            house.pass(61);
            let other = leads(&waiting(&house.server)?.0)?;
            let held = house.server.inject(Fault::any().nth(nth).hold());
            let rival = async {
                held.wait_until_held().await;
                if what == "change" {
                    other.update(Lead::key("7", 1), |lead| lead.name = "new".into()).await?;
                } else {
                    other.delete(Lead::key("7", 1)).await?;
                }
                if what == "store again" {
                    other.insert(&Lead { name: "new".into(), ..lead(1) }).await?;
                }
                held.release();
                Ok::<_, rowkey::Error>(())
            };
            let mut worked = pin!(house.leads.work_once());
            let Either::Right((changed, _)) = select(&mut worked, pin!(rival)).await else { break };
            changed?;
            assert_eq!(worked.await?.failed, 0);
            house.work().await?;
            let expected = if what == "delete" { None } else { Some("new") };
            assert_eq!(house.named(expected), 1200, "{what} at request {nth}");
            assert!(house.leads.verify().run().await?.is_clean());
        }
    }
    Ok(())
}

/// A target is deleted, and one with its key stored again, before each request of a write.
#[tokio::test]
async fn a_target_that_is_stored_again_while_it_is_settled_is_not_lost() -> TestResult {
    for nth in 1.. {
        let house = House::start(3).await?;
        house.leads.insert(&lead(1)).await?;
        let held = house.server.inject(Fault::any().nth(nth).hold());
        let rival = async {
            held.wait_until_held().await;
            let (key, table) = (Guest::key("7", "guest_0001"), &house.table);
            table.delete(key, Match::Any).await?;
            table.insert(&Guest { lead: Some("own".into()), ..guest(1) }).await?;
            held.release();
            Ok::<_, rowkey::Error>(())
        };
        let mut write =
            pin!(house.leads.update(Lead::key("7", 1), |lead| lead.name = "new".into()));
        let Either::Right((changed, _)) = select(&mut write, pin!(rival)).await else { break };
        changed?;
        write.await?;
        house.work().await?;
        // The sixth request writes the targets; one that is stored later gets its copy with the next write.
        assert_eq!(house.named(Some("new")), if nth <= 6 { 3 } else { 2 }, "request {nth}");
        house.leads.rewrite(Lead::key("7", 1)).await?;
        assert_eq!(house.named(Some("new")), 3, "request {nth}");
        assert!(house.leads.verify().run().await?.is_clean());
    }
    Ok(())
}

/// The targets are in another account, which is down: the write is committed, and a worker copies.
#[tokio::test]
async fn targets_in_an_account_that_is_unavailable_are_settled_when_it_is_there() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let guests = account.table("guests");
    let names = |guests: &Table| {
        RemoteCopies::new(
            "lead",
            guests,
            |lead: &Lead| [rowkey::Partition::<Guest>::new(&*lead.house)],
            |lead| lead.name.clone(),
            |guest: &mut Guest, name| guest.lead = name.cloned(),
        )
    };
    let build = |account: &StorageAccount| {
        Store::<Lead>::builder(account.table("houses"))
            .queue(account.queue("houses"))
            .with(names(&account.table("guests")))
            .build()
    };
    build(&account)?.create_if_missing().await?;
    guests.create_if_missing().await?;
    guests.insert(&guest(1)).await?;
    for way in 0..3 {
        let any = Fault::any().resource("guests");
        let down = match way {
            0 => any.reject(ErrorCode::AUTHORIZATION_FAILURE),
            1 => any.reject(ErrorCode::SERVER_BUSY),
            _ => any.close_before_commit(),
        };
        let down = server.inject(down);
        let name = format!("name {way}");
        let account = self::account(&server)?;
        let leads = build(&account)?;
        let written = leads.upsert(&Lead { name: name.clone(), ..lead(1) }).await?;
        assert_eq!(written.settled, Settled::Pending);
        assert_eq!(leads.work_once().await?.settled, 0);
        drop(down);
        for _ in 0..3 {
            server.clock().advance(Duration::from_secs(3601));
            build(&self::account(&server)?)?.work_once().await?;
        }
        let guests = self::account(&server)?.table("guests");
        let now = guests.get(Guest::key("7", "guest_0001")).await?.unwrap().entity;
        assert_eq!(now.lead, Some(name));
        assert_eq!(server.snapshot().queue("houses").unwrap().messages().count(), 0);
    }
    Ok(())
}
