//! The panels.

use super::{Panel, Query, Section, Show, Unit};

/// All panels, by subject.
pub fn sections() -> Vec<Section> {
    vec![requests(), cost(), pace(), stores(), workers(), jobs()]
}

const TABLES: &str = "db.client.operation.duration";
const HTTP: &str = "http.client.request.duration";

fn requests() -> Section {
    let rate = |name| Query::new(name, Show::Rate);
    let quantile = |name, share| Query::new(name, Show::Quantile(share));
    let panels = vec![
        Panel {
            title: "Operations",
            note: "How often a second, by operation.",
            unit: Unit::PerSecond,
            queries: vec![
                rate(TABLES).by("db.operation.name"),
                rate("messaging.client.operation.duration").by("messaging.operation.name"),
            ],
        },
        Panel {
            title: "Duration of operations on tables",
            note: "With retries and the waits between them.",
            unit: Unit::Seconds,
            queries: vec![
                quantile(TABLES, 0.5).legend("p50"),
                quantile(TABLES, 0.9).legend("p90"),
                quantile(TABLES, 0.99).legend("p99"),
            ],
        },
        Panel {
            title: "p99 by operation",
            note: "Operations on tables. Which one is slow.",
            unit: Unit::Seconds,
            queries: vec![quantile(TABLES, 0.99).by("db.operation.name")],
        },
        Panel {
            title: "Failed operations",
            note: "By the error code of the service.",
            unit: Unit::PerSecond,
            queries: vec![
                rate(TABLES).having("error.type").by("error.type"),
                rate("messaging.client.operation.duration")
                    .having("error.type")
                    .by("error.type")
                    .legend("queues:"),
            ],
        },
        Panel {
            title: "Throttled and repeated requests",
            note: "The service is busy, or connections break.",
            unit: Unit::PerSecond,
            queries: vec![
                rate("rowkey.client.throttled").legend("throttled"),
                rate("rowkey.client.retries").by("error.type").legend("repeated:"),
            ],
        },
        Panel {
            title: "Requests in flight",
            note: "Grows if the service answers late.",
            unit: Unit::Number,
            queries: vec![
                Query::new("http.client.active_requests", Show::Sum).by("http.request.method"),
            ],
        },
        Panel {
            title: "HTTP requests",
            note: "Attempts, by status. None: no response came.",
            unit: Unit::PerSecond,
            queries: vec![rate(HTTP).by("http.response.status_code")],
        },
        Panel {
            title: "Bytes",
            note: "Bodies of requests and responses.",
            unit: Unit::BytesPerSecond,
            queries: vec![
                Query::new("http.client.request.body.size", Show::SumRate).legend("sent"),
                Query::new("http.client.response.body.size", Show::SumRate).legend("received"),
            ],
        },
        Panel {
            title: "Entities read",
            note: "Rows in responses, by operation.",
            unit: Unit::PerSecond,
            queries: vec![
                Query::new("db.client.response.returned_rows", Show::SumRate)
                    .by("db.operation.name"),
            ],
        },
    ];
    Section { title: "Requests", panels }
}

fn cost() -> Section {
    let panels = vec![
        Panel {
            title: "Billed transactions",
            note: "By billing class. Times the price: the bill.",
            unit: Unit::PerSecond,
            queries: vec![
                Query::new("rowkey.client.transactions", Show::Rate).by("rowkey.billing.class"),
            ],
        },
        Panel {
            title: "Operations of a transaction",
            note: "Mean. 100 operations cost what one does.",
            unit: Unit::Number,
            queries: vec![
                Query::new("rowkey.client.batch.operations", Show::Mean)
                    .by("rowkey.operation.name"),
            ],
        },
        Panel {
            title: "Hedges and withheld retries",
            note: "Second reads, and repetitions that were spared.",
            unit: Unit::PerSecond,
            queries: vec![
                Query::new("rowkey.client.hedges", Show::Rate).legend("hedges"),
                Query::new("rowkey.client.retries.withheld", Show::Rate).legend("withheld"),
            ],
        },
    ];
    Section { title: "Cost", panels }
}

fn pace() -> Section {
    let panels = vec![
        Panel {
            title: "Waiting requests",
            note: "Not sent yet, by priority.",
            unit: Unit::Number,
            queries: vec![Query::new("rowkey.pace.waiting", Show::Sum).by("rowkey.priority")],
        },
        Panel {
            title: "Waits before requests",
            note: "Of those that waited.",
            unit: Unit::Seconds,
            queries: vec![
                Query::new("rowkey.pace.wait.duration", Show::Quantile(0.5)).legend("p50"),
                Query::new("rowkey.pace.wait.duration", Show::Quantile(0.99)).legend("p99"),
            ],
        },
        Panel {
            title: "Refused as too many",
            note: "What made the client slower.",
            unit: Unit::PerSecond,
            queries: vec![Query::new("rowkey.pace.pushbacks", Show::Rate).by("rowkey.priority")],
        },
    ];
    Section { title: "Pace", panels }
}

fn stores() -> Section {
    let panels = vec![
        Panel {
            title: "Requests of a write",
            note: "Mean. More than planned: writers contend.",
            unit: Unit::Number,
            queries: vec![
                Query::new("rowkey.store.write.requests", Show::Mean).by("rowkey.operation.name"),
            ],
        },
        Panel {
            title: "Settled targets",
            note: "By the writer itself, or by a worker later.",
            unit: Unit::PerSecond,
            queries: vec![Query::new("rowkey.store.settled", Show::Rate).by("rowkey.settled_by")],
        },
        Panel {
            title: "Lag of settling",
            note: "From a write to the last attempt at its targets.",
            unit: Unit::Seconds,
            queries: vec![Query::new("rowkey.store.lag", Show::Max).by("rowkey.declaration")],
        },
    ];
    Section { title: "Stores", panels }
}

fn workers() -> Section {
    let panels = vec![
        Panel {
            title: "Tasks",
            note: "Received messages, by how they ended.",
            unit: Unit::PerSecond,
            queries: vec![
                Query::new("rowkey.worker.attempts", Show::Rate).legend("attempts"),
                Query::new("rowkey.worker.ended", Show::Rate).by("rowkey.outcome"),
            ],
        },
        Panel {
            title: "Duration of handlers",
            note: "Of the program's own code.",
            unit: Unit::Seconds,
            queries: vec![
                Query::new("messaging.process.duration", Show::Quantile(0.5)).legend("p50"),
                Query::new("messaging.process.duration", Show::Quantile(0.99)).legend("p99"),
            ],
        },
        Panel {
            title: "Oldest task",
            note: "If it grows, there are too few workers.",
            unit: Unit::Seconds,
            queries: vec![
                Query::new("rowkey.worker.oldest", Show::Max).by("messaging.destination.name"),
            ],
        },
    ];
    Section { title: "Workers", panels }
}

fn jobs() -> Section {
    let panels = vec![
        Panel {
            title: "Rate of jobs",
            note: "Entities a second.",
            unit: Unit::PerSecond,
            queries: vec![Query::new("rowkey.job.rate", Show::Sum).by("rowkey.job")],
        },
        Panel {
            title: "Pace of jobs",
            note: "Requests sent. Falls while the service is busy.",
            unit: Unit::PerSecond,
            queries: vec![Query::new("rowkey.job.pace", Show::Max).by("rowkey.job")],
        },
        Panel {
            title: "Backlog of jobs",
            note: "Units of work that are not done.",
            unit: Unit::Number,
            queries: vec![Query::new("rowkey.job.backlog", Show::Sum).by("rowkey.job")],
        },
    ];
    Section { title: "Jobs", panels }
}
