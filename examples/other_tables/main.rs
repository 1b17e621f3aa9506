//! An index in a table of its own, in another account than the entities.
//!
//! Support lists parcels by e-mail address all day. The copies of the index have an account of their own, so
//! these queries take no throughput from the account of the parcels. When it is unavailable, parcels are
//! written all the same.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use rowkey::store::{Settled, Store};
use rowkey::{DynamicEntity, Entity, Key, Match, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Server};

// ANCHOR: declare
#[derive(Clone, Debug, Entity)]
#[entity(store, partition = "{depot}", row = "parcel_{id:6}")]
#[entity(index(name = by_email, table = "emails", partition = "{email:lower}", row = "{depot}_{id:6}"))]
#[entity(list(name = by_courier, table = "couriers", partition = "all", value = "{courier}"))]
struct Parcel {
    depot: String,
    id: u32,
    email: String,
    courier: String,
}
// ANCHOR_END: declare

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().account("parcels", [KEY]).account("lookups", [KEY]);
    let server = server.start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let text = server.connection_string().replace(account.name(), "lookups");
    let lookups = StorageAccount::from_connection_string(&text)?;

    // ANCHOR: build
    // The table `couriers` is in the account of the parcels, the table `emails` in the other one.
    let parcels = Store::<Parcel>::builder(account.table("parcels"))
        .queue(account.queue("parcels"))
        .index_table("by_email", lookups.table("emails"))
        .build()?;
    parcels.create_if_missing().await?;
    // ANCHOR_END: build
    for (depot, id) in [("leeds", 1), ("york", 1), ("york", 2)] {
        parcels.insert(&parcel(depot, id)).await?;
    }

    // ANCHOR: read
    let of_ada = parcels.find(Parcel::by_email("ADA@contoso.com", "york", 2)).await?;
    assert_eq!(of_ada.ok_or("not found")?.entity.id, 2);
    assert_eq!(parcels.query(Parcel::by_courier("kim")).all().await?.len(), 3);
    // ANCHOR_END: read

    // The other account is unavailable. The write is committed, and a worker completes it: programs keep one
    // running, with `parcels.run(shutdown)`.
    let down = server.inject(Fault::any().resource("emails").reject(ErrorCode::SERVER_BUSY));
    let written = parcels.insert(&parcel("york", 3)).await?;
    assert_eq!(written.settled, Settled::Pending);
    assert_eq!(parcels.query(Parcel::by_courier("kim")).all().await?.len(), 4);
    drop(down);
    server.clock().advance(Duration::from_secs(61));
    parcels.work_once().await?;
    assert!(parcels.find(Parcel::by_email("ada@contoso.com", "york", 3)).await?.is_some());
    println!("a write was completed when the other account was there again");

    // ANCHOR: clean
    // Another program deletes a parcel without its rows. `verify` and `repair` walk the tables of the index and of the
    // list, too.
    let key = Key::<DynamicEntity>::new("leeds", "parcel_000001");
    account.table("parcels").delete(key, Match::Any).await?;
    let report = parcels.verify().run().await?;
    assert_eq!((report.part("by_email").orphaned, report.part("by_courier").orphaned), (1, 1));
    parcels.repair().run().await?;
    assert!(parcels.verify().run().await?.is_clean());
    // ANCHOR_END: clean
    println!("a copy without a parcel was removed");
    Ok(())
}

/// The key of both accounts of the local server.
const KEY: &str = "bG9jYWw=";

fn parcel(depot: &str, id: u32) -> Parcel {
    Parcel { depot: depot.into(), id, email: "Ada@contoso.com".into(), courier: "kim".into() }
}
