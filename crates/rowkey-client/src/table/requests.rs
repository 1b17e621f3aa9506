//! The requests of a table for one entity, without its type, so that they are compiled only once.

use bytes::Bytes;
use rowkey_entity::internals::Row;
use rowkey_entity::key::KeyError;
use rowkey_entity::{EncodeError, Projection, Stored};
use rowkey_wire::auth::Service;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::etag::{ETag, Match};

use super::handle::Table;
use super::name;
use super::row::decode_body;
use crate::endpoint::Flavor;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::table::wire::decode as headers;
use crate::table::wire::encode;
use crate::transport::{Call, Pipeline, Reply, Request, Safety};

impl Table {
    pub(crate) fn pipeline(&self) -> &Pipeline {
        self.account().pipeline()
    }

    pub(crate) fn flavor(&self) -> Flavor {
        self.account().flavor()
    }

    pub(crate) fn endpoint(&self) -> &str {
        self.pipeline().endpoints().base(Service::Table)
    }

    /// Empty if there is no secondary endpoint.
    pub(crate) fn secondary_endpoint(&self) -> &str {
        let place = self.pipeline().endpoints().of(Service::Table);
        place.and_then(|place| place.secondary.as_ref()).map_or("", |endpoint| endpoint.base())
    }

    /// Checks the table's name and sends the request.
    pub(crate) async fn send(&self, request: Request, call: Call<'_>) -> Result<Reply> {
        self.check_name(call.operation)?;
        self.pipeline().send(request, call).await
    }

    pub(crate) fn check_name(&self, operation: &'static str) -> Result<()> {
        name::check(self.name())
            .map_err(|error| Error::invalid(error.to_string()).of(operation, self.name()))
    }

    pub(crate) async fn insert_row(&self, row: Result<Row, EncodeError>) -> Result<ETag> {
        let call = Call::new("InsertEntity", self.name(), Safety::Insert).expecting(&[409]);
        let row = row.map_err(|error| Error::from(error).of(call.operation, call.resource))?;
        let call = call.in_partition(&row.keys.0, 1);
        let call = call.writing(&row.keys.1);
        let reply = self.send(encode::insert(self.name(), row.body.into()), call).await?;
        written(&reply, &call)
    }

    pub(crate) async fn replace_row(
        &self,
        row: Result<Row, EncodeError>,
        condition: Option<&Match>,
    ) -> Result<ETag> {
        let operation = if condition.is_some() { "UpdateEntity" } else { "InsertOrReplaceEntity" };
        let call = Call::new(operation, self.name(), Safety::Conditional).expecting(&[404, 412]);
        let row = row.map_err(|error| Error::from(error).of(call.operation, call.resource))?;
        let keys = (&*row.keys.0, &*row.keys.1);
        let call = call.in_partition(keys.0, 1);
        let call = call.writing(keys.1);
        let request = encode::replace(self.name(), keys, condition, Bytes::from(row.body));
        let reply = self.send(request, call).await?;
        written(&reply, &call)
    }

    pub(crate) async fn merge_row(
        &self,
        row: Result<Row, EncodeError>,
        condition: Option<&Match>,
    ) -> Result<ETag> {
        let operation = if condition.is_some() { "MergeEntity" } else { "InsertOrMergeEntity" };
        let call = Call::new(operation, self.name(), Safety::Conditional).expecting(&[404, 412]);
        let row = row.map_err(|error| Error::from(error).of(call.operation, call.resource))?;
        let keys = (&*row.keys.0, &*row.keys.1);
        let call = call.in_partition(keys.0, 1);
        let call = call.writing(keys.1);
        let body = Bytes::from(row.body);
        let request = encode::merge(self.flavor(), self.name(), keys, condition, body);
        let reply = self.send(request, call).await?;
        written(&reply, &call)
    }

    pub(super) async fn delete_row(
        &self,
        keys: Result<(&str, &str), &KeyError>,
        condition: &Match,
        expected: &'static [u16],
    ) -> Result<Reply> {
        let call = Call::new("DeleteEntity", self.name(), Safety::Conditional).expecting(expected);
        let keys =
            keys.map_err(|error| Error::no_such_key(error).of(call.operation, call.resource))?;
        let call = call.in_partition(keys.0, 1);
        let call = call.writing(keys.1);
        self.send(encode::delete(self.name(), keys, condition), call).await
    }

    pub(crate) async fn get_body(
        &self,
        keys: Result<(&str, &str), &KeyError>,
        select: Option<&[&str]>,
    ) -> Result<Option<Reply>> {
        let call = Call::new("GetEntity", self.name(), Safety::Read).expecting(&[404]);
        let (partition_key, row_key) =
            keys.map_err(|error| Error::no_such_key(error).of(call.operation, call.resource))?;
        let call = call.in_partition(partition_key, 1);
        let request = encode::get(self.name(), partition_key, row_key, select);
        match self.send(request, call).await {
            Ok(reply) => Ok(Some(reply)),
            Err(error) if is_missing_entity(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn decode_one<P: Projection>(&self, reply: &Reply) -> Result<Stored<P>> {
        let call = Call::new("GetEntity", self.name(), Safety::Read);
        let mut stored = decode_body(&reply.body, headers::etag_text(&reply.headers))
            .map_err(|error| error.of_answer(&call, reply))?;
        stored.receipt = reply.receipt();
        self.pipeline().returned(Service::Table, &call, reply, 1);
        Ok(stored)
    }
}

/// The ETag of a write that succeeded.
fn written(reply: &Reply, call: &Call<'_>) -> Result<ETag> {
    headers::etag(&reply.headers)
        .ok_or_else(|| Error::decode("the answer to the write has no ETag").of_answer(call, reply))
}

/// Maps the absence of the resource to `false`. If an earlier attempt of the same call may have
/// deleted the resource, that attempt is assumed to have succeeded.
pub(super) fn gone(result: Result<Reply>) -> Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound && is_resource(&error) => {
            Ok(error.outcome() == Outcome::Unknown)
        }
        Err(error) => Err(error),
    }
}

/// Whether a point get failed because the entity does not exist. A missing table is another error.
pub(crate) fn is_missing_entity(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound && is_resource(error)
}

fn is_resource(error: &Error) -> bool {
    error.code() != Some(&ErrorCode::TABLE_NOT_FOUND)
}
