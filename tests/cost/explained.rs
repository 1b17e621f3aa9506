//! Explained, metered and counted by the server: the same transactions for each write of a type with many declarations.

use futures_util::stream;
use rowkey::cost::{Class, Meter, PriceTable, Usage};
use rowkey::store::{Change, Explanation, Store, View};
use rowkey::worker::outbox::Outbox as _;
use rowkey::worker::{Task, Tasks};
use rowkey::{Entity, Error, ErrorCode, Key, Result, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;

use super::server::{since, transactions};

/// Copies in the partition and elsewhere, two unique values, a list and a field in a blob.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "parcel_{id:4}")]
#[entity(index(name = by_state, row = "state_{state}", many))]
#[entity(index(name = by_email, partition = "email_{email}", row = "{tenant}_{id}", copy(state)))]
#[entity(index(name = by_courier, partition = "courier_{courier}", row = "{tenant}_{id}"))]
#[entity(unique(name = by_number, value = "{number}"))]
#[entity(unique(name = by_code, value = "{code}"))]
#[entity(list(name = by_tag, value = "{tag}"))]
struct Parcel {
    tenant: String,
    id: u32,
    state: String,
    courier: String,
    email: String,
    number: String,
    code: String,
    tag: String,
    grams: i64,
    #[entity(blob)]
    scan: Option<Vec<u8>>,
}

fn parcel(id: u32, scan: Option<Vec<u8>>) -> Parcel {
    Parcel {
        tenant: "contoso".into(),
        id,
        state: "new".into(),
        courier: "kim".into(),
        email: format!("{id}@contoso.com"),
        number: format!("P{id}"),
        code: format!("C{id}"),
        tag: "fragile".into(),
        grams: 500,
        scan,
    }
}

fn key(id: u32) -> Key<Parcel> {
    Parcel::key("contoso", id)
}

fn store(account: &StorageAccount) -> Result<Store<Parcel>> {
    let store = Store::builder(account.table("parcels")).queue(account.queue("parcels"));
    store.blobs(account.container("parcels")).build()
}

async fn start() -> TestResult<(Server, StorageAccount, Store<Parcel>)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let parcels = store(&account)?;
    parcels.create_if_missing().await?;
    Ok((server, account, parcels))
}

/// Runs a write, and compares what was explained, metered and counted by the server.
async fn compare<T>(
    server: &Server,
    what: &str,
    plan: &Explanation,
    write: impl Future<Output = Result<T>>,
) -> TestResult<T> {
    let meter = Meter::new();
    let written = meter.scope(compare_transactions(server, what, plan, write)).await?;
    // The time in an ETag that is not read yet is shorter by a digit if it ends with a zero.
    let (sent, expected) = (meter.usage().sent(), plan.usage().sent());
    assert!(sent.abs_diff(expected) <= 7, "{what}: {sent} bytes of bodies, not {expected}\n{plan}");
    Ok(written)
}

/// The same without the bytes of bodies: those of rows that settling reads first are not known before.
async fn compare_transactions<T>(
    server: &Server,
    what: &str,
    plan: &Explanation,
    write: impl Future<Output = Result<T>>,
) -> TestResult<T> {
    let (meter, before) = (Meter::new(), server.journal());
    let written = meter.scope(write).await.map_err(|error| format!("{what}: {error}"))?;
    let (metered, explained) = (transactions(&meter.usage()), transactions(&plan.usage()));
    assert_eq!(metered, since(server, &before), "{what}: the server counts something else");
    assert_eq!(explained, metered, "{what}:\n{plan}\nexplained\n{explained}\nmetered\n{metered}");
    assert_eq!(plan.usage().requests(), (plan.reads() + plan.requests()) as u64);
    Ok(written)
}

#[tokio::test]
async fn every_write_uses_what_was_explained() -> TestResult {
    let (server, account, parcels) = start().await?;
    for (id, scan) in [(1, None), (2, Some(vec![7; 100_000]))] {
        let new = parcel(id, scan);
        let plan = parcels.explain().insert(&new).await?;
        compare(&server, "insert", &plan, parcels.insert(&new)).await?;

        let grams = |parcel: &mut Parcel| parcel.grams += 1;
        let plan = parcels.explain().update(key(id), grams).await?;
        compare(&server, "grams", &plan, parcels.update(key(id), grams)).await?;

        let state = |parcel: &mut Parcel| parcel.state = "sent".into();
        let plan = parcels.explain().update(key(id), state).await?;
        compare(&server, "state", &plan, parcels.update(key(id), state)).await?;

        let email = |parcel: &mut Parcel| parcel.email += ".uk";
        let plan = parcels.explain().update(key(id), email).await?;
        compare(&server, "email", &plan, parcels.update(key(id), email)).await?;

        let unique = |parcel: &mut Parcel| {
            parcel.number += "a";
            parcel.code += "a";
        };
        let plan = parcels.explain().update(key(id), unique).await?;
        compare(&server, "two unique values", &plan, parcels.update(key(id), unique)).await?;

        let patch = || parcels.patch(key(id)).set(Parcel::GRAMS, 9);
        let plan = patch().explain().await?;
        compare(&server, "patch", &plan, patch().send()).await?;

        // Another program, which remembers nothing, looks at what it replaces.
        let other = store(&account)?;
        let plan = other.explain().update(key(id), email).await?;
        compare(&server, "email, by another program", &plan, other.update(key(id), email)).await?;

        let new = Parcel { state: "lost".into(), ..parcel(id, None) };
        let plan = parcels.explain().upsert(&new).await?;
        compare(&server, "upsert", &plan, parcels.upsert(&new)).await?;

        let plan = parcels.explain().delete(key(id)).await?;
        assert!(compare(&server, "delete", &plan, parcels.delete(key(id))).await?);
    }
    let (one, other) = (parcel(11, None), parcel(12, None));
    let transaction = || parcels.transaction().insert(&one).insert(&other);
    let plan = transaction().explain().await?;
    compare(&server, "a transaction", &plan, transaction().submit()).await?;
    let left = server.snapshot();
    assert_eq!(left.queue("parcels").unwrap().messages().count(), 0, "nothing is left over");
    Ok(())
}

/// A sale, whose shop has totals, and whose customer gets a mail.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{region}", row = "sale_{id:4}")]
#[entity(list(name = by_tag, partition = "tags", value = "{tag}"))]
struct Sale {
    region: String,
    id: u32,
    shop: String,
    tag: String,
    cents: i64,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "totals", row = "{shop}")]
struct Totals {
    shop: String,
    cents: i64,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Mail {
    text: String,
}

impl Task for Mail {
    const KIND: &'static str = "mail";
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Sold {
    id: u32,
}

impl Task for Sold {
    const KIND: &'static str = "sold";
}

fn sale(id: u32, shop: &str, tag: &str) -> Sale {
    Sale { region: "west".into(), id, shop: shop.into(), tag: tag.into(), cents: 500 }
}

#[tokio::test]
async fn writes_with_tasks_and_views_use_what_was_explained() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let shops =
        View::new("shops", &account.table("totals"), |sale: &Sale| Some(Totals::key(&sale.shop)));
    let mails = Tasks::<Mail>::new(account.queue("mails")).claims(account.container("mails"));
    let sold = |change: Change<'_, Sale>| match change {
        Change { before: None, after: Some(sale), .. } => Some(Sold { id: sale.id }),
        _ => None,
    };
    let sales = Store::<Sale>::builder(account.table("sales"))
        .queue(account.queue("sales"))
        .with(shops.sum(Totals::CENTS, |sale: &Sale| sale.cents))
        .with(Tasks::<Sold>::new(account.queue("sold")).on_change(sold))
        .with(mails.clone())
        .build()?;
    sales.create_if_missing().await?;
    // Their summaries and lists exist from here on.
    for (id, shop) in [(1, "a"), (2, "b")] {
        sales.insert(&sale(id, shop, shop)).await?;
    }

    let new = sale(3, "a", "a");
    let plan = sales.explain().insert(&new).await?;
    compare_transactions(&server, "insert", &plan, sales.insert(&new)).await?;

    // Two summaries and two lists are settled, and the entity is read once at the end.
    let moves = |sale: &mut Sale| (sale.shop, sale.tag) = ("b".into(), "b".into());
    let key = || Sale::key("west", 3);
    let plan = sales.explain().update(key(), moves).await?;
    compare_transactions(&server, "another shop", &plan, sales.update(key(), moves)).await?;

    for (what, text) in [("a task", "short".to_owned()), ("a task in a blob", "x".repeat(70_000))] {
        let mail = Mail { text };
        let cents = |sale: &mut Sale| sale.tag = "b".into();
        let transaction = || sales.transaction().update(key(), cents).task(&mail);
        let plan = transaction().explain().await?;
        compare(&server, what, &plan, transaction().submit()).await?;
    }
    let plan = sales.explain().delete(key()).await?;
    compare_transactions(&server, "delete", &plan, sales.delete(key())).await?;
    Ok(())
}

#[tokio::test]
async fn a_job_uses_what_was_explained() -> TestResult {
    let (server, _, parcels) = start().await?;
    let many: Vec<_> = (0..60).map(|id| parcel(id, None)).collect();
    let plan = parcels.explain().load(&many).await?;
    let (meter, before) = (Meter::new(), server.journal());
    meter.scope(parcels.load(stream::iter(many)).run()).await.map_err(Error::from)?;
    let metered = transactions(&meter.usage());
    assert_eq!(metered, since(&server, &before));
    // The transactions of a job share their clean-up.
    assert!(metered.requests() <= plan.usage().requests(), "{plan}\n{metered}");
    let batches = metered.transactions(Class::TableBatchWrite);
    assert!(batches >= 60, "copies elsewhere have a partition each: {metered}");
    Ok(())
}

#[tokio::test]
async fn each_declaration_is_named_by_the_requests_that_it_causes() -> TestResult {
    let (_server, _, parcels) = start().await?;
    let meter = Meter::new();
    meter.scope(parcels.insert(&parcel(1, Some(vec![7; 100])))).await?;
    let named = meter.by_declaration();
    let by = |name: &str| named.get(name).map(transactions).unwrap_or_default();
    assert_eq!(by("by_email"), Usage::of(Class::TableBatchWrite, 1), "{named:?}");
    assert_eq!(by("by_courier"), Usage::of(Class::TableBatchWrite, 1), "{named:?}");
    assert_eq!(by("by_number"), Usage::of(Class::TableWrite, 1), "{named:?}");
    assert_eq!(by("by_code"), Usage::of(Class::TableWrite, 1), "{named:?}");
    assert_eq!(by("scan"), Usage::of(Class::BlobWrite, 1), "{named:?}");
    assert_eq!(by("by_state"), Usage::default(), "it is in the transaction of the entity");
    // The rest: the message, the transaction, the op row and the message again.
    let rest = meter.usage() - named.values().copied().sum::<Usage>();
    let rest = |class: Class| rest.transactions(class);
    assert_eq!((rest(Class::QueueClass1), rest(Class::TableBatchWrite)), (2, 1));
    assert_eq!((rest(Class::TableDelete), rest(Class::TableWrite)), (1, 0));

    // A deletion names them, too.
    meter.take();
    assert!(meter.scope(parcels.delete(key(1))).await?);
    let named: Vec<_> = meter.by_declaration().into_keys().collect();
    for name in ["by_email", "by_courier", "by_number", "by_code"] {
        assert!(named.iter().any(|other| other.split('+').any(|one| one == name)), "{named:?}");
    }
    Ok(())
}

#[tokio::test]
async fn failures_and_repetitions_are_metered_as_the_server_counts_them() -> TestResult {
    let (server, account, parcels) = start().await?;
    parcels.insert(&parcel(1, None)).await?;

    // A taken unique value: the claim is refused, and what was prepared is undone.
    let (meter, before) = (Meter::new(), server.journal());
    let taken = Parcel { number: "P1".into(), ..parcel(2, None) };
    assert!(meter.scope(parcels.insert(&taken)).await.is_err());
    assert_eq!(transactions(&meter.usage()), since(&server, &before));
    assert!(meter.usage().requests() > 2);

    // 503 at each request of a write: each attempt is a request, and those that are refused are not billed.
    for nth in 1..=8 {
        let id = 10 + u32::try_from(nth)?;
        let (meter, before) = (Meter::new(), server.journal());
        let busy = Fault::any().nth(nth).reject(ErrorCode::SERVER_BUSY);
        let injected = server.inject(busy);
        meter.scope(parcels.insert(&parcel(id, None))).await?;
        assert_eq!(injected.hits(), 1, "{nth}");
        assert_eq!(transactions(&meter.usage()), since(&server, &before), "{nth}");
        assert_eq!(meter.usage().unbilled(), 1, "{nth}");
        assert_eq!(meter.usage().requests(), server.journal().since(&before).len() as u64);
    }

    // Another writer changes the entity between read and write: the update reads again.
    let other = store(&account)?;
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let (meter, before) = (Meter::new(), server.journal());
    let update = meter.scope(parcels.update(key(1), |parcel| parcel.grams += 1));
    let meet = async {
        held.wait_until_held().await;
        let (own, from) = (Meter::new(), server.journal());
        own.scope(other.update(key(1), |parcel| parcel.grams += 10)).await?;
        let of_other = since(&server, &from);
        assert_eq!(transactions(&own.usage()), of_other);
        held.release();
        Ok::<_, Error>(of_other)
    };
    let (updated, of_other) = futures_util::future::join(update, meet).await;
    assert_eq!(updated?.entity.grams, 511);
    assert_eq!(transactions(&meter.usage()), since(&server, &before) - of_other?);
    assert!(meter.usage().transactions(Class::TableRead) >= 2, "it was read again");
    Ok(())
}

#[tokio::test]
async fn a_plan_has_a_price() -> TestResult {
    let (_server, _, parcels) = start().await?;
    let mut prices = PriceTable::new("USD");
    for class in Class::ALL {
        prices = prices.per_10_000(*class, "0.01".parse()?);
    }
    let plan = parcels.explain().insert(&parcel(1, None)).await?;
    let million = prices.of(&(plan.usage() * 1_000_000))?;
    assert_eq!(
        million,
        prices.of(&Usage::of(Class::TableWrite, plan.usage().all_transactions() * 1_000_000))?
    );
    assert_eq!(million.to_string(), plan.usage().all_transactions().to_string());
    Ok(())
}
