//! What reading ahead buys: the time until all pages of a long partition are read and used.

use std::time::Instant;

use futures_util::TryStreamExt as _;
use rowkey::table::Stream;
use rowkey::{StorageAccount, Stored, Table};

use crate::clients::by_hand::Hand;
use crate::clients::over_reqwest::OverReqwest;
use crate::clients::run::{Result, TABLE};
use crate::model::Reading;
use crate::process::{Kind, Server, Service};
use crate::report::{Goal, Rounds, Table as Report, figure, judged};
use crate::sign::{ACCOUNT, KEY};

const ENTITIES: usize = 50_000;

/// Compares for `rounds` rounds and returns the table.
pub async fn compare(rounds: usize) -> Result<String> {
    let server = Server::start(Kind::Rowkey)?.ok_or("it is built with this")?;
    let host = server.host(Service::Table);
    let account = StorageAccount::from_connection_string(&format!(
        "AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint=http://{host}/{ACCOUNT}"
    ))?;
    let table = account.table(TABLE);
    table.create().await?;
    let readings: Vec<_> = (0..ENTITIES).map(|n| Reading::numbered(n, ENTITIES)).collect();
    for readings in readings.chunks(100) {
        readings.iter().fold(table.transaction(), rowkey::Transaction::insert).submit().await?;
    }
    let partition = &readings[0].partition;
    let by_hand = OverReqwest::new(Hand::new(host))?;

    let mut times = [Rounds::default(), Rounds::default(), Rounds::default()];
    // The first round is a warm-up, and is not counted.
    for round in 0..=rounds {
        eprintln!("scan: round {round}");
        let begun = Instant::now();
        let by_hand = by_hand.scan(partition, |read| weigh(read.level, &read.notes)).await?;
        let hand = begun.elapsed();
        let begun = Instant::now();
        let plain = sum(query(&table, partition).stream()).await?;
        let one_by_one = begun.elapsed();
        let begun = Instant::now();
        let ahead = sum(query(&table, partition).prefetch().stream()).await?;
        let reading_ahead = begun.elapsed();
        if (by_hand, plain) != (plain, ahead) || plain.0 != ENTITIES {
            return Err("not all of them read the same".into());
        }
        if round > 0 {
            for (times, took) in times.iter_mut().zip([hand, one_by_one, reading_ahead]) {
                times.push(took.as_secs_f64() * 1e3);
            }
        }
    }
    let [hand, plain, ahead] = times;
    let mut out = Report::new(&["50 pages of 1,000", "ms", "by hand / this"]);
    out.row(vec!["reqwest by hand".to_owned(), figure(hand.median()), "1".to_owned()]);
    for (name, times, goal) in
        [("stream", &plain, Goal::None), ("prefetch, stream", &ahead, Goal::AtLeast(1.15))]
    {
        let ratio = judged(&hand.over(times), goal);
        out.row(vec![name.to_owned(), figure(times.median()), ratio]);
    }
    Ok(out.render())
}

fn query(table: &Table, partition: &str) -> rowkey::Query<Reading> {
    table.query(Reading::partition(partition))
}

/// Their number and total size.
async fn sum(mut stream: Stream<Stored<Reading>>) -> Result<(usize, u64)> {
    let (mut count, mut weight) = (0, 0);
    while let Some(stored) = stream.try_next().await? {
        count += 1;
        weight += weigh(stored.entity.level, &stored.entity.notes);
    }
    Ok((count, weight))
}

/// A little work with an entity.
fn weigh(level: i32, notes: &str) -> u64 {
    u64::from(level.unsigned_abs()) + notes.bytes().map(u64::from).sum::<u64>()
}
