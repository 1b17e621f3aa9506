//! Looks for rows by their keys: few queries for the rows of a page.

use std::cmp::Ordering;
use std::collections::VecDeque;

use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use rowkey_client::internals::compare_keys;
use rowkey_client::{
    ClientOptions, DynamicEntity, FailedRow, Filter, Key, Operator, Projection, Query, Result,
    ScanPolicy, Table,
};
use rowkey_patterns::job::Keys;

use crate::row::{PARTITION_KEY, ROW_KEY};

/// Entities read at once by their keys, where queries have no order.
pub(super) const AT_A_TIME: usize = 16;
/// Rows that may be read in a row although they are not looked for: a few pages.
const PASSED: u32 = 2_000;

/// A secondary may be behind.
pub(super) fn primary(table: &Table) -> Table {
    let options = table.account().options().clone();
    table.with_options(ClientOptions { read_from_secondary: false, ..options })
}

/// A row that is found by its keys.
pub(super) trait Found: Projection + Send + 'static {
    fn keys(&self) -> (&str, &str);
    fn of(entity: DynamicEntity) -> Self;
}

impl Found for DynamicEntity {
    fn keys(&self) -> (&str, &str) {
        (&self.partition_key, &self.row_key)
    }

    fn of(entity: DynamicEntity) -> Self {
        entity
    }
}

impl Found for Keys {
    fn keys(&self) -> (&str, &str) {
        (&self.partition_key, &self.row_key)
    }

    fn of(entity: DynamicEntity) -> Self {
        Self { partition_key: entity.partition_key, row_key: entity.row_key }
    }
}

/// Looks for rows with these keys, which are sorted if the rows of the tables have an order. Calls `found` for each of them, in
/// their order.
pub(super) async fn look_up<P: Found>(
    table: &Table,
    is_ordered: bool,
    keys: &[(&str, &str)],
    mut found: impl FnMut(usize, Option<Result<P, FailedRow>>) + Send,
) -> Result<()> {
    if !is_ordered {
        let read = |(partition_key, row_key): &(&str, &str)| {
            table.get(Key::<DynamicEntity>::new(*partition_key, *row_key)).boxed()
        };
        let reads: Vec<_> = keys.iter().map(read).collect();
        let mut read = stream::iter(reads).buffered(AT_A_TIME).enumerate();
        while let Some((at, entity)) = read.next().await {
            found(at, entity?.map(|stored| Ok(P::of(stored.entity))));
        }
        return Ok(());
    }
    let Some(last) = keys.last() else { return Ok(()) };
    let mut left = keys.iter().enumerate().peekable();
    let mut queries = VecDeque::from(ranges(keys[0], *last));
    while let Some(filters) = queries.pop_front() {
        let scan = table.scan::<DynamicEntity>().scan_policy(ScanPolicy::Allow);
        let query = filters.into_iter().fold(scan, Query::filter);
        let mut rows = query.project::<P>().results().stream();
        let mut passed = 0;
        while let Some((_, next)) = left.peek().copied() {
            if passed > PASSED {
                // Many rows that are not looked for: begin again at the next one that is.
                queries = ranges(*next, *last).into();
                break;
            }
            let Some(row) = rows.try_next().await? else { break };
            let place = match &row.entity {
                Ok(row) => row.keys(),
                Err(row) => (&*row.partition_key, &*row.row_key),
            };
            passed += 1;
            // What comes before this row is not there.
            while let Some((at, _)) = left.next_if(|(_, keys)| compare(**keys, place).is_lt()) {
                found(at, None);
                passed = 0;
            }
            if let Some((at, _)) = left.next_if(|(_, keys)| compare(**keys, place).is_eq()) {
                found(at, Some(row.entity));
                passed = 0;
            }
        }
    }
    left.for_each(|(at, _)| found(at, None));
    Ok(())
}

/// The filters of the queries from one row to another, each of one partition or of whole partitions.
fn ranges(first: (&str, &str), last: (&str, &str)) -> Vec<Vec<Filter>> {
    use Operator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
    let partition = |operator, key: &str| Filter::dynamic(PARTITION_KEY, operator, key);
    let row = |operator, key: &str| Filter::dynamic(ROW_KEY, operator, key);
    let [from, to] = [row(GreaterOrEqual, first.1), row(LessOrEqual, last.1)];
    if first.0 == last.0 {
        return vec![vec![partition(Equal, first.0), from, to]];
    }
    vec![
        vec![partition(Equal, first.0), from],
        vec![partition(Greater, first.0), partition(Less, last.0)],
        vec![partition(Equal, last.0), to],
    ]
}

pub(super) fn compare(one: (&str, &str), other: (&str, &str)) -> Ordering {
    compare_keys(one.0, other.0).then_with(|| compare_keys(one.1, other.1))
}

#[cfg(test)]
mod tests {
    use rowkey_client::StorageAccount;

    use super::*;

    #[test]
    fn no_query_has_an_alternative() {
        let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true").unwrap();
        let table = account.table("orders");
        let of = |first, last| {
            let query = |filters: Vec<Filter>| {
                let scan = table.scan::<DynamicEntity>();
                let query = filters.into_iter().fold(scan, Query::filter);
                let [request] = &query.explain().unwrap().requests[..] else { panic!("several") };
                request.filter.clone().unwrap()
            };
            ranges(first, last).into_iter().map(query).collect::<Vec<_>>()
        };
        let one = "PartitionKey eq 'a' and RowKey ge '1' and RowKey le '9'";
        assert_eq!(of(("a", "1"), ("a", "9")), [one]);
        assert_eq!(
            of(("a", "1"), ("c", "9")),
            [
                "PartitionKey eq 'a' and RowKey ge '1'",
                "PartitionKey gt 'a' and PartitionKey lt 'c'",
                "PartitionKey eq 'c' and RowKey le '9'",
            ]
        );
    }
}
