//! Samples: rows of a table from its whole key range, in a bounded number of requests.

use std::cmp::Reverse;
use std::collections::VecDeque;

use futures_util::TryStreamExt as _;
use rowkey_client::internals::{has_order, shown};
use rowkey_client::{Continuation, DynamicEntity, Partition, Result, ScanPolicy, Stored, Table};

use super::gap::Gap;
use crate::probe::{self, PARTITION_KEY, ROW_KEY};

/// The most places at which rows are read.
const PLACES: u64 = 32;
/// The most requests that look for places, for each place.
const PROBES: u64 = 2;
/// The most rows in a page.
const PAGE: u64 = 1_000;

/// Samples up to `rows` rows, spread over the keys of a table.
///
/// Begins with the first rows and looks for up to 31 other places by probes: queries from a key that begins as a known key and
/// differs in one character, which find the end of the table and then halve what is between two places. A place is a partition or,
/// where one partition has more rows, a row in it. The rows of the sample are divided among the places; what a place does not have
/// is taken from those that have more. If the table has no more rows than the sample, all of them are read.
///
/// Costs one request if the table has fewer than 1,000 rows and no more than the sample. Otherwise it costs at most 64 requests that
/// look for places, 192 that read on at them, and one for each 1,000 rows; samples of 320 rows of tables with keys of eleven forms took
/// at most 100. [`Sample::places`] lowers all of that. The service may answer with pages that are not full, which cost a request each.
///
/// In Azure Cosmos DB, whose queries have no order, the sample is the first pages. [`Sample::is_complete`] says whether the table
/// has other rows.
///
/// ```
/// use rowkey::patterns::inspect::sample;
/// use rowkey::{DynamicEntity, StorageAccount};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let events = account.table("events");
/// events.create().await?;
/// for device in 0..30 {
///     let rows = (0..100).map(|row| DynamicEntity::new(format!("device-{device:02}"), format!("{row:02}")));
///     rows.fold(events.transaction(), |all, row| all.insert(&row)).submit().await?;
/// }
/// let mut sample = sample(&events, 90);
/// let mut last = String::new();
/// while let Some(row) = sample.next().await? {
///     last = last.max(row.entity.partition_key);
/// }
/// assert!(!sample.is_complete() && last.starts_with("device-2"));
/// # Ok(()) }
/// ```
pub fn sample(table: &Table, rows: u64) -> Sample {
    let sample = Sample {
        reader: Reader { table: table.clone(), keys_alone: false, requests: 0 },
        left: rows,
        limit: 0,
        at_a_place: 0,
        probes_allowed: 0,
        probes: 0,
        phase: Phase::First,
        found: 0,
        places: Vec::new(),
        open: VecDeque::new(),
        ready: VecDeque::new(),
    };
    sample.at_places(PLACES)
}

/// Rows of a table, read by [`sample`].
///
/// Holds at most two pages. A read that failed is repeated by the next call.
#[must_use = "nothing is read before `next`"]
pub struct Sample {
    reader: Reader,
    /// The rows to take.
    left: u64,
    /// The most places, and the rows to take at each.
    limit: u64,
    at_a_place: u64,
    /// The most requests that look for places, and those that did.
    probes_allowed: u64,
    probes: u64,
    phase: Phase,
    /// Places that were found.
    found: u64,
    places: Vec<Place>,
    /// The places whose gaps are divided, or that are read on.
    open: VecDeque<usize>,
    /// Rows that were taken and not returned.
    ready: VecDeque<Stored<DynamicEntity>>,
}

/// What the next request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    First,
    Probe,
    /// Takes more rows: the same number at each place, and then all that are there.
    Share(u64),
    Rest,
    /// Looks for rows that are not in the sample.
    Check,
    Done {
        is_complete: bool,
    },
}

/// Where rows are read.
struct Place {
    query: Range,
    next: Next,
    /// Rows that were read and not taken.
    waiting: Vec<Stored<DynamicEntity>>,
    gap: Gap,
}

/// The next page of a place.
enum Next {
    First,
    At(Continuation),
    None,
}

/// Sends the requests.
struct Reader {
    table: Table,
    /// Whether rows are read without their properties, and no rows are looked for behind the first ones of a partition.
    keys_alone: bool,
    requests: u64,
}

/// The range of a query: partitions of the table, or rows of one of them.
#[derive(Clone, Default)]
struct Range {
    partition: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

impl Sample {
    /// Reads rows at no more than this many places, 1 to 32, and so in fewer requests: at most 2 for each place that look for places, 6
    /// for each that read on, one for the first rows, and one for each 1,000 rows. Default: 32.
    ///
    /// Fewer places show less of what the table has. With one, the sample is the beginning of the table.
    ///
    /// ```
    /// # use rowkey::{DynamicEntity, StorageAccount};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let events = account.table("events");
    /// # events.create().await?;
    /// # for device in 0..30 {
    /// #     let rows = (0..100).map(|row| DynamicEntity::new(format!("device-{device:02}"), format!("{row:02}")));
    /// #     rows.fold(events.transaction(), |all, row| all.insert(&row)).submit().await?;
    /// # }
    /// use rowkey::patterns::inspect::sample;
    ///
    /// // 3,000 rows in 30 partitions.
    /// let mut sample = sample(&events, 100).places(8);
    /// let mut last = String::new();
    /// while let Some(row) = sample.next().await? {
    ///     last = last.max(row.entity.partition_key);
    /// }
    /// assert!(last.starts_with("device-2") && sample.requests() <= 24);
    /// # Ok(()) }
    /// ```
    pub fn places(self, n: u64) -> Self {
        self.at_places(n.clamp(1, PLACES))
    }

    /// The requests that were sent so far, without those that the client repeated.
    pub fn requests(&self) -> u64 {
        self.reader.requests
    }

    fn at_places(self, limit: u64) -> Self {
        let at_a_place = (self.left / limit).max(1);
        Self { limit, at_a_place, probes_allowed: limit * PROBES, ..self }
    }

    /// The PartitionKeys of rows at up to `probes` places behind the first one, each as often as it was read. Sends as many requests at
    /// most behind the first one, and reads no properties, and no rows but those by which places are found.
    pub(crate) async fn partition_keys(self, probes: u64) -> Result<Vec<String>> {
        let mut sample = self.at_places(probes + 1);
        sample.probes_allowed = probes;
        sample.reader.keys_alone = true;
        let mut keys = Vec::new();
        loop {
            match sample.phase {
                Phase::First => sample.first().await?,
                Phase::Probe => sample.probe().await?,
                _ => return Ok(keys),
            }
            keys.extend(sample.ready.drain(..).map(|row| row.entity.partition_key));
        }
    }

    /// Returns the next row, in no particular order; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Stored<DynamicEntity>>> {
        loop {
            if let Some(row) = self.ready.pop_front() {
                return Ok(Some(row));
            }
            match self.phase {
                Phase::First => self.first().await?,
                Phase::Probe => self.probe().await?,
                Phase::Share(_) | Phase::Rest => self.take_more().await?,
                Phase::Check => self.check().await?,
                Phase::Done { .. } => return Ok(None),
            }
        }
    }

    /// Reads all rows of the sample into memory.
    ///
    /// ```
    /// # use rowkey::{DynamicEntity, StorageAccount};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let events = account.table("events");
    /// # events.create().await?;
    /// # for number in 0..20 { events.insert(&DynamicEntity::new("device-7", format!("{number:02}"))).await?; }
    /// use rowkey::patterns::inspect::sample;
    ///
    /// assert_eq!(sample(&events, 5).all().await?.len(), 5);
    /// # Ok(()) }
    /// ```
    pub async fn all(mut self) -> Result<Vec<Stored<DynamicEntity>>> {
        let mut all = Vec::new();
        while let Some(row) = self.next().await? {
            all.push(row);
        }
        Ok(all)
    }

    /// Whether the sample has all rows of the table; `false` before the end.
    pub fn is_complete(&self) -> bool {
        self.phase == Phase::Done { is_complete: true } && self.ready.is_empty()
    }

    /// Reads the first page, which is the whole table if that is small.
    async fn first(&mut self) -> Result<()> {
        let (query, mut next) = (Range::default(), None);
        let rows = loop {
            let (rows, after) = self.reader.page(&query, self.left.saturating_add(1), next).await?;
            next = after;
            if !rows.is_empty() || next.is_none() {
                break rows;
            }
        };
        let gap = rows.first().zip(rows.last()).map(|(first, last)| {
            if self.reader.keys_alone {
                Gap::behind_page(&first.entity.partition_key, &last.entity)
            } else {
                Gap::behind(&last.entity)
            }
        });
        let Some(gap) = gap else {
            self.phase = Phase::Done { is_complete: true };
            return Ok(());
        };
        if next.is_none() && rows.len() as u64 <= self.left {
            self.ready.extend(rows);
            self.phase = Phase::Done { is_complete: true };
            return Ok(());
        }
        let has_order = has_order(&self.reader.table);
        self.phase = if has_order { Phase::Probe } else { Phase::Rest };
        let is_one = is_one_partition(&rows);
        self.add(Place { query, next: next.into(), waiting: rows, gap }, is_one && has_order);
        if has_order {
            self.take_waiting(0, self.at_a_place);
        }
        Ok(())
    }

    /// Adds a place that was read, and the partitions behind it if it is in one that has many rows.
    fn add(&mut self, mut place: Place, is_one_partition: bool) {
        self.found += 1;
        let others = if is_one_partition { place.gap.divide() } else { None };
        let to = others.as_ref().and_then(|others| others.to.clone());
        let others = others.map(|gap| {
            let query = Range { partition: None, from: Some(gap.following()), to };
            Place { query, next: Next::First, waiting: Vec::new(), gap }
        });
        for place in [Some(place), others].into_iter().flatten() {
            let is_open = place.is_open();
            self.places.push(place);
            if is_open {
                self.open.push_back(self.places.len() - 1);
            }
        }
    }

    /// Divides the gap behind a place if there is another place in it.
    async fn probe(&mut self) -> Result<()> {
        let is_over = self.probes >= self.probes_allowed || self.found >= self.limit;
        let is_over = is_over || self.left == 0;
        let Some(at) = self.pick().filter(|_| !is_over) else {
            self.share();
            return Ok(());
        };
        let place = &mut self.places[at];
        let gap = &mut place.gap;
        let is_of_rows = |gap: &Gap| self.reader.keys_alone && gap.partition.is_some();
        let Some(key) = gap.key().filter(|_| !is_of_rows(gap)) else {
            // A gap that no row was read of is empty then.
            if matches!(place.next, Next::First) {
                place.next = Next::None;
            }
            self.open.retain(|open| *open != at);
            return Ok(());
        };
        let query =
            Range { partition: gap.partition.clone(), from: Some(key.clone()), to: gap.to.clone() };
        let limit = self.at_a_place.min(self.left);
        let (mut next, mut rows) = (None, Vec::new());
        while rows.is_empty() && self.probes < self.probes_allowed {
            self.probes += 1;
            (rows, next) = self.reader.page(&query, limit, next).await?;
            if next.is_none() {
                break;
            }
        }
        self.open.retain(|open| *open != at);
        let gap = &mut self.places[at].gap;
        let Some(last) = rows.last() else {
            // Pages without rows that have others behind them say nothing.
            if next.is_none() {
                gap.missed(key);
                self.open.push_back(at);
            }
            return Ok(());
        };
        let behind = gap.found(key, &last.entity);
        self.open.push_back(at);
        let is_one = next.is_some() && is_one_partition(&rows);
        self.deliver(rows);
        self.add(Place { query, next: next.into(), waiting: Vec::new(), gap: behind }, is_one);
        Ok(())
    }

    fn deliver(&mut self, rows: Vec<Stored<DynamicEntity>>) {
        self.left = self.left.saturating_sub(rows.len() as u64);
        self.ready.extend(rows);
    }

    /// The gap to divide: that at the end of the table until the end is found, then by turns one of partitions and one of the rows of
    /// a partition, and of those the one whose keys differ in the earliest character. If partitions alone are looked for, it is that with
    /// the most characters to divide.
    fn pick(&self) -> Option<usize> {
        let is_turn_of_rows = self.probes % 2 == 1;
        let order = |at: &usize| {
            let gap = &self.places[*at].gap;
            let width = if self.reader.keys_alone { gap.width() } else { 0 };
            (!gap.is_first, gap.partition.is_some() != is_turn_of_rows, gap.at, Reverse(width))
        };
        self.open.iter().copied().min_by_key(order)
    }

    /// Begins to take further rows at each place that may have some.
    fn share(&mut self) {
        self.open = (0..self.places.len()).filter(|at| self.places[*at].is_open()).collect();
        self.phase = Phase::Share(self.left.div_ceil(self.open.len().max(1) as u64));
    }

    async fn take_more(&mut self) -> Result<()> {
        let Some(at) = self.open.front().copied().filter(|_| self.left > 0) else {
            self.open = (0..self.places.len()).filter(|at| self.places[*at].is_open()).collect();
            self.phase = match self.phase {
                Phase::Share(_) if self.left > 0 => Phase::Rest,
                _ => Phase::Check,
            };
            return Ok(());
        };
        let limit = match self.phase {
            Phase::Share(share) => share.min(self.left),
            _ => self.left,
        };
        let waiting = self.take_waiting(at, limit);
        let mut wanted = limit - waiting;
        if wanted > 0 && !matches!(self.places[at].next, Next::None) {
            let rows = self.places[at].read(&mut self.reader, wanted).await?;
            wanted = wanted.saturating_sub(rows.len() as u64);
            self.deliver(rows);
        }
        if wanted == 0 || !self.places[at].is_open() {
            self.open.pop_front();
            // What this place did not have is shared by the others.
            if let Phase::Share(share) = &mut self.phase {
                *share = self.left.div_ceil(self.open.len().max(1) as u64);
            }
        } else if let Phase::Share(share) = &mut self.phase {
            *share = wanted;
        }
        Ok(())
    }

    /// Takes rows of a place that were read already, from all of them evenly, and returns how many.
    fn take_waiting(&mut self, at: usize, limit: u64) -> u64 {
        let waiting = std::mem::take(&mut self.places[at].waiting);
        let all = waiting.len() as u64;
        let taken = limit.min(self.left).min(all);
        for (number, row) in (0..).zip(waiting) {
            // The first row, and then one whenever the multiples of `taken` pass one of `all`.
            if number * taken % all < taken {
                self.ready.push_back(row);
            } else {
                self.places[at].waiting.push(row);
            }
        }
        self.left -= taken;
        taken
    }

    /// Finds out whether a place has rows that are not in the sample.
    async fn check(&mut self) -> Result<()> {
        if self.places.iter().any(|place| !place.waiting.is_empty()) {
            self.phase = Phase::Done { is_complete: false };
            return Ok(());
        }
        let Some(at) = self.open.front().copied() else {
            self.phase = Phase::Done { is_complete: true };
            return Ok(());
        };
        if !self.places[at].read(&mut self.reader, 1).await?.is_empty() {
            self.phase = Phase::Done { is_complete: false };
        } else if !self.places[at].is_open() {
            self.open.pop_front();
        }
        Ok(())
    }
}

impl Place {
    fn is_open(&self) -> bool {
        !matches!(self.next, Next::None) || !self.waiting.is_empty()
    }

    /// Reads on, up to the next place.
    async fn read(&mut self, by: &mut Reader, rows: u64) -> Result<Vec<Stored<DynamicEntity>>> {
        let next = match &self.next {
            Next::First => None,
            Next::At(next) => Some(next.clone()),
            Next::None => return Ok(Vec::new()),
        };
        let (mut rows, next) = by.page(&self.query, rows, next).await?;
        let all = rows.len();
        if has_order(&by.table) {
            rows.truncate(rows.partition_point(|row| self.gap.has(&row.entity)));
        }
        self.next = next.filter(|_| rows.len() == all).into();
        Ok(rows)
    }
}

impl Reader {
    /// Reads a page of a range, by one request.
    async fn page(
        &mut self,
        range: &Range,
        rows: u64,
        next: Option<Continuation>,
    ) -> Result<(Vec<Stored<DynamicEntity>>, Option<Continuation>)> {
        let (query, name) = match &range.partition {
            Some(key) => (self.table.query(Partition::<DynamicEntity>::new(&**key)), ROW_KEY),
            None => (self.table.scan(), PARTITION_KEY),
        };
        let query = if self.keys_alone {
            // Not a scan of the table: some hundred rows by some requests.
            query.select([PARTITION_KEY]).scan_policy(ScanPolicy::Allow)
        } else {
            query
        };
        let query = probe::between(query, name, (range.from.as_deref(), range.to.as_deref()));
        let size = u32::try_from(rows.min(PAGE)).unwrap_or(u32::MAX);
        let query = query.page_size(size);
        let query = match next {
            Some(next) => query.resume(next),
            None => query,
        };
        self.requests += 1;
        let page = query.pages().try_next().await?;
        Ok(page.map_or((Vec::new(), None), |page| (page.entities, page.continuation)))
    }
}

/// Whether rows in the order of their keys are several, in one partition.
fn is_one_partition(rows: &[Stored<DynamicEntity>]) -> bool {
    let key = |row: &Stored<DynamicEntity>| row.entity.partition_key.clone();
    rows.len() > 1 && rows.first().map(key) == rows.last().map(key)
}

impl From<Option<Continuation>> for Next {
    fn from(next: Option<Continuation>) -> Self {
        next.map_or(Self::None, Self::At)
    }
}

shown!(Sample: phase, left, probes);
