//! Packs a stream into transactions and keeps a bounded number of them in flight.

use std::collections::{HashMap, HashSet, VecDeque};
use std::pin::pin;

use futures_util::future::{self, BoxFuture, Either};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use rowkey::key::KeyWriter;
use rowkey::{Entity, Error, ErrorKind, Key, Table, Transaction};

use super::send::{Failing, Group, Sent, send};
use super::{Failure, Progress, Report, Verb};

/// What is called when a transaction has been answered.
type OnProgress = Box<dyn FnMut(Progress) + Send>;

pub(super) struct Settings {
    pub(super) in_flight: usize,
    pub(super) open_partitions: usize,
    pub(super) stop_after: u64,
    pub(super) on_progress: Option<OnProgress>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { in_flight: 8, open_partitions: 64, stop_after: 1000, on_progress: None }
    }
}

/// A load. At any time an entity that was read is in one of `open`, `ready` and `in_flight`, or in
/// the report.
pub(super) struct Load<'a, E> {
    table: Table,
    verb: Verb,
    failing: Failing,
    settings: Settings,
    /// What is being packed, by PartitionKey.
    open: HashMap<String, Group<E>>,
    /// What is packed and waits for its turn.
    ready: VecDeque<Group<E>>,
    in_flight: FuturesUnordered<BoxFuture<'a, Sent<E>>>,
    /// Partitions with a transaction in flight. Kept only where it matters.
    busy: HashSet<String>,
    /// Partitions that ended with a failure, and with which.
    ended: HashMap<String, usize>,
    report: Report<E>,
}

impl<'a, E: Entity + Send + 'a> Load<'a, E> {
    pub(super) fn new(table: Table, verb: Verb, failing: Failing, settings: Settings) -> Self {
        Self {
            table,
            verb,
            failing,
            settings,
            open: HashMap::new(),
            ready: VecDeque::new(),
            in_flight: FuturesUnordered::new(),
            busy: HashSet::new(),
            ended: HashMap::new(),
            report: Report::new(),
        }
    }

    pub(super) async fn run(mut self, entities: impl Stream<Item = E> + Send) -> Report<E> {
        let mut entities = pin!(entities);
        let mut more = true;
        loop {
            if more && self.report.progress.missing() >= self.settings.stop_after {
                self.report.stopped = true;
                more = false;
            }
            if !more {
                self.close_all();
            }
            self.start();
            let waiting = self.in_flight.len() + self.ready.len();
            let event = if more && waiting == 0 {
                Either::Right(entities.next().await)
            } else if more && waiting < self.settings.in_flight {
                // Answers first: polling them also sends what was started.
                match future::select(self.in_flight.next(), entities.next()).await {
                    Either::Left((sent, _)) => Either::Left(sent),
                    Either::Right((read, _)) => Either::Right(read),
                }
            } else if waiting > 0 {
                Either::Left(self.in_flight.next().await)
            } else {
                return self.report;
            };
            match event {
                Either::Left(sent) => sent.into_iter().for_each(|sent| self.settle(sent)),
                Either::Right(Some(entity)) => self.pack(entity),
                Either::Right(None) => more = false,
            }
        }
    }

    /// Puts an entity into the transaction of its partition.
    fn pack(&mut self, entity: E) {
        let position = self.report.progress.read;
        self.report.progress.read += 1;
        let mut partition_key = KeyWriter::new();
        entity.partition_key(&mut partition_key);
        let partition_key = partition_key.finish();
        if let Ok(Some(&failure)) = partition_key.as_ref().map(|key| self.ended.get(key)) {
            self.report.skip(failure, 1);
            return;
        }
        let one = self.verb.transaction(&self.table, &entity);
        let partition_key = match partition_key {
            Ok(partition_key) if !one.is_empty() => partition_key,
            partition_key => {
                let refused = (position, Key::of(&entity));
                self.refuse(refused, partition_key.ok(), one);
                return;
            }
        };
        match self.open.get_mut(&partition_key) {
            Some(group) if group.transaction.fits(&one) => {
                let begun = std::mem::replace(&mut group.transaction, self.table.transaction());
                group.transaction = begun.append(one);
                group.entities.push((position, entity));
            }
            _ => {
                self.close(&partition_key);
                if self.open.len() >= self.settings.open_partitions {
                    self.close_fullest();
                }
                let entities = vec![(position, entity)];
                let group =
                    Group { partition_key: partition_key.clone(), entities, transaction: one };
                self.open.insert(partition_key, group);
            }
        }
    }

    /// Notes an entity that cannot be sent: its keys or properties are not allowed.
    fn refuse(
        &mut self,
        entity: (u64, Key<E>),
        partition_key: Option<String>,
        refused: Transaction,
    ) {
        // Such a transaction answers at once, with an error: nothing is sent.
        let Some(Err(error)) = refused.submit().now_or_never() else {
            let what = "the entity cannot be sent, and nothing says why";
            let error = Error::refused(ErrorKind::Invalid, what).of("Bulk", self.table.name());
            return self.report.fail(Failure { entities: vec![entity], skipped: 0, error });
        };
        if let (Failing::EndsThePartition, Some(partition_key)) = (self.failing, partition_key) {
            self.close(&partition_key);
            self.ended.insert(partition_key, self.report.failures.len());
        }
        self.report.fail(Failure { entities: vec![entity], skipped: 0, error });
    }

    /// Ends the packing of a partition's transaction.
    fn close(&mut self, partition_key: &str) {
        self.ready.extend(self.open.remove(partition_key));
    }

    /// Makes room for another partition.
    fn close_fullest(&mut self) {
        let fullest = self.open.values().max_by_key(|group| {
            let oldest_first = group.entities.first().map(|(position, _)| u64::MAX - position);
            (group.entities.len(), oldest_first)
        });
        if let Some(partition_key) = fullest.map(|group| group.partition_key.clone()) {
            self.close(&partition_key);
        }
    }

    fn close_all(&mut self) {
        let mut rest: Vec<_> = self.open.drain().map(|(_, group)| group).collect();
        rest.sort_by_key(|group| group.entities.first().map(|(position, _)| *position));
        self.ready.extend(rest);
    }

    /// Starts as many transactions as may be in flight.
    fn start(&mut self) {
        while self.in_flight.len() < self.settings.in_flight {
            let may_start = |group: &Group<E>| !self.busy.contains(&group.partition_key);
            let Some(group) =
                self.ready.iter().position(may_start).and_then(|at| self.ready.remove(at))
            else {
                return;
            };
            if self.failing == Failing::EndsThePartition {
                self.busy.insert(group.partition_key.clone());
            }
            self.in_flight.push(send(self.table.clone(), self.verb, self.failing, group).boxed());
        }
    }

    /// Notes what became of a transaction.
    fn settle(&mut self, sent: Sent<E>) {
        self.busy.remove(&sent.partition_key);
        self.report.progress.written += sent.written;
        self.report.progress.transactions += sent.transactions;
        let failed = !sent.failures.is_empty();
        let failure = self.report.failures.len();
        for each in sent.failures {
            self.report.fail(each);
        }
        if failed && self.failing == Failing::EndsThePartition {
            self.end(sent.partition_key, failure);
        }
        if let Some(on_progress) = &mut self.settings.on_progress {
            on_progress(self.report.progress);
        }
    }

    /// Takes back what is packed of a partition; from now on its entities are skipped.
    fn end(&mut self, partition_key: String, failure: usize) {
        let mut skipped = self.open.remove(&partition_key).map_or(0, |group| group.entities.len());
        self.ready.retain(|group| {
            let keep = group.partition_key != partition_key;
            skipped += if keep { 0 } else { group.entities.len() };
            keep
        });
        self.report.skip(failure, skipped as u64);
        self.ended.insert(partition_key, failure);
    }
}
