//! Entity group transactions: up to 100 operations on one partition, all or nothing.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use rowkey_entity::entity::Write;
use rowkey_entity::internals::{Row, not_of_a_store};
use rowkey_entity::{Entity, Key, Stored};
use rowkey_wire::etag::{ETag, Match};
use rowkey_wire::limits::{MAX_BATCH_BYTES, MAX_BATCH_OPERATIONS};

use super::encoded::{EncodedRow, RowWrite};
use super::handle::Table;
use super::requests::is_missing_entity;
use super::row::decode_body;
use super::wire::batch::{BatchWriter, encode_query};
use super::wire::encode;
use crate::cost::{Class, Usage};
use crate::endpoint::Flavor;
use crate::error::{Error, Result};
use crate::transport::batch::{PartResponse, decode_response};
use crate::transport::http::content_type;
use crate::transport::{Call, Reply, Safety};

const OPERATION: &str = "EntityGroupTransaction";
const ACCEPT: (&str, &str) = ("Accept", "application/json;odata=minimalmetadata");
const JSON: (&str, &str) = ("Content-Type", "application/json");
const VERSION: (&str, &str) = ("DataServiceVersion", "3.0");
const NO_CONTENT: (&str, &str) = ("Prefer", "return-no-content");

/// The length of the ids that [`Table::transaction`] gives to requests.
const ID: usize = 36;

/// A builder for an entity group transaction, from [`Table::transaction`].
///
/// All entities must be in one partition of one table, none may appear twice, and there are at most
/// 100 operations in at most 4 MiB (2 MiB in Cosmos DB). [`submit`](Self::submit) refuses a
/// transaction that breaks one of these rules before anything is sent.
///
/// [Performing entity group transactions](https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions)
///
/// ```
/// # use rowkey::{Entity, StorageAccount};
/// # #[derive(Clone, Debug, PartialEq, Entity)]
/// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
/// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # let orders = account.table("orders");
/// # orders.create().await?;
/// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
/// # use rowkey::Match;
/// orders.insert(&order(1, 995)).await?;
/// let read = orders.get(Order::key("contoso", 1)).await?.ok_or("not found")?;
/// let moved = orders.transaction().insert(&order(2, 995)).delete(Order::key("contoso", 1), &read);
/// assert_eq!(moved.submit().await?.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
///
/// let both = orders.transaction().upsert(&order(3, 1)).insert(&order(2, 1));
/// let error = both.submit().await.unwrap_err();
/// assert_eq!(error.details().operation_index, Some(1));
/// assert!(orders.get(Order::key("contoso", 3)).await?.is_none());
/// # Ok(()) }
/// ```
#[must_use = "a transaction does nothing until `submit`"]
pub struct Transaction {
    table: Table,
    operations: Vec<Operation>,
    /// The size of the operations in the request in bytes, assuming two-digit Content-IDs.
    size: usize,
    error: Option<Error>,
}

struct Operation {
    verb: Verb,
    subject: Subject,
    /// The URL of the entity; `None` for that of the table, which an insert uses.
    target: Option<String>,
    /// `None` for inserts and upserts, which have no condition.
    condition: Option<Match>,
}

/// What an operation is about: an entity by its keys, or with its encoded properties.
enum Subject {
    Keys(String, String),
    Own(Row),
    /// A row that is sent in several transactions.
    Shared(Arc<Row>),
}

impl Subject {
    fn keys(&self) -> (&str, &str) {
        match self {
            Self::Keys(partition_key, row_key) => (partition_key, row_key),
            Self::Own(row) => row.keys(),
            Self::Shared(row) => row.keys(),
        }
    }

    fn body(&self) -> Option<&[u8]> {
        match self {
            Self::Keys(..) => None,
            Self::Own(row) => Some(&row.body),
            Self::Shared(row) => Some(&row.body),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Delete,
    Insert,
    Merge,
    Replace,
}

impl Transaction {
    pub(crate) fn new(table: Table) -> Self {
        Self { table, operations: Vec::new(), size: 0, error: None }
    }

    /// Inserts a new entity; the transaction fails if an entity with its keys exists.
    pub fn insert<E: Entity>(self, entity: &E) -> Self {
        self.write(Verb::Insert, entity, None)
    }

    /// Replaces an entity under a condition, as [`Table::replace`] does.
    pub fn replace<'a, E: Entity + 'a>(self, write: impl Into<Write<'a, E>>) -> Self {
        let Write { entity, condition, .. } = write.into();
        self.write(Verb::Replace, entity, Some(condition))
    }

    /// Merges into an entity under a condition, as [`Table::merge`] does.
    pub fn merge<'a, E: Entity + 'a>(self, write: impl Into<Write<'a, E>>) -> Self {
        let Write { entity, condition, .. } = write.into();
        self.write(Verb::Merge, entity, Some(condition))
    }

    /// Replaces an entity or inserts it.
    pub fn upsert<E: Entity>(self, entity: &E) -> Self {
        self.write(Verb::Replace, entity, None)
    }

    /// Merges into an entity or inserts it.
    pub fn upsert_merge<E: Entity>(self, entity: &E) -> Self {
        self.write(Verb::Merge, entity, None)
    }

    /// Deletes an entity under a condition, as [`Table::delete`] does.
    pub fn delete<E: Entity>(mut self, key: Key<E>, condition: impl Into<Match>) -> Self {
        const { not_of_a_store::<E>() };
        match key.into_parts() {
            Ok((partition_key, row_key)) => {
                let subject = Subject::Keys(partition_key, row_key);
                self.push(Verb::Delete, subject, Some(condition.into()));
            }
            Err(error) => self.fail(Error::no_such_key(&error)),
        }
        self
    }

    /// Writes a row that is already encoded.
    pub fn row(self, row: &EncodedRow, write: RowWrite) -> Self {
        let (verb, condition) = match write {
            RowWrite::Insert => (Verb::Insert, None),
            RowWrite::Replace(condition) => (Verb::Replace, Some(condition)),
            RowWrite::Merge(condition) => (Verb::Merge, Some(condition)),
            RowWrite::Upsert => (Verb::Replace, None),
            RowWrite::UpsertMerge => (Verb::Merge, None),
        };
        self.write_row(verb, row, condition)
    }

    /// Appends the operations of `other`.
    ///
    /// Both must be transactions on the same table. See [`fits`](Self::fits).
    pub fn append(mut self, other: Self) -> Self {
        if other.table.name() != self.table.name() {
            self.fail(Error::invalid("the other transaction is one on another table"));
        }
        if let Some(error) = other.error {
            self.fail(error);
        }
        self.size += other.size;
        if self.operations.is_empty() {
            self.operations = other.operations;
        } else {
            self.operations.extend(other.operations);
        }
        self
    }

    /// Whether the operations of `other` can be [appended](Self::append) and sent with these: all
    /// are in one partition, no entity appears in both, and together they are within 100 operations
    /// and the size limit.
    ///
    /// Use it to pack a stream of entities into as few transactions as possible:
    ///
    /// ```
    /// # use rowkey::{DynamicEntity, StorageAccount};
    /// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// # let table = account.table("readings");
    /// let mut packed = vec![table.transaction()];
    /// for row in 0..250 {
    ///     let entity = DynamicEntity::new("sensor-7", format!("{row:05}"));
    ///     let one = table.transaction().upsert(&entity);
    ///     match packed.pop() {
    ///         Some(open) if open.fits(&one) => packed.push(open.append(one)),
    ///         full => packed.extend(full.into_iter().chain([one])),
    ///     }
    /// }
    /// assert_eq!(packed.iter().map(|all| all.len()).collect::<Vec<_>>(), [100, 100, 50]);
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    pub fn fits(&self, other: &Self) -> bool {
        let all_of_one_partition = match (self.operations.first(), other.operations.first()) {
            (Some(this), Some(first)) => {
                let of_this = |one: &Operation| one.partition_key() == this.partition_key();
                of_this(first) && other.operations[1..].iter().all(of_this)
            }
            _ => true,
        };
        let touched =
            |one: &Operation| self.operations.iter().any(|op| op.row_key() == one.row_key());
        let operations = self.operations.len() + other.operations.len();
        operations <= MAX_BATCH_OPERATIONS
            && payload_size(operations, self.size + other.size) <= self.payload_limit()
            && all_of_one_partition
            && !other.operations.iter().any(touched)
    }

    /// The PartitionKey of the first operation, which all must share; `None` if the transaction is
    /// empty.
    pub fn partition_key(&self) -> Option<&str> {
        self.operations.first().map(Operation::partition_key)
    }

    /// The size of the request body in bytes.
    pub fn payload_size(&self) -> usize {
        payload_size(self.operations.len(), self.size)
    }

    /// What sending the transaction uses: one transaction of the class `batch write` for all its operations,
    /// and the bytes of its body.
    ///
    /// ```
    /// # use rowkey::{DynamicEntity, StorageAccount};
    /// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// # let table = account.table("readings");
    /// use rowkey::cost::Class;
    ///
    /// let two = table.transaction().insert(&DynamicEntity::new("p", "1")).insert(&DynamicEntity::new("p", "2"));
    /// assert_eq!(two.usage().transactions(Class::TableBatchWrite), 1);
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    pub fn usage(&self) -> Usage {
        Usage::of(Class::TableBatchWrite, 1).with_bytes(self.payload_size() as u64, 0)
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether the transaction has no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Checks the rules that [`submit`](Self::submit) checks before sending: number of operations,
    /// size, no entity twice, one partition. For layers above that do something else first.
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// let twice = orders.transaction().insert(&order(1, 100)).upsert(&order(1, 200));
    /// assert_eq!(twice.check().unwrap_err().kind(), rowkey::ErrorKind::Invalid);
    /// # Ok(()) }
    /// ```
    pub fn check(&self) -> Result<()> {
        let of = |error: Error| error.of(OPERATION, self.table.name());
        check(&self.operations).map_err(of)?;
        let (size, limit) = (self.payload_size(), self.payload_limit());
        if size > limit {
            let what = format!("the transaction has {size} bytes; {limit} are allowed");
            return Err(of(Error::too_large(what).at_operation(self.first_over(limit))));
        }
        Ok(())
    }

    /// Sends the transaction: all operations are applied, or none.
    ///
    /// Returns the ETag of each operation in order, `None` for deletes. On failure
    /// [`ErrorDetails::operation_index`](crate::ErrorDetails::operation_index) says which operation
    /// failed and [`Error::code`] why. A transaction with an insert is not retried after an unknown
    /// outcome unless [`RetryOptions::repeat_inserts`](crate::RetryOptions::repeat_inserts) is set.
    pub async fn submit(mut self) -> Result<Vec<Option<ETag>>> {
        if let Some(error) = self.error.take() {
            return Err(error.of(OPERATION, self.table.name()));
        }
        self.send().await
    }

    /// Sends the transaction, which may be sent again. It has only [rows](Self::row), which cannot fail.
    #[doc(hidden)]
    pub async fn send(&self) -> Result<Vec<Option<ETag>>> {
        self.check()?;
        let size = self.payload_size();
        let Self { table, operations, .. } = self;

        let inserts = operations.iter().any(|operation| operation.verb == Verb::Insert);
        let safety = if inserts { Safety::Insert } else { Safety::Conditional };
        let call = Call::new(OPERATION, table.name(), safety)
            .expecting(&[404, 409, 412])
            .batch_of(operations.len());
        let call = match operations.first() {
            Some(first) => call.in_partition(first.partition_key(), operations.len()),
            None => call,
        };
        let call = match operations.last() {
            Some(last) => call.writing(last.row_key()),
            None => call,
        };
        let mut out = BatchWriter::new(&table.pipeline().unique_id());
        out.reserve(size);
        let address = [table.endpoint(), "/", table.name()].concat();
        for operation in operations {
            operation.write(table, &address, &mut out);
        }
        debug_assert_eq!(out.len(), size, "the size was told wrongly");
        let request = encode::batch(&out.content_type(), out.finish());
        let reply = table.send(request, call).await?;
        committed(&reply, &call, operations.len())
    }

    /// Reads one entity by a query in a batch, which is then the only operation of the request.
    ///
    /// The result is that of [`Table::get`], which is cheaper; use this one for services and
    /// proxies that accept only batches. Fails if operations were added.
    pub async fn get<E: Entity>(self, key: Key<E>) -> Result<Option<Stored<E>>> {
        let Self { table, operations, error, .. } = self;
        let of = |error: Error| error.of(OPERATION, table.name());
        if let Some(error) = error {
            return Err(of(error));
        }
        if !operations.is_empty() {
            return Err(of(Error::invalid("a query must be alone in its batch")));
        }
        let (partition_key, row_key) =
            key.parts().map_err(|error| of(Error::no_such_key(error)))?;
        let target = encode::address(table.name(), partition_key, row_key);
        let target = format!("{}{target}", table.endpoint());
        let (content_type, body) =
            encode_query(&table.pipeline().unique_id(), &target, &[ACCEPT, VERSION]);
        let call = Call::new(OPERATION, table.name(), Safety::Read).expecting(&[404]).batch_of(1);
        let call = call.in_partition(partition_key, 1);
        let reply = match table.send(encode::batch(&content_type, body), call).await {
            Ok(reply) => reply,
            Err(error) if is_missing_entity(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let entity = match parts(&reply, &call)?.as_slice() {
            [part] => decode_body(part.body, part.etag).map(Some),
            _ => Err(Error::decode("the batch has not one answer")),
        };
        entity.map_err(|error| error.of_answer(&call, &reply))
    }

    fn write_row(mut self, verb: Verb, row: &EncodedRow, condition: Option<Match>) -> Self {
        self.push(verb, Subject::Shared(Arc::clone(&row.row)), condition);
        self
    }

    fn write<E: Entity>(mut self, verb: Verb, entity: &E, condition: Option<Match>) -> Self {
        let before = self.operations.last().and_then(|last| Some(last.subject.body()?.len()));
        match Row::like(before, entity) {
            Ok(row) => self.push(verb, Subject::Own(row), condition),
            Err(error) => self.fail(error.into()),
        }
        self
    }

    fn push(&mut self, verb: Verb, subject: Subject, condition: Option<Match>) {
        let table = &self.table;
        let target = (verb != Verb::Insert).then(|| {
            let (partition_key, row_key) = subject.keys();
            let address = encode::address(table.name(), partition_key, row_key);
            [table.endpoint(), &address].concat()
        });
        let operation = Operation { verb, subject, target, condition };
        self.size += operation.size(table);
        self.operations.push(operation);
    }

    fn payload_limit(&self) -> usize {
        match self.table.flavor() {
            Flavor::Cosmos => MAX_BATCH_BYTES / 2,
            Flavor::Storage => MAX_BATCH_BYTES,
        }
    }

    /// The first operation with which the request is larger than `limit`.
    fn first_over(&self, limit: usize) -> Option<usize> {
        let mut size = 0;
        self.operations.iter().enumerate().position(|(index, operation)| {
            size += operation.size(&self.table);
            payload_size(index + 1, size) > limit
        })
    }

    /// Records the first error and the operation it belongs to.
    fn fail(&mut self, error: Error) {
        let index = self.operations.len();
        self.error.get_or_insert_with(|| error.at_operation(Some(index)));
    }
}

impl Operation {
    fn partition_key(&self) -> &str {
        self.subject.keys().0
    }

    fn row_key(&self) -> &str {
        self.subject.keys().1
    }

    fn method(&self, table: &Table) -> &'static str {
        match self.verb {
            Verb::Delete => "DELETE",
            Verb::Insert => "POST",
            Verb::Merge if table.flavor() == Flavor::Cosmos => "MERGE",
            Verb::Merge => "PATCH",
            Verb::Replace => "PUT",
        }
    }

    /// Calls `with` with the headers.
    fn with_headers<T>(&self, with: impl FnOnce(&[(&str, &str)]) -> T) -> T {
        let condition = self.condition.as_ref().map(|condition| ("If-Match", condition.as_str()));
        match (self.subject.body(), self.verb, condition) {
            (Some(_), Verb::Insert, _) => with(&[ACCEPT, VERSION, JSON, NO_CONTENT]),
            (Some(_), _, Some(condition)) => with(&[ACCEPT, VERSION, JSON, condition]),
            (Some(_), _, None) => with(&[ACCEPT, VERSION, JSON]),
            (None, _, Some(condition)) => with(&[ACCEPT, VERSION, condition]),
            (None, _, None) => with(&[ACCEPT, VERSION]),
        }
    }

    /// Writes the operation. `address` is the URL of the table.
    fn write(&self, table: &Table, address: &str, out: &mut BatchWriter) {
        let method = self.method(table);
        let target = self.target.as_deref().unwrap_or(address);
        self.with_headers(|headers| {
            out.operation(method, target, headers, self.subject.body());
        });
    }

    /// The size of the operation in a request in bytes, assuming a two-digit Content-ID.
    fn size(&self, table: &Table) -> usize {
        let method = self.method(table);
        let of_table = || table.endpoint().len() + 1 + table.name().len();
        let target = self.target.as_ref().map_or_else(of_table, String::len);
        self.with_headers(|headers| {
            BatchWriter::operation_len(ID, method, target, headers, self.subject.body())
        })
    }
}

/// The size of a request with `operations` operations, which take `size` bytes if each has a number
/// of two digits; the first ten have one digit.
fn payload_size(operations: usize, size: usize) -> usize {
    BatchWriter::envelope_len(ID) + size - operations.min(10)
}

/// Checks the rules that can be checked before sending, except the size.
fn check(operations: &[Operation]) -> Result<()> {
    let Some(first) = operations.first() else {
        return Err(Error::invalid("the transaction has no operations"));
    };
    if operations.len() > MAX_BATCH_OPERATIONS {
        let what = format!(
            "the transaction has {} operations; {MAX_BATCH_OPERATIONS} are allowed",
            operations.len()
        );
        return Err(Error::too_large(what).at_operation(Some(MAX_BATCH_OPERATIONS)));
    }
    let mut rows = HashSet::with_capacity(operations.len());
    for (index, operation) in operations.iter().enumerate() {
        if operation.partition_key() != first.partition_key() {
            let what = "the entity is in another partition than the first; a transaction is \
                        limited to one partition";
            return Err(Error::invalid(what).at_operation(Some(index)));
        }
        if !rows.insert(operation.row_key()) {
            let what = "the entity appears twice; a transaction may touch each entity once";
            return Err(Error::invalid(what).at_operation(Some(index)));
        }
    }
    Ok(())
}

/// The ETag of each operation of a transaction that succeeded, or the reason why it failed.
fn committed(reply: &Reply, call: &Call<'_>, operations: usize) -> Result<Vec<Option<ETag>>> {
    let parts = parts(reply, call)?;
    if parts.len() != operations || parts.iter().any(|part| !(200..300).contains(&part.status)) {
        let what = format!("{operations} operations were sent, and not as many were done");
        return Err(Error::decode(what).of_answer(call, reply));
    }
    Ok(parts.into_iter().map(|part| part.etag.map(ETag::new)).collect())
}

fn parts<'a>(reply: &'a Reply, call: &Call<'_>) -> Result<Vec<PartResponse<'a>>> {
    decode_response(content_type(&reply.headers), &reply.body).map_err(|error| {
        Error::decode("the answer to the batch cannot be read")
            .with_source(error)
            .of_answer(call, reply)
    })
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("table", &self.table.name())
            .field("operations", &self.operations.len())
            .finish_non_exhaustive()
    }
}
