//! Blob Batch: several blobs of a container are deleted by one request.

use rowkey_wire::auth::Service;
use rowkey_wire::headers::ERROR_CODE;

use super::container::Container;
use super::handle::{Blob, check, is_missing_blob};
use crate::blob::wire::decode::{self, BatchPart};
use crate::blob::wire::encode;
use crate::error::{Error, Outcome, Result};
use crate::transport::failure::Failure;
use crate::transport::http::{ErrorText, content_type};
use crate::transport::parts::Parts;
use crate::transport::{Call, Reply, Request, Safety};

/// The most blobs in a batch.
pub const MAX_BLOBS: usize = 256;

impl Container {
    /// Deletes up to 256 blobs of this container by one request, each as
    /// [`Blob::delete_if_exists`] does, and returns the result of each in their order. Without blobs,
    /// nothing is sent.
    ///
    /// A result is `true` if the blob was deleted, `false` if it did not exist, and an error if this
    /// deletion was refused, which says nothing about the others:
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if a condition of its handle does not hold,
    /// [`ErrorKind::Leased`](crate::ErrorKind::Leased) without its lease, or
    /// [`ErrorKind::Throttled`](crate::ErrorKind::Throttled). The conditions, the lease and the snapshot of
    /// each handle apply.
    ///
    /// The call itself fails if the batch as a whole was not answered or refused. If its
    /// [`outcome`](crate::Error::outcome) is [`Outcome::Unknown`], any of the blobs may be deleted.
    /// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge): more than 256 blobs, or more than 4 MiB, which only long
    /// names reach; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid): a blob of another container or account. Then
    /// nothing was sent.
    ///
    /// The credential of this container authorizes all of it: a shared access signature must permit
    /// deletion. A batch that is not answered is repeated like a single deletion; a blob that the first attempt
    /// deleted has the result `true`. The deletions that were refused are not repeated.
    ///
    /// It is one request on the wire. Azure bills the batch, and each deletion in it, as one transaction each.
    ///
    /// [Blob Batch](https://learn.microsoft.com/rest/api/storageservices/blob-batch)
    ///
    /// ```
    /// use rowkey::ErrorKind;
    ///
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let files = account.container("files");
    /// # files.create().await?;
    /// let [draft, note] = ["draft.txt", "note.txt"].map(|name| files.blob(name));
    /// draft.put("a draft").send().await?;
    /// let read = note.put("a note").send().await?;
    /// note.put("another note").send().await?;
    ///
    /// // The note only if it is as it was when it was read.
    /// let note = note.with_conditions(&read.etag);
    /// let results = files.delete_blobs(&[draft, files.blob("missing"), note]).await?;
    /// assert!(matches!(results[0], Ok(true)));
    /// assert!(matches!(results[1], Ok(false)));
    /// let error = results[2].as_ref().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Conflict);
    /// # Ok(()) }
    /// ```
    pub async fn delete_blobs(&self, blobs: &[Blob]) -> Result<Vec<Result<bool>>> {
        let call = Call::new("BlobBatch", self.name(), Safety::Conditional);
        if blobs.is_empty() {
            return Ok(Vec::new());
        }
        if blobs.len() > MAX_BLOBS {
            let what = format!("a batch has {MAX_BLOBS} blobs at most, not {}", blobs.len());
            return Err(Error::too_large(what).of(call.operation, call.resource));
        }
        let requests = blobs.iter().map(|blob| self.deletion(&call, blob));
        let requests = requests.collect::<Result<Vec<_>>>()?;
        let boundary = format!("batch_{}", self.account().pipeline().unique_id());
        let parts = Parts { boundary: &boundary, requests: &requests };
        let call = call.with_parts(parts);
        let reply = self.send(encode::batch(self.name(), &boundary), call).await?;
        results(&reply, &call, blobs.len())
    }

    /// The request in a batch that deletes a blob.
    fn deletion(&self, call: &Call<'_>, blob: &Blob) -> Result<Request> {
        check(call, Some(blob.name()))?;
        let address = |account: &crate::account::StorageAccount| {
            let endpoints = account.pipeline().endpoints().of(Service::Blob);
            endpoints.map(|endpoints| endpoints.primary.base().to_owned())
        };
        if blob.container() != self.name() || address(blob.account()) != address(self.account()) {
            return Err(Error::invalid("a blob of the batch is not in this container")
                .of(call.operation, call.resource));
        }
        Ok(blob.deletion())
    }
}

/// The results of the deletions in a batch that was answered.
fn results(reply: &Reply, call: &Call<'_>, count: usize) -> Result<Vec<Result<bool>>> {
    let unreadable = |what: &'static str| Error::decode(what).of_answer(call, reply);
    let parts = decode::batch(content_type(&reply.headers), &reply.body)
        .map_err(|error| unreadable("the answer to the batch cannot be read").with_source(error))?;
    // An answer without a number is about the whole batch, and the only one.
    if let [BatchPart { number: None, response }] = &*parts
        && !(200..300).contains(&response.status)
    {
        return Err(refused(&parts[0], reply, call));
    }
    let mut results: Vec<Option<Result<bool>>> = (0..count).map(|_| None).collect();
    // Other servers may leave the numbers out.
    let in_order = parts.len() == count && parts.iter().all(|part| part.number.is_none());
    for (place, part) in parts.iter().enumerate() {
        let number = if in_order { Some(place) } else { part.number };
        let result = number.and_then(|number| results.get_mut(number));
        let Some(result @ None) = result else {
            return Err(unreadable("the answer to the batch does not match its requests"));
        };
        let one = Call { operation: "DeleteBlob", ..*call };
        *result = Some(if (200..300).contains(&part.response.status) {
            Ok(true)
        } else {
            let error = refused(part, reply, &one).at_operation(number);
            if is_missing_blob(&error) {
                Ok(error.outcome() == Outcome::Unknown)
            } else {
                Err(error)
            }
        });
    }
    let unanswered = || unreadable("the answer to the batch leaves this deletion out");
    let named = results.into_iter().enumerate().map(|(number, result)| {
        result.unwrap_or_else(|| Err(unanswered().at_operation(Some(number))))
    });
    Ok(named.collect())
}

/// The error in a part of the answer.
fn refused(part: &BatchPart<'_>, reply: &Reply, call: &Call<'_>) -> Error {
    let BatchPart { response, .. } = part;
    let mut headers = http::HeaderMap::new();
    let code = response.header(ERROR_CODE.as_str());
    if let Some(code) = code.and_then(|code| http::HeaderValue::from_str(code).ok()) {
        headers.insert(ERROR_CODE, code);
    }
    let ErrorText { code, message, .. } = ErrorText::of(&headers, response.body);
    let request_id = response.header(rowkey_wire::headers::REQUEST_ID.as_str());
    let failure = Failure {
        status: response.status,
        code,
        message,
        request_id: request_id.or_else(|| reply.request_id()),
        attempts: reply.attempts,
        ambiguous: reply.ambiguous,
    };
    Error::from_response(call, failure)
}
