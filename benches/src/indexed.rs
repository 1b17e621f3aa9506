//! What indexes cost the client: inserting an entity of four indexes, against one transaction of the
//! same five rows written down as entities.

use rowkey::index::PRIMARY_ROW_KEY;
use rowkey::key::KeyWriter;
use rowkey::store::Store;
use rowkey::{DynamicEntity, Entity, Projection, StorageAccount, Transaction};

use crate::clients::run::{Result, WRITTEN};
use crate::model::Reading;
use crate::process::{Server, Service, cpu};
use crate::report::{Goal, Rounds, Table, figure, judged};
use crate::requests::PER_PARTITION;
use crate::sign::{ACCOUNT, KEY};

const OPERATIONS: u32 = 4_000;

/// The properties of a [`Reading`], and four indexes.
#[derive(Clone, Debug, Entity)]
#[entity(store, partition = "{partition}", row = "id_{id}", rename_all = "PascalCase")]
#[entity(
    index(name = by_device, row = "device_{device}"),
    index(name = by_name, row = "name_{name:lower}"),
    index(name = by_site, row = "site_{site}", many),
    index(name = by_level, row = "level_{level:desc}", many)
)]
struct Indexed {
    partition: String,
    id: u32,
    level: i32,
    total: i64,
    ratio: f64,
    active: bool,
    measured: rowkey::edm::DateTime,
    device: rowkey::edm::Guid,
    name: String,
    site: String,
    notes: String,
    comment: String,
}

/// One of its rows, as a program declares it that keeps the copies by hand.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{partition}", row = "{row}", rename_all = "PascalCase")]
struct Plain {
    partition: String,
    row: String,
    primary_row_key: Option<String>,
    level: i32,
    total: i64,
    ratio: f64,
    active: bool,
    measured: rowkey::edm::DateTime,
    device: rowkey::edm::Guid,
    name: String,
    site: String,
    notes: String,
    comment: String,
}

impl Indexed {
    fn numbered(number: u32) -> Self {
        let reading = Reading::numbered(number as usize, PER_PARTITION);
        Self {
            partition: reading.partition,
            id: number,
            level: reading.level,
            total: reading.total,
            ratio: reading.ratio,
            active: reading.active,
            measured: reading.measured,
            device: reading.device,
            name: reading.name,
            site: reading.site,
            notes: reading.notes,
            comment: reading.comment,
        }
    }

    /// All its rows.
    fn rows(&self) -> Result<Vec<Plain>> {
        let mut rows = vec![DynamicEntity::of(self)?];
        for position in 0..Self::DECLARED.indexes.len() {
            let (mut partition, mut row) = (KeyWriter::new(), KeyWriter::new());
            if !self.index_key(position, &mut partition, &mut row) {
                return Err("not in an index".into());
            }
            let mut copy = rows[0].clone();
            copy.set(PRIMARY_ROW_KEY, copy.row_key.clone());
            (copy.partition_key, copy.row_key) = (partition.finish()?, row.finish()?);
            rows.push(copy);
        }
        rows.into_iter().map(|row| Ok(row.read_as()?)).collect()
    }
}

/// Compares for `rounds` rounds and returns the table.
pub async fn compare(rounds: usize) -> Result<String> {
    let server = Server::bare_for_clients()?;
    let account = StorageAccount::from_connection_string(&format!(
        "AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint=http://{}/{ACCOUNT}",
        server.host(Service::Table)
    ))?;
    let table = account.table(WRITTEN);
    table.create().await?;
    let index = Store::<Indexed>::builder(table.clone()).build()?;
    let entities: Vec<_> = (0..100).map(Indexed::numbered).collect();
    let rows = entities.iter().map(Indexed::rows).collect::<Result<Vec<_>>>()?;
    let pointers = rows[0].iter().filter(|row| row.primary_row_key.is_some()).count();
    if pointers != Indexed::DECLARED.indexes.len() {
        return Err(format!("{pointers} rows have a {PRIMARY_ROW_KEY}").into());
    }

    let (mut indexed, mut plain) = (Rounds::default(), Rounds::default());
    // The first round is a warm-up, and is not counted.
    for round in 0..=rounds {
        eprintln!("indexed: round {round}");
        let begun = cpu("self")?;
        for entity in entities.iter().cycle().take(OPERATIONS as usize) {
            index.insert(entity).await?;
        }
        let between = cpu("self")?;
        for rows in rows.iter().cycle().take(OPERATIONS as usize) {
            let all = rows.iter().fold(table.transaction(), Transaction::insert);
            all.submit().await?;
        }
        let ended = cpu("self")?;
        if round > 0 {
            indexed.push(between.saturating_sub(begun).as_secs_f64() * 1e6 / f64::from(OPERATIONS));
            plain.push(ended.saturating_sub(between).as_secs_f64() * 1e6 / f64::from(OPERATIONS));
        }
    }
    let mut out = Table::new(&["CPU us/op", "indexed", "plain EGT", "indexed / plain"]);
    out.row(vec![
        "insert, 4 indexes".to_owned(),
        figure(indexed.median()),
        figure(plain.median()),
        judged(&indexed.over(&plain), Goal::AtMost(1.5)),
    ]);
    Ok(out.render())
}
