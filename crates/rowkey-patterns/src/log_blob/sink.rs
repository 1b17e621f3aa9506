//! Writes blocks of lines: the writer's current blob, and the block that is being sent.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::TryStreamExt as _;
use rowkey_client::blob::{Conditions, ContentHeaders};
use rowkey_client::{Blob, ClientOptions, Error, ErrorKind, Outcome, Result, RetryOptions};

use super::buffer::Block;
use super::{BlobLog, name};

/// The maximum number of blocks in an append blob.
const MAX_BLOCKS: u32 = 50_000;

/// In how many blobs a block is tried before this becomes an error.
const MAX_BLOBS: usize = 4;

/// The output of a writer, used by one task at a time.
#[derive(Default)]
pub(super) struct Sink {
    /// A block that is not known to be in a blob. It stays here until that is known, even if the task that
    /// sends it is dropped, and is sent to the same place again.
    pub(super) sending: Option<Block<Bytes>>,
    open: Option<OpenBlob>,
    /// The total number of lines written.
    pub(super) written: u64,
}

/// A blob that this writer has created; no other client appends to it.
struct OpenBlob {
    blob: Blob,
    begin: DateTime<Utc>,
    number: u32,
    length: u64,
    blocks: u32,
    first: DateTime<Utc>,
    /// The time of the last line; `None` if there is none.
    last: Option<DateTime<Utc>>,
}

impl Sink {
    /// Appends the block in `sending`, continuing where an interrupted attempt stopped.
    pub(super) async fn send(&mut self, log: &BlobLog) -> Result<()> {
        let Self { sending: Some(block), open, written } = self else { return Ok(()) };
        for _ in 0..MAX_BLOBS {
            let number = match open {
                Some(full) if !full.takes(block, log) => {
                    let next = (full.begin == block.begin).then_some(full.number + 1);
                    // Its end in the metadata stays valid; it only makes readers open more blobs.
                    if let Err(error) = full.seal().await {
                        tracing::debug!(%error, "the end time of a log's blob could not be set; the end of its period is used");
                    }
                    *open = None;
                    next
                }
                _ => None,
            };
            let blob = match open {
                Some(blob) => blob,
                None => open.insert(OpenBlob::create(log, block, number.unwrap_or(1)).await?),
            };
            if blob.append(block).await? {
                *written += block.lines;
                self.sending = None;
                return Ok(());
            }
            // The blob was deleted, or another client wrote to it: the rest of the block goes to a new one.
            *open = None;
        }
        let what = "other clients deleted or changed every blob that was started for the log";
        Err(Error::refused(ErrorKind::Conflict, what).of("WriteLog", log.container.name()))
    }

    /// Ends the blob: sets the time of its last line in the metadata. Later lines go to a new blob.
    pub(super) async fn close(&mut self) -> Result<()> {
        if let Some(open) = &self.open {
            open.seal().await?;
        }
        self.open = None;
        Ok(())
    }
}

impl OpenBlob {
    /// Creates the next blob of a period, skipping numbers that other writers have taken.
    async fn create(log: &BlobLog, block: &Block<Bytes>, mut number: u32) -> Result<Self> {
        let Block { begin, first, .. } = *block;
        // A repeated request finds the blob of the first one, which stays behind empty.
        let retry = log.container.account().options().retry.clone();
        let options = ClientOptions {
            retry: RetryOptions { repeat_inserts: true, ..retry },
            ..log.container.account().options().clone()
        };
        let end = begin + log.period_delta() - name::STEP;
        let metadata = [(name::START, &*name::time(first)), (name::END, &*name::time(end))];
        let headers = ContentHeaders {
            content_type: Some("text/plain; charset=utf-8".into()),
            ..ContentHeaders::default()
        };
        let mut listed = false;
        loop {
            if number > name::MAX_NUMBER {
                let what = format!("the period of the log has {} blobs", name::MAX_NUMBER);
                return Err(Error::refused(ErrorKind::TooLarge, what)
                    .of("WriteLog", log.container.name())
                    .advise("use larger blobs or shorter periods"));
            }
            let blob = log.container.blob(&name::blob(&log.service, begin, number));
            let missing = blob.with_options(options.clone()).with_conditions(Conditions::missing());
            match missing.create_append_with(&headers, &metadata).await {
                Ok(_) => {
                    return Ok(Self {
                        blob,
                        begin,
                        number,
                        length: 0,
                        blocks: 0,
                        first,
                        last: None,
                    });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    number += 1;
                    if !listed {
                        listed = true;
                        number = number.max(Self::last_number(log, begin).await? + 1);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn last_number(log: &BlobLog, begin: DateTime<Utc>) -> Result<u32> {
        let folder = name::folder(&log.service, begin);
        let blobs = log.container.blobs().starting_with(&folder).stream();
        let last = blobs.try_fold(0, async |last, blob| {
            let number = name::parse(&log.service, &blob.name).map_or(0, |(_, number)| number);
            Ok(number.max(last))
        });
        last.await
    }

    fn takes(&self, block: &Block<Bytes>, log: &BlobLog) -> bool {
        let fits = self.length == 0 || self.length + block.bytes.len() as u64 <= log.max_blob;
        let follows = self.last.is_none_or(|last| last <= block.first);
        self.begin == block.begin && fits && follows && self.blocks < MAX_BLOCKS
    }

    /// Appends the block at the end of the blob, or detects that it is already there. Returns `false` if the
    /// blob is not as this writer left it.
    async fn append(&mut self, block: &Block<Bytes>) -> Result<bool> {
        let end = self.length + block.bytes.len() as u64;
        match self.blob.append(block.bytes.clone()).at(self.length).send().await {
            Ok(appended) => (self.length, self.blocks) = (end, appended.blocks),
            Err(error) if is_refused(&error) => {
                // An earlier attempt, whose response was lost, may have appended it.
                let Some(properties) = self.blob.properties().await? else { return Ok(false) };
                if properties.length < end {
                    return Ok(false);
                }
                let there = self.blob.read().range(self.length..end).bytes().await?;
                if there.is_none_or(|there| there.bytes != block.bytes) {
                    return Ok(false);
                }
                self.length = properties.length;
                self.blocks = properties.blocks.unwrap_or(self.blocks + 1);
            }
            Err(error) => return Err(error),
        }
        self.last = Some(block.last);
        Ok(true)
    }

    async fn seal(&self) -> Result<()> {
        let Some(last) = self.last else { return Ok(()) };
        let metadata = [(name::START, &*name::time(self.first)), (name::END, &*name::time(last))];
        match self.blob.set_metadata(&metadata).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            result => result.map(|_| ()),
        }
    }
}

/// Returns whether the append was refused because the blob is not as this writer left it.
fn is_refused(error: &Error) -> bool {
    let refused = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Leased);
    error.kind() == ErrorKind::Conflict || (refused && error.outcome() == Outcome::Rejected)
}
