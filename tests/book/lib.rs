//! The pages of the book and README.md, so that `cargo test -p rowkey-book` compiles and runs their code.
//!
//! A package of its own, because a page uses several crates, and a published package cannot read a file outside of
//! its folder.

macro_rules! pages {
    ($($name:ident: $path:literal),* $(,)?) => {$(
        #[cfg(doctest)]
        #[doc = include_str!(concat!("../../", $path))]
        mod $name {}
    )*};
}

pages! {
    readme: "README.md",
    readme_of_the_client: "crates/rowkey/README.md",
    readme_of_metrics: "crates/rowkey-metrics/README.md",
    readme_of_otel: "crates/rowkey-otel/README.md",
    readme_of_transfer: "crates/rowkey-transfer/README.md",
    introduction: "docs/src/introduction.md",
    quickstart: "docs/src/quickstart.md",
    keys: "docs/src/concepts/keys.md",
    store: "docs/src/concepts/store.md",
    declarations: "docs/src/concepts/declarations.md",
    consistency: "docs/src/concepts/consistency.md",
    cost: "docs/src/concepts/cost.md",
    limits: "docs/src/concepts/limits.md",
    accounts: "docs/src/client/accounts.md",
    tables: "docs/src/client/tables.md",
    queries: "docs/src/client/queries.md",
    compat: "docs/src/client/compat.md",
    json: "docs/src/client/json.md",
    transactions: "docs/src/client/transactions.md",
    queues: "docs/src/client/queues.md",
    blobs: "docs/src/client/blobs.md",
    access: "docs/src/client/access.md",
    errors_and_retry: "docs/src/client/errors-and-retry.md",
    telemetry: "docs/src/client/telemetry.md",
    testing: "docs/src/client/testing.md",
    dashboards: "docs/src/client/dashboards.md",
    bulk_delete: "docs/src/patterns/bulk-delete.md",
    janitor: "docs/src/patterns/janitor.md",
    worker: "docs/src/patterns/worker.md",
    migrate_data: "docs/src/migrate/data.md",
    migrate_azure_data_tables: "docs/src/migrate/azure-data-tables.md",
    migrate_others: "docs/src/migrate/others.md",
    hot_partitions: "docs/src/client/hot-partitions.md",
    in_tests: "docs/src/server/in-tests.md",
    seeds: "docs/src/server/seeds.md",
    faults: "docs/src/server/faults.md",
    tokens: "docs/src/server/tokens.md",
}
