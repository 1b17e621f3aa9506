//! The state of stubs: what they hold, what they answer, and what a run showed.

use std::collections::BTreeSet;

use rowkey_wire::code::ErrorCode;

use super::contents::Contents;
use super::exchange::{Exchange, Subject, TableId, pattern, shown};
use super::{Answer, data, objects, stamped};

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) contents: Contents,
    /// What the stubs hold after the planned writes.
    pub(super) planned: Option<Contents>,
    /// The rows, queues and blobs that may be written, as patterns.
    pub(super) writable: BTreeSet<String>,
    /// The tables that the runs used.
    pub(super) tables: BTreeSet<TableId>,
    /// The tables, queues and containers that may be read.
    pub(super) places: BTreeSet<String>,
    /// The requests of the planned writes, in their order.
    pub(super) plan: Vec<String>,
    pub(super) failures: Vec<Failure>,
    pub(super) unanswered: Vec<String>,
    /// Whether a planned write is being run.
    pub(super) plans: bool,
}

/// One answer that is not the regular one.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// The row whose write fails.
    pub(super) row: [String; 3],
    /// `None` if the write is applied and its answer is lost.
    pub(super) code: Option<ErrorCode>,
}

impl State {
    /// Whether these stubs answer a request.
    pub(super) fn covers(&self, request: &Exchange<'_>) -> bool {
        if request.is_batch() {
            let operations = request.operations().unwrap_or_default();
            return !operations.is_empty()
                && operations.iter().all(|operation| self.covers(&operation.exchange()));
        }
        // A message that was received may be deleted or hidden for longer.
        let received = matches!(request.subject(), Subject::Messages(_, Some(_)));
        if request.reads() || received {
            return self.place(request).is_some_and(|place| self.places.contains(&place));
        }
        let resource = self.resource(request);
        resource.is_some_and(|resource| self.writable.contains(&resource))
    }

    /// Answers a request, unless the next failure is about it.
    pub(super) fn answer(&mut self, request: &Exchange<'_>) -> Option<Answer> {
        let failing = self.failing(request);
        if let Some((at, index)) = failing
            && let Some(code) = self.failures[at].code.clone()
        {
            self.failures.remove(at);
            return Some(match request.subject() {
                Subject::Batch => super::refused_transaction(index, code),
                _ => super::error(code),
            });
        }
        self.applied(request)
    }

    /// Answers a request by the contents, and changes them.
    pub(super) fn applied(&mut self, request: &Exchange<'_>) -> Option<Answer> {
        let name = match request.subject() {
            Subject::Row([table, ..]) | Subject::Rows(table) => Some(table),
            // All of its operations are on one table.
            Subject::Batch => {
                request.operations().and_then(|all| match all.first()?.exchange().subject() {
                    Subject::Row([table, ..]) => Some(table),
                    _ => None,
                })
            }
            _ => None,
        };
        let table = name.map(|name| self.table(request, &name));
        self.contents.answer(request, table.as_ref())
    }

    /// The table of this name that a request is about: that of its account. A program in a test may have another
    /// address than the one that was run in memory; then it is the only table of that name.
    fn table(&self, request: &Exchange<'_>, name: &str) -> TableId {
        let own = request.table_id(name);
        if self.tables.contains(&own) {
            return own;
        }
        let is_elsewhere = |other: &&TableId| other.name == own.name && other.host() != own.host();
        let mut others = self.tables.iter().filter(is_elsewhere);
        match (others.next(), others.next()) {
            (Some(only), None) => only.clone(),
            _ => own,
        }
    }

    /// The first failure of a row that a request writes, and the number of the operation that does.
    pub(super) fn failing(&self, request: &Exchange<'_>) -> Option<(usize, usize)> {
        let rows = written(request);
        let mut failures = self.failures.iter().enumerate();
        failures.find_map(|(at, failure)| {
            rows.iter().position(|row| *row == failure.row).map(|index| (at, index))
        })
    }

    /// Notes what a request of a run is about, and answers it.
    pub(super) fn record(&mut self, request: &Exchange<'_>) -> Answer {
        let operations = request.operations().filter(|_| request.is_batch());
        let operations = operations.unwrap_or_default();
        let single = operations.is_empty().then_some(*request);
        let all = operations.iter().map(|operation| operation.exchange()).chain(single);
        for one in all {
            if let Subject::Row([table, ..]) | Subject::Rows(table) = one.subject() {
                self.tables.insert(one.table_id(&table));
            }
            self.places.extend(self.place(&one));
            if self.plans && !one.reads() {
                self.writable.extend(self.resource(&one));
            }
        }
        if self.plans {
            self.plan.push(request.line());
        }
        self.applied(request).unwrap_or_else(|| self.refuse(request))
    }

    /// The table, queue or container of a request.
    fn place(&self, request: &Exchange<'_>) -> Option<String> {
        match request.subject() {
            Subject::Row([table, ..]) | Subject::Rows(table) => {
                let TableId { origin, name } = self.table(request, &table);
                Some(format!("{origin} {name}"))
            }
            Subject::Messages(queue, _) => Some(queue),
            Subject::Blob(path) => objects::container(&path),
            Subject::Whole | Subject::Batch | Subject::Blobs | Subject::Other => None,
        }
    }

    /// The row, queue or blob that a request writes, as a pattern.
    fn resource(&self, request: &Exchange<'_>) -> Option<String> {
        match request.subject() {
            Subject::Row([table, partition, row]) => {
                Some(resource_of(&self.table(request, &table), &(partition, row)))
            }
            Subject::Messages(queue, _) => Some(format!("queue {queue}")),
            Subject::Blob(path) => Some(pattern(&path)),
            Subject::Whole => Some(request.path.to_owned()),
            Subject::Rows(_) | Subject::Batch | Subject::Blobs | Subject::Other => None,
        }
    }

    pub(super) fn refuse(&mut self, request: &Exchange<'_>) -> Answer {
        let line = request.line();
        let message = format!(
            "no stub answers {line}; the planned requests are: {}",
            if self.plan.is_empty() { "none".to_owned() } else { self.plan.join("; ") }
        );
        // Errors show the id of the request, and not the message of the service.
        let shown = line.chars().take(2000);
        let id: String = shown.map(|c| if matches!(c, ' '..='~') { c } else { '?' }).collect();
        self.unanswered.push(line);
        let code = ErrorCode::new("NoStubAnswers");
        let body = rowkey_wire::error::render_json(&code, &stamped(&message));
        data(400, body.into_bytes())
            .header("x-ms-error-code", code.as_str())
            .header("x-ms-request-id", &id)
    }
}

/// The rows that a request writes, by the number of the operation.
fn written(request: &Exchange<'_>) -> Vec<[String; 3]> {
    match request.subject() {
        Subject::Row(row) if !request.reads() => vec![row],
        Subject::Batch => {
            let operations = request.operations().unwrap_or_default();
            let rows = operations.iter().map(|operation| match operation.exchange().subject() {
                Subject::Row(row) if !operation.exchange().reads() => row,
                _ => Default::default(),
            });
            rows.collect()
        }
        _ => Vec::new(),
    }
}

/// A row as what is written, as a pattern.
pub(super) fn resource_of(table: &TableId, (partition, row): &(String, String)) -> String {
    let name = [table.name.clone(), partition.clone(), row.clone()];
    format!("{} {}", table.origin, pattern(&shown(&name)))
}
