//! The access policies of a table.

use http::{StatusCode, header};
use rowkey_wire::auth::Service;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

use super::call::Call;
use crate::front::documents;
use crate::front::respond::{self, HttpResponse};

/// Get Table ACL.
pub(super) fn get_acl(call: &Call<'_>, table: &str) -> Result<HttpResponse, Rejection> {
    Ok(documents::policies(Service::Table, call.account.store().table(table)?.policies()))
}

/// Set Table ACL. It takes effect at once; the service takes up to 30 s.
pub(super) fn set_acl(call: &Call<'_>, table: &str) -> Result<HttpResponse, Rejection> {
    // Recorded: requests that accept anything are rejected; those that accept XML, or have no
    // `Accept`, are not.
    if call.headers.get(header::ACCEPT).is_some_and(|accept| accept == "*/*") {
        return Err(Rejection::new(ErrorCode::MEDIA_TYPE_NOT_SUPPORTED));
    }
    call.change(|store| {
        let table = store.table_mut(table)?;
        table.set_policies(documents::read_policies(Service::Table, call.body)?);
        Ok(respond::empty(StatusCode::NO_CONTENT))
    })
}
