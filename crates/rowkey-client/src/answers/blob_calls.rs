//! Leases, copies and appends of the blobs that a stub holds. Time does not pass in a stub: a lease lasts until it is
//! released or broken, and a copy is complete at once.

use bytes::Bytes;
use http::Method;
use percent_encoding::percent_decode_str;
use rowkey_wire::blob::headers as names;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::headers::METADATA_PREFIX;

use super::exchange::Exchange;
use super::objects::{Objects, Stored, error, summed};
use super::{Answer, empty, written_at};

impl Objects {
    /// The refusal of a request on a blob that is leased, unless it has the lease.
    pub(super) fn guard(&self, request: &Exchange<'_>, path: &str) -> Option<ErrorCode> {
        let lease = self.blobs.get(path)?.lease.as_deref();
        match (lease, request.header(names::LEASE_ID.as_str())) {
            (Some(_), None) if matches!(*request.method, Method::GET | Method::HEAD) => None,
            (Some(_), None) => Some(ErrorCode::LEASE_ID_MISSING),
            (Some(lease), Some(own)) if lease != own => {
                Some(ErrorCode::LEASE_ID_MISMATCH_WITH_BLOB_OPERATION)
            }
            (None, Some(_)) => Some(ErrorCode::LEASE_NOT_PRESENT_WITH_BLOB_OPERATION),
            _ => None,
        }
    }

    /// Lease Blob.
    pub(super) fn lease(&mut self, request: &Exchange<'_>, path: &str) -> Option<Answer> {
        self.writes += 1;
        let made = format!("00000000-0000-0000-0000-{:012}", self.writes);
        let Some(blob) = self.blobs.get_mut(path) else {
            return Some(error(ErrorCode::BLOB_NOT_FOUND));
        };
        let own = request.header(names::LEASE_ID.as_str());
        let proposed = request.header(names::PROPOSED_LEASE_ID.as_str());
        let is_held = own.is_some() && own == blob.lease.as_deref();
        let answer = match request.header(names::LEASE_ACTION.as_str())? {
            "acquire" if blob.lease.is_none() || blob.lease.as_deref() == proposed => {
                blob.lease = Some(proposed.map_or(made, str::to_owned));
                empty(201)
            }
            "acquire" => error(ErrorCode::LEASE_ALREADY_PRESENT),
            "break" if blob.lease.is_none() => {
                error(ErrorCode::LEASE_NOT_PRESENT_WITH_LEASE_OPERATION)
            }
            "break" => {
                blob.lease = None;
                empty(202).header(names::LEASE_TIME.as_str(), "0")
            }
            _ if !is_held => error(ErrorCode::LEASE_ID_MISMATCH_WITH_LEASE_OPERATION),
            "renew" => empty(200),
            "change" => {
                blob.lease = Some(proposed?.to_owned());
                empty(200)
            }
            "release" => {
                blob.lease = None;
                empty(200)
            }
            _ => return None,
        };
        if answer.status >= 400 {
            return Some(answer);
        }
        let answer = blob.versioned(answer);
        Some(match &blob.lease {
            Some(lease) => answer.header(names::LEASE_ID.as_str(), lease),
            None => answer,
        })
    }

    /// Copy Blob, within the account.
    pub(super) fn copy(&mut self, path: &str, source: &str) -> Answer {
        let source = source.split_once("://").map_or(source, |(_, rest)| rest);
        let source = source.split_once('/').map_or("", |(_, rest)| rest);
        let source = source.split('?').next().unwrap_or_default();
        let source = format!("/{}", percent_decode_str(source).decode_utf8_lossy());
        let Some(original) = self.blobs.get(&source) else {
            return error(ErrorCode::BLOB_NOT_FOUND);
        };
        let mut copy = original.clone();
        self.writes += 1;
        copy.etag = format!("\"0x{:X}\"", self.writes);
        copy.lease = self.blobs.get(path).and_then(|before| before.lease.clone());
        let copied = [
            (names::COPY_ID.to_string(), format!("00000000-0000-0000-0000-{:012}", self.writes)),
            (names::COPY_STATUS.to_string(), "success".to_owned()),
        ];
        copy.headers.retain(|(name, _)| copied.iter().all(|(copied, _)| name != copied));
        copy.headers.extend(copied.clone());
        let answer = copy.versioned(empty(202));
        self.blobs.insert(path.to_owned(), copy);
        copied.iter().fold(answer, |answer, (name, value)| answer.header(name, value))
    }

    /// Append Block.
    pub(super) fn append(&mut self, request: &Exchange<'_>, path: &str) -> Answer {
        self.writes += 1;
        let etag = format!("\"0x{:X}\"", self.writes);
        let Some(blob) = self.blobs.get_mut(path) else {
            return error(ErrorCode::BLOB_NOT_FOUND);
        };
        let is_appended = |(name, value): &(String, String)| {
            name == names::BLOB_TYPE.as_str() && value == "AppendBlob"
        };
        if !blob.headers.iter().any(is_appended) {
            return error(ErrorCode::INVALID_BLOB_TYPE);
        }
        let limit = |name: &str| request.header(name).and_then(|limit| limit.parse::<usize>().ok());
        let offset = blob.content.len();
        if limit(names::APPEND_POSITION.as_str()).is_some_and(|position| position != offset) {
            return error(ErrorCode::APPEND_POSITION_CONDITION_NOT_MET);
        }
        let length = offset + request.body.len();
        if limit(names::MAX_SIZE.as_str()).is_some_and(|most| length > most) {
            return error(ErrorCode::MAX_BLOB_SIZE_CONDITION_NOT_MET);
        }
        blob.content = Bytes::from([&*blob.content, request.body].concat());
        blob.appended += 1;
        blob.etag = etag;
        blob.versioned(summed(empty(201), request.body))
            .header(names::APPEND_OFFSET.as_str(), &offset.to_string())
            .header(names::COMMITTED_BLOCKS.as_str(), &blob.appended.to_string())
    }

    /// Set Blob Metadata.
    pub(super) fn set_metadata(&mut self, request: &Exchange<'_>, path: &str) -> Answer {
        self.writes += 1;
        let etag = format!("\"0x{:X}\"", self.writes);
        let Some(blob) = self.blobs.get_mut(path) else {
            return error(ErrorCode::BLOB_NOT_FOUND);
        };
        blob.headers.retain(|(name, _)| !name.starts_with(METADATA_PREFIX));
        let metadata = request.headers.iter().filter_map(|(name, value)| {
            let is_metadata = name.as_str().starts_with(METADATA_PREFIX);
            is_metadata.then(|| Some((name.to_string(), value.to_str().ok()?.to_owned())))?
        });
        blob.headers.extend(metadata);
        blob.etag = etag;
        blob.versioned(empty(200))
    }
}

impl Stored {
    /// Adds the version of the blob.
    pub(super) fn versioned(&self, answer: Answer) -> Answer {
        answer.header("ETag", &self.etag).header("Last-Modified", &written_at().to_http())
    }

    /// Adds what a read shows of the lease and of appended blocks.
    pub(super) fn stated(&self, answer: Answer) -> Answer {
        let (state, status) =
            if self.lease.is_some() { ("leased", "locked") } else { ("available", "unlocked") };
        let answer = answer
            .header(names::LEASE_STATE.as_str(), state)
            .header(names::LEASE_STATUS.as_str(), status);
        if self.appended == 0 {
            return answer;
        }
        answer.header(names::COMMITTED_BLOCKS.as_str(), &self.appended.to_string())
    }
}
