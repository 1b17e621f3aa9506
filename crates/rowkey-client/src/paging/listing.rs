//! Listings of tables, queues, containers and blobs: entry by entry or page by page, resuming where an
//! earlier one ended.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey_wire::filter::Filter as WireFilter;
use rowkey_wire::limits::{MAX_LISTING, MAX_PAGE};
use rowkey_wire::shown;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::progress::{Limits, Progress, limits};
use super::{Continuation, Stream, Token, fingerprint};
use crate::account::StorageAccount;
use crate::error::{Error, Result};
use crate::transport::{Host, Reply};

/// A listing of an account's tables, queues or containers, or of the blobs of a container, in the order of
/// their names.
///
/// ```
/// # use futures_util::TryStreamExt as _;
/// # use rowkey::StorageAccount;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// for name in ["jobs-a", "jobs-b", "mail"] {
///     account.queue(name).create().await?;
/// }
/// let jobs = || account.queues().starting_with("jobs-").page_size(1);
/// let page = jobs().pages().try_next().await?.ok_or("there is a page")?;
/// assert_eq!(page.entries[0].name, "jobs-a");
///
/// // Stored as text, and resumed in this process or another.
/// let stored = page.continuation.ok_or("there is more")?.to_string();
/// let rest = jobs().resume(stored.parse()?).all().await?;
/// assert_eq!(rest[0].name, "jobs-b");
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is listed until `stream`, `pages` or `all`"]
pub struct Listing<T> {
    pub(crate) account: StorageAccount,
    /// The name of the container whose blobs are listed; `None`: the account's resources.
    pub(crate) container: Option<Box<str>>,
    pub(crate) prefix: Option<String>,
    /// For tables only.
    pub(crate) filter: Option<WireFilter>,
    /// For blobs only.
    pub(crate) delimiter: Option<String>,
    pub(crate) include: Include,
    pub(crate) page_size: Option<u32>,
    max_page: u32,
    resume: Option<ListingContinuation>,
    limits: Limits,
    error: Option<Error>,
    operation: &'static str,
    read: ReadPage<T>,
}

/// What else the listing includes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Include {
    pub(crate) metadata: bool,
    pub(crate) snapshots: bool,
    pub(crate) uncommitted: bool,
}

/// One page of a listing: one response of the service.
#[derive(Clone, Debug)]
pub struct ListingPage<T> {
    /// The entries. May be empty although there are more pages.
    pub entries: Vec<T>,
    /// The start of the next page; `None` at the end.
    pub continuation: Option<ListingContinuation>,
}

/// A continuation token: the position at which a listing resumes.
///
/// Store it as text (`to_string` and `parse`, or serde) and pass it to the same listing later, in
/// this process or another; a different listing refuses it. It contains a name.
#[derive(Clone, PartialEq, Eq)]
pub struct ListingContinuation {
    listing: u64,
    marker: String,
    /// Whether it came from the secondary: markers are valid only at the endpoint that returned
    /// them.
    secondary: bool,
}

/// Reads the page that begins at the given position.
type ReadPage<T> =
    fn(Arc<Listing<T>>, Option<NextPage>) -> BoxFuture<'static, Result<PageEntries<T>>>;

/// The entries of a page, and the start of the next one.
pub(crate) type PageEntries<T> = (Vec<T>, Option<NextPage>);

impl<T: Send + 'static> Listing<T> {
    pub(crate) fn new(
        account: &StorageAccount,
        operation: &'static str,
        read: ReadPage<T>,
    ) -> Self {
        Self {
            account: account.clone(),
            container: None,
            prefix: None,
            filter: None,
            delimiter: None,
            include: Include::default(),
            page_size: None,
            max_page: MAX_LISTING,
            resume: None,
            limits: Limits::default(),
            error: None,
            operation,
            read,
        }
    }

    pub(crate) fn of_tables(self) -> Self {
        Self { max_page: MAX_PAGE, ..self }
    }

    pub(crate) fn of_container(
        account: &StorageAccount,
        container: &str,
        operation: &'static str,
        read: ReadPage<T>,
    ) -> Self {
        let listing = Self::new(account, operation, read);
        Self { container: Some(container.into()), ..listing }
    }

    /// The same listing with entries of another type.
    pub(crate) fn showing<U>(self, read: ReadPage<U>) -> Listing<U> {
        Listing {
            account: self.account,
            container: self.container,
            prefix: self.prefix,
            filter: self.filter,
            delimiter: self.delimiter,
            include: self.include,
            page_size: self.page_size,
            max_page: self.max_page,
            resume: self.resume,
            limits: self.limits,
            error: self.error,
            operation: self.operation,
            read,
        }
    }

    /// Stores an error that the listing returns when it starts.
    pub(crate) fn refuse(&mut self, error: Error) {
        self.error = Some(error);
    }

    /// Lists only names that begin with `prefix`. Case-sensitive.
    pub fn starting_with(mut self, prefix: &str) -> Self {
        self.prefix = Some(prefix.to_owned());
        self
    }

    /// Includes the metadata of each entry. Tables have none.
    pub fn with_metadata(mut self) -> Self {
        self.include.metadata = true;
        self
    }

    /// Sets the maximum number of entries in a page, 1 to 5000; for tables, 1 to 1000.
    pub fn page_size(mut self, entries: u32) -> Self {
        let max = self.max_page;
        if !(1..=max).contains(&entries) {
            let what = format!("the page size must be between 1 and {max} entries");
            self.error = Some(Error::invalid(what));
        }
        self.page_size = Some(entries);
        self
    }

    limits!();

    /// Resumes from `continuation`, which must come from the same listing.
    pub fn resume(mut self, continuation: ListingContinuation) -> Self {
        self.resume = Some(continuation);
        self
    }

    /// Lists entry by entry. Each page is requested when the previous one has been consumed.
    pub fn stream(self) -> Stream<T> {
        entries(self.pages())
    }

    /// Lists page by page.
    pub fn pages(mut self) -> Stream<ListingPage<T>> {
        let fingerprint = self.fingerprint();
        let resource = self.container.clone().unwrap_or_default();
        let error = self.error.take().map_or(Ok(()), Err);
        let resume = self.resume.take();
        let begun = error.and_then(|()| NextPage::resume(resume, fingerprint));
        let begun = begun.map_err(|error| error.of(self.operation, &resource));
        let (read, limits) = (self.read, self.limits);
        let of = ListingInfo { operation: self.operation, resource, fingerprint, limits };
        pages(begun.map(|next| (self, next)), of, read)
    }

    /// Lists all entries, into memory.
    pub async fn all(self) -> Result<Vec<T>> {
        self.stream().try_collect().await
    }

    fn fingerprint(&self) -> u64 {
        let prefix = self.prefix.as_deref().unwrap_or_default();
        let Some(container) = &self.container else {
            let metadata = if self.include.metadata { "metadata" } else { "" };
            let filter = self.filter.as_ref().map(rowkey_wire::filter::print);
            let texts = [self.operation, prefix, metadata].into_iter();
            return fingerprint(texts.chain(filter.as_deref()));
        };
        let Include { metadata, snapshots, uncommitted } = self.include;
        let shown = [metadata, snapshots, uncommitted].map(|shown| if shown { "1" } else { "" });
        let delimiter = self.delimiter.as_deref().unwrap_or_default();
        let texts = [self.operation, &**container, prefix, delimiter];
        fingerprint(texts.into_iter().chain(shown))
    }
}

/// The start of the next page and its endpoint: markers are valid only at the endpoint that
/// returned them.
#[derive(Clone, Debug)]
pub(crate) struct NextPage {
    marker: String,
    host: Host,
}

impl NextPage {
    /// The start of the page after `reply`, if there is one.
    pub(crate) fn after(reply: &Reply, marker: Option<String>) -> Option<Self> {
        marker.map(|marker| Self { marker, host: reply.host() })
    }

    /// The endpoint for the next page.
    pub(crate) fn host(next: Option<&Self>) -> Host {
        next.map_or(Host::Any, |next| next.host)
    }

    /// The marker of the next page.
    pub(crate) fn marker(next: Option<&Self>) -> Option<&str> {
        next.map(|next| next.marker.as_str())
    }

    /// The start of the listing with this fingerprint.
    pub(crate) fn resume(
        continuation: Option<ListingContinuation>,
        fingerprint: u64,
    ) -> Result<Option<Self>> {
        let Some(ListingContinuation { listing, marker, secondary }) = continuation else {
            return Ok(None);
        };
        if listing != fingerprint {
            let what = "the continuation token belongs to another listing: resource, prefix or \
                        options differ";
            return Err(Error::invalid(what));
        }
        let host = if secondary { Host::Secondary } else { Host::Primary };
        Ok(Some(Self { marker, host }))
    }
}

/// The identity and the limits of a listing.
#[derive(Debug, Default)]
pub(crate) struct ListingInfo {
    /// The REST operation's name.
    pub(crate) operation: &'static str,
    /// The container's name; empty for listings of an account.
    pub(crate) resource: Box<str>,
    /// Distinguishes its continuation tokens from those of other listings.
    pub(crate) fingerprint: u64,
    pub(crate) limits: Limits,
}

/// The pages of a listing, from its start. `read` reads a page and returns the start of the next
/// one.
pub(crate) fn pages<L, T, F>(
    begun: Result<(L, Option<NextPage>)>,
    of: ListingInfo,
    read: impl Fn(Arc<L>, Option<NextPage>) -> F + Send + Sync + 'static,
) -> Stream<ListingPage<T>>
where
    L: Send + Sync + 'static,
    T: Send + 'static,
    F: Future<Output = Result<PageEntries<T>>> + Send + 'static,
{
    let (listing, begin) = match begun {
        Ok((listing, begin)) => (Arc::new(listing), begin),
        Err(error) => return stream::once(async { Err(error) }).boxed(),
    };
    let progress = Progress::new(of.limits, begin.as_ref().map(|next| &next.marker));
    let (of, read) = (Arc::new(of), Arc::new(read));
    stream::try_unfold((Some(begin), progress), move |(next, mut progress)| {
        let (listing, of, read) = (Arc::clone(&listing), Arc::clone(&of), Arc::clone(&read));
        async move {
            let Some(from) = next else { return Ok(None) };
            let named = |error: Error| error.of(of.operation, &of.resource);
            let permit = progress.admit().map_err(named)?;
            let asked = from.as_ref().map(|from| from.marker.clone());
            let (entries, next) = permit.wait(read(listing, from)).await.map_err(named)?;
            progress.advance(asked.as_ref(), next.as_ref().map(|next| &next.marker));
            let continuation = next.clone().map(|next| ListingContinuation {
                listing: of.fingerprint,
                marker: next.marker,
                secondary: next.host == Host::Secondary,
            });
            Ok(Some((ListingPage { entries, continuation }, (next.map(Some), progress))))
        }
    })
    .boxed()
}

/// The entries of the pages, one by one.
pub(crate) fn entries<T: Send + 'static>(pages: Stream<ListingPage<T>>) -> Stream<T> {
    pages.map_ok(|page| stream::iter(page.entries.into_iter().map(Ok))).try_flatten().boxed()
}

/// Written as the continuation of a query whose first token is the marker.
impl fmt::Display for ListingContinuation {
    /// The text to store.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = Token { partition_key: self.marker.clone(), row_key: None };
        let (token, secondary) = (Some(token), self.secondary);
        Continuation { query: self.listing, part: 0, token, secondary }.fmt(f)
    }
}

impl FromStr for ListingContinuation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.parse()? {
            Continuation {
                query: listing,
                part: 0,
                token: Some(Token { partition_key: marker, row_key: None }),
                secondary,
            } => Ok(Self { listing, marker, secondary }),
            _ => Err(Error::invalid("the text is not that of a listing's continuation token")),
        }
    }
}

impl fmt::Debug for ListingContinuation {
    /// Does not show the marker, which may contain a name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListingContinuation")
            .field("listing", &format_args!("{:016x}", self.listing))
            .finish_non_exhaustive()
    }
}

impl Serialize for ListingContinuation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ListingContinuation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

shown!([T] Listing<T>: operation, account);

#[cfg(test)]
mod tests {
    use super::*;

    fn token(marker: &str, secondary: bool) -> ListingContinuation {
        ListingContinuation { listing: 7, marker: marker.to_owned(), secondary }
    }

    #[test]
    fn tokens_round_trip_as_text_and_invalid_text_is_rejected_without_being_shown() {
        for secondary in [false, true] {
            let token = token("/acct/\"q\"", secondary);
            let text = token.to_string();
            assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')));
            assert_eq!(text.parse::<ListingContinuation>().unwrap(), token);
            assert!(!format!("{token:?}").contains("acct"));
            let json = serde_json::to_string(&token).unwrap();
            assert_eq!(serde_json::from_str::<ListingContinuation>(&json).unwrap(), token);
        }
        let text = token("/acct/jobs", false).to_string();
        assert_eq!(
            text, "AQEHAAAAAAAAAAAACgAvYWNjdC9qb2JzOnMgmQ",
            "tokens that are stored stay good"
        );
        let of_query = Continuation::behind(&["secret"], "secret", "secret").to_string();
        for text in ["", "secret", "{}", &of_query] {
            let error = text.parse::<ListingContinuation>().unwrap_err();
            assert!(!format!("{error:?} {error}").contains("secret"));
        }
    }
}
