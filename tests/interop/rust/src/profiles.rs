//! One row type for each `compat` profile, and what the programs of the other libraries make of its rows: they read
//! them with their own types, and [`Profile::updated`] is what they write back.

use std::fmt::Debug;

use rowkey::edm::{DateTime, Guid};
use rowkey::patterns::inspect;
use rowkey::{Entity, Property, Table};

use crate::Result;

/// The rows of a table.
pub const ROWS: u32 = 4;

/// The `PartitionKey` of all rows.
pub const KIND: &str = "it's 50% größe";

/// Stored as its name in lower case, which every library reads as text.
#[derive(Clone, Copy, Debug, PartialEq, Property)]
#[property(rename_all = "lowercase")]
pub enum Level {
    Low,
    High,
}

/// A row type with the same fields under one profile.
pub trait Profile: Entity + Debug + PartialEq + Send + Sync + 'static {
    /// Row `number`, from 1 to [`ROWS`].
    fn row(number: u32) -> Result<Self>;

    /// The same row when the other library has updated it: each property but the keys is another.
    #[must_use]
    fn updated(self) -> Self;
}

macro_rules! profile {
    ($(#[$doc:meta])* $name:ident, $compat:literal, $big:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Entity, PartialEq)]
        #[entity(partition = "{kind}", row = "{number:8}", compat = $compat)]
        pub struct $name {
            pub kind: String,
            pub number: u32,
            pub count: i64,
            pub small: i16,
            pub size: u64,
            pub ratio: f64,
            pub flag: bool,
            pub text: String,
            pub level: Level,
            pub at: DateTime,
            pub id: Guid,
            pub data: Vec<u8>,
            #[entity(as = $big)]
            pub big: i64,
            pub note: Option<String>,
        }

        impl Profile for $name {
            fn row(number: u32) -> Result<Self> {
                let at = usize::try_from(number - 1)?;
                Ok(Self {
                    kind: KIND.to_owned(),
                    number,
                    count: [i32::MIN.into(), 0, 7, 2_147_483_646][at],
                    small: [-1, 0, 1, 100][at],
                    size: [0, 7, 2_147_483_646, 5][at],
                    ratio: [0.5, 3.0, -2.5, 1e21][at],
                    flag: number % 2 == 0,
                    text: ["größe 日本 🏓 \"quoted\" o'brien \\ \n\t", "", "plain", "42"][at].to_owned(),
                    level: if number == 2 { Level::High } else { Level::Low },
                    at: format!("2026-11-{}T09:00:00.123Z", 20 + number).parse()?,
                    id: format!("0d391d16-97f1-4b9a-be68-4cc871f9000{number}").parse()?,
                    data: [0, 1, 254, 255][..at].to_vec(),
                    big: [1 << 53, -(1 << 53), 1, 1 << 31][at],
                    note: (number % 2 == 0).then(|| "there".to_owned()),
                })
            }

            fn updated(mut self) -> Self {
                self.count += 1;
                self.small += 1;
                self.size += 1;
                self.ratio += 0.25;
                self.flag = !self.flag;
                self.text.push('!');
                self.level = match self.level {
                    Level::Low => Level::High,
                    Level::High => Level::Low,
                };
                self.at = format!("2026-12-{}T09:00:00.123Z", 20 + self.number)
                    .parse()
                    .expect("a date");
                self.id = format!("c9da6455-213d-42c9-9a79-3e9149a5783{}", self.number)
                    .parse()
                    .expect("a GUID");
                self.data.push(7);
                self.big = -self.big;
                self.note = Some("written".to_owned());
                self
            }
        }
    };
}

profile! {
    /// What `azure_data_tables` 0.21 reads: an integer beyond Int32 is a Double.
    RustRow, "azure_data_tables-0.21", "Double"
}
profile! {
    /// What Python reads as `int`, and `big` as `EntityProperty`.
    PythonRow, "python", "Int64"
}
profile! {
    /// What JavaScript reads as `number`, and `big` as `bigint`.
    JavaScriptRow, "javascript", "Int64"
}
profile! {
    /// What C# reads as `long`.
    DotNetRow, "dotnet", "Int64"
}

/// Creates a table and inserts the rows of a profile.
pub async fn write<P: Profile>(table: &Table) -> Result {
    table.create().await?;
    for number in 1..=ROWS {
        table.insert(&P::row(number)?).await?;
    }
    Ok(())
}

/// Demands that every row is as the other library has updated it, and that rowkey would write it back under the same
/// key, with the same types and values.
pub async fn check_updated<P: Profile>(table: &Table) -> Result {
    let report = inspect::check::<P>(table).await?;
    let rows: Vec<P> = table.scan().all().await?.into_iter().map(|row| row.entity).collect();
    let expected: Vec<P> =
        (1..=ROWS).map(|number| Ok(P::row(number)?.updated())).collect::<Result<_>>()?;
    if rows != expected {
        return Err(format!("read {rows:#?}, expected {expected:#?}").into());
    }
    if !report.is_exact() || !report.unknown.is_empty() {
        return Err(report.to_string().into());
    }
    Ok(())
}
