//! The client's size of an entity is the one that the server counts, to the byte.

use rowkey::edm::{DateTime, Value};
use rowkey::table::EncodedRow;
use rowkey::{DynamicEntity, Entity, ErrorCode, ErrorKind, Outcome, StorageAccount, Table};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};

/// The most bytes of an entity.
const MOST: usize = 1024 * 1024;

/// The most bytes of a binary property.
const MOST_BINARY: usize = 64 * 1024;

async fn start() -> TestResult<(Server, Table)> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("sizes");
    table.create().await?;
    Ok((server, table))
}

/// An entity of properties of all types, with texts of one, two, three and four bytes for each character.
fn entity(random: &mut Random, row: &str) -> DynamicEntity {
    let text = |random: &mut Random| {
        let letters = ["a", "\"", "\n", "é", "日", "😀"];
        (0..random.below(40)).map(|_| random.pick(&letters)).collect::<String>()
    };
    let mut entity = DynamicEntity::new(format!("p{}", random.below(1000)), row);
    entity.partition_key.push_str(random.pick(&["", "é", "日", "😀"]));
    for number in 0..random.below(200) {
        let value = match random.below(8) {
            0 => Value::Binary(vec![7; random.below(500) as usize]),
            1 => Value::Boolean(random.one_in(2)),
            2 => Value::DateTime(
                DateTime::from_ticks((1 << 59) + i64::from(random.below(u32::MAX))).unwrap(),
            ),
            3 => Value::Double(f64::from(random.below(1000))),
            4 => Value::Guid("c9da6455-213d-42c9-9a79-3e9149a57833".parse().unwrap()),
            5 => Value::Int32(i32::try_from(random.below(1000)).unwrap()),
            6 => Value::Int64(i64::from(random.below(1000))),
            _ => Value::String(text(random)),
        };
        entity.set(format!("{}{number}", random.pick(&["P", "Größe", "名前"])), value);
    }
    entity
}

fn size(entity: &impl Entity) -> usize {
    EncodedRow::of(entity).unwrap().size()
}

/// Adds binary properties until the entity has `size` bytes.
fn fill(entity: &mut DynamicEntity, until: usize) {
    for number in 0.. {
        let name = format!("Fill{number}");
        let left = until - size(entity);
        if left == 0 {
            return;
        }
        // A property of a name of five or six letters and no bytes.
        let empty = 8 + 2 * name.len() + 4;
        // What is left has room for another property, or for none.
        let bytes = (left - empty).min(MOST_BINARY);
        let after = left - empty - bytes;
        let bytes = if after > 0 && after < 2 * empty { bytes - 2 * empty } else { bytes };
        entity.set(&name, Value::Binary(vec![1; bytes]));
    }
}

#[tokio::test]
async fn the_largest_entity_of_the_client_is_the_largest_of_the_server() -> TestResult {
    let (_server, table) = start().await?;
    for seed in seeds(40) {
        let _seed = Seed(seed);
        let random = &mut Random(seed);
        let mut whole = entity(random, &format!("r{seed}"));
        fill(&mut whole, MOST - 100);
        // An entity that ends 100 bytes below the limit, and a property that reaches it.
        table.insert(&whole).await?;
        let bytes = 100 - (8 + 2 * "Rest".len() + 4);
        let rest = |bytes: usize| {
            let mut rest = DynamicEntity::new(&*whole.partition_key, &*whole.row_key);
            rest.set("Rest", Value::Binary(vec![2; bytes]));
            rest
        };
        // The server counts the merged entity, so its limit is met without that of the client.
        let refused = table.upsert_merge(&rest(bytes + 1)).await.unwrap_err();
        assert_eq!(refused.code(), Some(&ErrorCode::ENTITY_TOO_LARGE));
        assert_eq!(refused.outcome(), Outcome::Rejected);
        table.upsert_merge(&rest(bytes)).await?;

        whole.set("Rest", Value::Binary(vec![2; bytes]));
        assert_eq!(size(&whole), MOST);
        table.upsert(&whole).await?;
        whole.set("Rest", Value::Binary(vec![2; bytes + 1]));
        let refused = table.upsert(&whole).await.unwrap_err();
        assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
        assert!(refused.to_string().contains(&(MOST + 1).to_string()), "{refused}");
        // A text counts two bytes a UTF-16 unit, also where JSON needs an escape.
        whole.set("Rest", "\u{1}".repeat(bytes / 2));
        assert_eq!(size(&whole), MOST - bytes % 2);
        table.upsert(&whole).await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_payload_is_what_counts_for_a_transaction() -> TestResult {
    let (_server, table) = start().await?;
    // Escapes make the JSON six times as long as the text, and the size twice.
    let entity = |row: u32| {
        let mut entity = DynamicEntity::new("p", format!("{row:03}"));
        for number in 0..5 {
            entity.set(format!("P{number}"), "\u{1}".repeat(32 * 1024));
        }
        entity
    };
    let row = EncodedRow::of(&entity(0))?;
    assert!(row.payload_size() > 2 * row.size());
    let mut transaction = table.transaction();
    let mut rows = 0;
    loop {
        let one = table.transaction().insert(&entity(rows));
        if !transaction.fits(&one) {
            break;
        }
        (transaction, rows) = (transaction.append(one), rows + 1);
    }
    assert_eq!(rows, 4, "four of about a megabyte");
    transaction.submit().await?;
    Ok(())
}
