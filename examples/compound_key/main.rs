//! Compound keys: the yearly reviews of an employee, stored beside the employee. Each RowKey consists of
//! parts, is parsed back into them, and any leading parts select a range.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use rowkey::Cost;
use rowkey::{Entity, EntitySet, Partition, StorageAccount};
use rowkey_emulator::Server;

// ANCHOR: types
/// `empid_000123`. The heads of both types are the same, so that an employee and the reviews lie
/// next to each other; the `kind` tells them apart.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{department}", row = "empid_{id:6}", kind = "Employee")]
struct Employee {
    department: String,
    id: u32,
    name: String,
}

/// `empid_000123_2012`.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{department}", row = "empid_{employee:6}_{year:4}", kind = "Review")]
struct Review {
    department: String,
    employee: u32,
    year: u16,
    rating: i32,
}

/// An employee or a review.
#[derive(Clone, Debug, EntitySet)]
enum Record {
    Employee(Employee),
    Review(Review),
}
// ANCHOR_END: types

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let staff = account.table("staff");
    staff.create_if_missing().await?;
    let department = || "sales".to_owned();
    for (id, name) in [(122, "Grace"), (123, "Ada"), (124, "Edith")] {
        let mut hired = staff.transaction().insert(&Employee {
            department: department(),
            id,
            name: name.into(),
        });
        for (year, rating) in [(2011, 3), (2012, 4), (2013, 5)] {
            hired = hired.insert(&Review { department: department(), employee: id, year, rating });
        }
        hired.submit().await?;
    }

    // ANCHOR: program
    // The key of one review is its parts, and parts come back from a key.
    let key = Review::key("sales", 123, 2012);
    assert_eq!(key.parts(), Ok(("sales", "empid_000123_2012")));
    assert_eq!(Review::parse_key("sales", "empid_000123_2012")?, (department(), 123, 2012));
    assert_eq!(staff.get(key).await?.ok_or("reviewed")?.entity.rating, 4);

    // Leading parts are a range: all reviews of one employee.
    let reviews = staff.query(Review::under_employee("sales", 123)).all().await?;
    assert_eq!(reviews.iter().map(|r| r.entity.year).collect::<Vec<_>>(), [2011, 2012, 2013]);

    // And so is everything between two keys: the reviews of two years, the end not included.
    let years = Review::key("sales", 123, 2011)..Review::key("sales", 123, 2013);
    let some = staff.query(Review::partition("sales").range(years)).all().await?;
    assert_eq!(some.len(), 2);

    // The employee and the reviews by one request: RowKey ge 'empid_000123' and lt 'empid_000124'.
    let all = Partition::<Record>::beginning_with(Employee::key("sales", 123));
    let query = staff.query(all);
    assert_eq!(query.cost()?, Cost::RangeQuery, "however many other employees there are");
    let records: Vec<_> = query.all().await?.into_iter().map(|stored| stored.entity).collect();
    let [Record::Employee(ada), reviews @ ..] = &records[..] else {
        return Err("the employee comes first, for her key is the shortest".into());
    };
    let ratings: i32 = reviews
        .iter()
        .map(|record| match record {
            Record::Review(review) => review.rating,
            Record::Employee(_) => 0,
        })
        .sum();
    // ANCHOR_END: program
    println!("{}: {} reviews, {ratings} points", ada.name, reviews.len());
    assert_eq!((reviews.len(), ratings), (3, 12));
    Ok(())
}
