//! The eleven workloads of the servers, and their goals.

use crate::load::Operation;
use crate::process::Service;
use crate::report::Goal;
use crate::requests::{PER_PARTITION, Writer};
use crate::small::{BLOB_LINE, BLOB_LINES};

/// How many entities a point get chooses from.
pub const SMALL: usize = 10_000;
/// How many entities there are in the one partition of the second table.
pub const WIDE: usize = 10_000;
/// The same for the third table.
pub const FLAT: usize = 100_000;

/// The repeated request of a workload.
pub struct Workload {
    pub name: &'static str,
    pub service: Service,
    pub connections: usize,
    /// Operations a round: of the two in Rust, and of Azurite.
    pub operations: [usize; 2],
    /// CPU time: the ratios of ours to the bare server, and of Azurite to ours.
    pub goals: [Goal; 2],
    /// The 99th percentile of ours over that of the bare server.
    pub tail: Goal,
    /// The expected content of the responses, so that no server is fast because it returns nothing.
    pub proof: (&'static str, usize),
    /// The operation with a number that no other operation on the server had.
    pub operation: fn(&Writer, usize) -> Operation,
}

const ENTITY: &str = "\"RowKey\"";

pub const WORKLOADS: [Workload; 11] = [
    Workload {
        name: "insert",
        service: Service::Table,
        connections: 8,
        operations: [20_000, 600],
        goals: [Goal::AtMost(1.3), Goal::AtLeast(35.0)],
        tail: Goal::AtMost(2.0),
        proof: ("", 0),
        operation: |writer, number| writer.insert("inserts", number, PER_PARTITION).into(),
    },
    Workload {
        name: "get, 10,000 entities",
        service: Service::Table,
        connections: 8,
        operations: [20_000, 300],
        goals: [Goal::AtMost(1.2), Goal::AtLeast(100.0)],
        tail: Goal::AtMost(2.0),
        proof: (ENTITY, 1),
        operation: |writer, number| {
            writer.get("small", scattered(number, SMALL), PER_PARTITION).into()
        },
    },
    Workload {
        name: "get, 100,000 in one partition",
        service: Service::Table,
        connections: 8,
        operations: [20_000, 100],
        goals: [Goal::AtMost(1.2), Goal::AtLeast(400.0)],
        tail: Goal::None,
        proof: (ENTITY, 1),
        operation: |writer, number| writer.get("flat", scattered(number, FLAT), FLAT).into(),
    },
    Workload {
        name: "merge, 10,000 entities",
        service: Service::Table,
        connections: 8,
        operations: [20_000, 200],
        goals: [Goal::AtMost(1.3), Goal::AtLeast(150.0)],
        tail: Goal::None,
        proof: ("", 0),
        operation: |writer, number| {
            let level = i32::try_from(number % 1_000).unwrap_or_default();
            writer.merge("small", scattered(number, SMALL), PER_PARTITION, level).into()
        },
    },
    Workload {
        name: "EGT of 100 inserts",
        service: Service::Table,
        connections: 4,
        operations: [400, 24],
        goals: [Goal::AtMost(1.8), Goal::AtLeast(30.0)],
        tail: Goal::None,
        proof: ("HTTP/1.1 204", 100),
        operation: |writer, number| {
            writer.batch("batches", number * 100..number * 100 + 100, PER_PARTITION).into()
        },
    },
    Workload {
        name: "page of 1,000",
        service: Service::Table,
        connections: 4,
        operations: [400, 12],
        goals: [Goal::AtMost(1.3), Goal::AtLeast(40.0)],
        tail: Goal::None,
        proof: (ENTITY, 1_000),
        operation: |writer, number| writer.page("small", number % (SMALL / PER_PARTITION)).into(),
    },
    Workload {
        name: "range of 100",
        service: Service::Table,
        connections: 4,
        operations: [3_000, 60],
        goals: [Goal::AtMost(1.3), Goal::AtLeast(100.0)],
        tail: Goal::None,
        proof: (ENTITY, 100),
        operation: |writer, number| {
            writer.range("small", number % (SMALL / PER_PARTITION), number * 7 % 900).into()
        },
    },
    Workload {
        name: "filter, 1 % of 10,000",
        service: Service::Table,
        connections: 4,
        operations: [600, 12],
        goals: [Goal::AtMost(1.8), Goal::AtLeast(9.0)],
        tail: Goal::None,
        proof: (ENTITY, 100),
        operation: |writer, number| writer.filtered("wide", number % 100).into(),
    },
    Workload {
        name: "filter, 1 % of 100,000",
        service: Service::Table,
        connections: 4,
        operations: [100, 12],
        goals: [Goal::AtMost(1.8), Goal::AtLeast(9.0)],
        tail: Goal::None,
        proof: (ENTITY, 1_000),
        operation: |writer, number| writer.filtered("flat", number % 100).into(),
    },
    Workload {
        name: "queue put+get+delete",
        service: Service::Queue,
        connections: 8,
        operations: [5_000, 200],
        goals: [Goal::AtMost(1.1), Goal::AtLeast(50.0)],
        tail: Goal::None,
        // An empty queue's answer has none; without the receipt in it the deletion fails.
        proof: ("<MessageText>", 1),
        operation: |writer, number| writer.through_the_queue(number),
    },
    Workload {
        name: "blob put+get, 4 KiB",
        service: Service::Blob,
        connections: 8,
        operations: [5_000, 200],
        goals: [Goal::AtMost(1.5), Goal::AtLeast(120.0)],
        tail: Goal::None,
        proof: (BLOB_LINE, BLOB_LINES),
        operation: |writer, number| writer.blob_and_back(number),
    },
];

/// A number below `limit` that does not follow the one before.
pub(crate) fn scattered(number: usize, limit: usize) -> usize {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % limit
}
