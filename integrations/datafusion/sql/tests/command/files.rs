//! Files in blob containers and folders.

use futures::stream;
use rowkey::patterns::job::Job;
use rowkey::{DynamicEntity, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation};

use crate::support::{Account, finish};

const FORBIDDEN: ErrorCode = ErrorCode::AUTHORIZATION_FAILURE;
/// The rows of the table `big`: three pages.
const BIG: i64 = 2_500;

/// An account with a container `exports` and the table `big`, which is one partition.
async fn with_big() -> Account {
    let account = Account::start().await;
    account.storage.container("exports").create().await.unwrap();
    let table = account.storage.table("big");
    table.create().await.unwrap();
    let rows = (0..BIG).map(|number| {
        let mut row = DynamicEntity::new("p", format!("{number:04}"));
        row.set("cents", number);
        row
    });
    Job::upsert(&table, stream::iter(rows)).run().await.unwrap();
    account
}

/// The number of rows of a file.
fn count(account: &Account, path: &str) -> String {
    account.sql(&format!("SELECT COUNT(*) AS n FROM '{path}'"))
}

/// The names of the files in the folder of the process.
fn names(account: &Account) -> Vec<String> {
    let entries = std::fs::read_dir(account.folder.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_copied_to_a_blob_container_and_read_back() {
    let account = Account::with_orders().await;
    account.storage.container("exports").create().await.unwrap();
    let out = account
        .sql("COPY (SELECT * FROM orders) TO 'az://exports/2026/orders.parquet' STORED AS PARQUET");
    assert_eq!(out, "{\"count\":30}\n");
    let read = "CREATE EXTERNAL TABLE copies STORED AS PARQUET LOCATION 'az://exports/2026/orders.parquet'; \
                SELECT COUNT(*) AS n, SUM(cents) AS cents, MAX(Timestamp) > '2020-01-01' AS timed FROM copies";
    assert_eq!(account.sql(read), "{\"n\":30,\"cents\":43500,\"timed\":true}\n");
    // By its path, and all files of a folder.
    assert_eq!(
        account.sql("SELECT COUNT(*) AS n FROM 'az://exports/2026/orders.parquet'"),
        "{\"n\":30}\n"
    );
    account
        .sql("COPY (SELECT * FROM orders) TO 'az://exports/2026/more.parquet' STORED AS PARQUET");
    let read = "CREATE EXTERNAL TABLE copies STORED AS PARQUET LOCATION 'az://exports/2026/'; SELECT COUNT(*) AS n FROM copies";
    assert_eq!(account.sql(read), "{\"n\":60}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_of_another_account_is_named_with_it() {
    let account = Account::with_orders().await;
    let archive = StorageAccount::from_connection_string(&account.archive()).unwrap();
    archive.container("exports").create().await.unwrap();
    let sql = "COPY (SELECT * FROM orders) TO 'az://exports@archive/orders.csv' STORED AS CSV; \
               SELECT COUNT(*) AS n FROM 'az://exports@archive/orders.csv'";
    let mut command = account.command(["--scan", "-c", sql]);
    let done = finish(command.env("ROWKEY_CONNECTION_STRING_A", account.archive()));
    assert_eq!((done.code, &*done.out), (0, "{\"count\":30}\n{\"n\":30}\n"), "{}", done.err);
    let error = account.fails(
        2,
        [
            "--scan",
            "-c",
            "COPY (SELECT * FROM orders) TO 'az://exports@archive/orders.csv' STORED AS CSV",
        ],
    );
    assert!(
        error.contains("the account archive is not known")
            && error.contains("ROWKEY_CONNECTION_STRING_ARCHIVE"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_access_signature_is_sent_and_not_shown() {
    let account = Account::with_orders().await;
    account.storage.container("exports").create().await.unwrap();
    let signature =
        "sv=2024-05-04&ss=bt&srt=sco&sp=rwl&se=2030-01-01T00%3A00%3A00Z&sig=c2lnbmF0dXJl";
    let parts = account
        .server
        .connection_string()
        .split(';')
        .filter(|part| !part.starts_with("AccountKey="));
    let text = format!("{};SharedAccessSignature={signature}", parts.collect::<Vec<_>>().join(";"));
    // The signature is wrong, and so is each request.
    let mut command = account
        .command(["-c", "COPY (SELECT 1 AS a) TO 'az://exports/a.parquet' STORED AS PARQUET"]);
    let done = finish(command.env("ROWKEY_CONNECTION_STRING", text));
    assert!(done.code != 0 && !done.err.contains("c2lnbmF0dXJl"), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_this_machine_is_a_table() {
    let account = Account::with_orders().await;
    account.sql("COPY (SELECT * FROM orders) TO 'orders.parquet' STORED AS PARQUET");
    assert_eq!(account.sql("SELECT COUNT(*) AS n FROM 'orders.parquet'"), "{\"n\":30}\n");
    let error = account.fails(3, ["-c", "SELECT * FROM 'nothing.parquet'"]);
    assert!(error.contains("nothing.parquet"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_fails_leaves_the_file_that_was_there() {
    let account = with_big().await;
    let all = format!("{{\"n\":{BIG}}}\n");
    // Small files are one request, and large ones are sent in parts.
    for (path, columns) in [
        ("a.parquet", "*"),
        ("a.csv", "*"),
        ("a.json", "*"),
        ("large.csv", "repeat(RowKey, 1500) AS a, cents"),
        ("az://exports/a.parquet", "*"),
        ("az://exports/a.csv", "*"),
        ("az://exports/large.csv", "repeat(RowKey, 1500) AS a, cents"),
    ] {
        let copy = format!("COPY (SELECT {columns} FROM big) TO '{path}'");
        let before = account.server.journal();
        account.sql(&copy);
        let sent = account.server.journal().since(&before).count(Operation::QueryEntities);
        assert_eq!(count(&account, path), all, "{path}");
        let files = names(&account);
        // The last page.
        let last = u64::try_from(sent).unwrap();
        let fault = Fault::on(Operation::QueryEntities).nth(last).times(1000).reject(FORBIDDEN);
        let fault = account.server.inject(fault);
        account.fails(5, ["--scan", "-c", &copy]);
        drop(fault);
        assert_eq!(count(&account, path), all, "{path}");
        assert_eq!(names(&account), files, "{path}");
    }
    // A value that does not fit the type of its column, which the first rows are.
    let mut odd = DynamicEntity::new("p", "9999");
    odd.set("cents", "no number");
    account.storage.table("big").insert(&odd).await.unwrap();
    for path in ["a.parquet", "a.csv", "az://exports/a.parquet"] {
        let copy = format!("COPY (SELECT * FROM big) TO '{path}'");
        let done = account.run(["--scan", "--mismatch", "error", "-c", &copy]);
        assert_ne!(done.code, 0, "{done:?}");
        assert_eq!(count(&account, path), all, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_not_there_before_it_is_whole() {
    let account = with_big().await;
    let before = account.server.journal();
    let query = "SELECT *, cents % 3 AS third FROM big";
    account.sql(&format!("COPY ({query}) TO 'out/' STORED AS PARQUET PARTITIONED BY (third)"));
    let sent = account.server.journal().since(&before).count(Operation::QueryEntities);
    assert_eq!(count(&account, "out/"), format!("{{\"n\":{BIG}}}\n"));
    let last = u64::try_from(sent).unwrap();
    let fault = Fault::on(Operation::QueryEntities).nth(last).times(1000).reject(FORBIDDEN);
    let _fault = account.server.inject(fault);
    for format in ["PARQUET", "CSV", "JSON"] {
        let copy = format!("COPY ({query}) TO 'new/' STORED AS {format} PARTITIONED BY (third)");
        account.fails(5, ["--scan", "-c", &copy]);
        assert_eq!(names(&account), ["out"], "{format}");
    }
    // One that the format cannot have.
    let copy = "COPY (SELECT make_array(1, 2) AS a) TO 'array.csv'";
    let error = account.fails(1, ["-c", copy]);
    assert!(error.contains("not supported in CSV"), "{error}");
    assert_eq!(names(&account), ["out"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_that_cannot_be_written_have_their_code() {
    let account = Account::with_orders().await;
    let copies = [
        "COPY (SELECT * FROM orders) TO 'az://exports/a.parquet'",
        "COPY (SELECT * FROM orders) TO 'az://exports/a.csv'",
        "COPY (SELECT * FROM orders) TO 'az://exports/a/' STORED AS CSV PARTITIONED BY (PartitionKey)",
        "COPY (SELECT * FROM orders) TO 'az://exports/b/' STORED AS PARQUET PARTITIONED BY (PartitionKey)",
        // In parts.
        "COPY (SELECT repeat(RowKey, 300000) AS a, PartitionKey FROM orders) TO 'az://exports/c/' STORED AS CSV PARTITIONED BY (PartitionKey)",
    ];
    for copy in copies {
        let error = account.fails(3, ["--scan", "-c", copy]);
        assert!(error.contains("create it first"), "{copy}: {error}");
    }
    let exports = account.storage.container("exports");
    exports.create().await.unwrap();
    // The last of three files. The first two would be rows twice when the statement is run again.
    let fault = Fault::on(Operation::PutBlob).nth(3).reject(FORBIDDEN);
    let fault = account.server.inject(fault);
    account.fails(5, ["--scan", "-c", copies[2]]);
    drop(fault);
    account.fails(3, ["-c", "SELECT * FROM 'az://exports/a/'"]);
    let writes = [Operation::PutBlob, Operation::PutBlock, Operation::PutBlockList];
    let _faults =
        writes.map(|operation| account.server.inject(Fault::on(operation).reject(FORBIDDEN)));
    for copy in copies {
        let error = account.fails(5, ["--scan", "-c", copy]);
        assert!(error.contains("AuthorizationFailure"), "{copy}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_that_cannot_be_read_are_not_missing_ones() {
    let account = Account::with_orders().await;
    account.storage.container("exports").create().await.unwrap();
    account.sql("COPY (SELECT * FROM orders) TO 'az://exports/a.parquet'");
    let read = "SELECT COUNT(*) AS n FROM 'az://exports/a.parquet'";
    assert_eq!(account.sql(read), "{\"n\":30}\n");
    account.fails(3, ["-c", "SELECT * FROM 'az://exports/b.parquet'"]);
    let error = account.fails(3, ["-c", "SELECT * FROM 'az://other/b.parquet'"]);
    assert!(error.contains("the container does not exist"), "{error}");
    let error = account.fails(2, ["-c", "SELECT * FROM 'az://exports@archive/b.parquet'"]);
    assert!(error.contains("the account archive is not known"), "{error}");
    for operation in [Operation::GetBlobProperties, Operation::GetBlob, Operation::ListBlobs] {
        let fault = account.server.inject(Fault::on(operation).reject(FORBIDDEN));
        let path = if operation == Operation::ListBlobs {
            "az://exports/"
        } else {
            "az://exports/a.parquet"
        };
        let error = account.fails(5, ["-c", &format!("SELECT * FROM '{path}'")]);
        // The answer to HEAD has no code.
        let told = match operation {
            Operation::GetBlobProperties => "the service answered 403",
            _ => "the service answered AuthorizationFailure",
        };
        assert!(error.contains(told) && !error.contains("http"), "{operation:?}: {error}");
        drop(fault);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_reads_what_it_has_written_to_a_folder() {
    let account = Account::with_orders().await;
    let out = account.sql(
        "COPY (SELECT * FROM orders) TO 'out/a.parquet'; SELECT COUNT(*) AS n FROM 'out/'; \
         COPY (SELECT * FROM orders) TO 'out/b.parquet'; SELECT COUNT(*) AS n FROM 'out/'",
    );
    assert_eq!(out, "{\"count\":30}\n{\"n\":30}\n{\"count\":30}\n{\"n\":60}\n");
    // Of one size, and of one second.
    account.storage.container("exports").create().await.unwrap();
    for place in ["", "az://exports/"] {
        let file = format!("{place}one.parquet");
        let read = format!("SELECT max(a) AS a, count(*) AS n FROM '{file}'");
        let copies = (1..4).map(|a| format!("COPY (SELECT {a} AS a) TO '{file}'; {read}"));
        let out = account.sql(&copies.collect::<Vec<_>>().join("; "));
        let expected = (1..4).map(|a| format!("{{\"count\":1}}\n{{\"a\":{a},\"n\":1}}\n"));
        assert_eq!(out, expected.collect::<String>(), "{file}");
    }
    account.storage.container("others").create().await.unwrap();
    let out = account.sql(
        "COPY (SELECT 1 AS a) TO 'az://exports/x.parquet'; COPY (SELECT 2 AS a) TO 'az://others/x.parquet'; \
         SELECT x.a, y.a AS b FROM 'az://exports/x.parquet' AS x, 'az://others/x.parquet' AS y",
    );
    assert!(out.ends_with("{\"a\":1,\"b\":2}\n"), "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_a_value_has_no_rows_with_null_and_a_text_may_have_lines() {
    let account = Account::with_orders().await;
    let copy =
        "COPY (SELECT RowKey, Note FROM orders) TO 'notes/' STORED AS CSV PARTITIONED BY (Note)";
    let error = account.fails(1, ["--scan", "-c", copy]);
    assert!(
        error.contains("NULL in the column Note") && error.contains("coalesce(Note"),
        "{error}"
    );
    account.sql(&copy.replace("SELECT RowKey, Note", "SELECT RowKey, coalesce(Note, '-') AS Note"));
    assert_eq!(account.sql("SELECT count(*) AS n FROM 'notes/'"), "{\"n\":30}\n");
    // More than the 10 MiB from which the engine reads a file in parts.
    let lines = "SELECT value AS n, repeat('aaaa ', 600) || chr(10) || repeat('bbbb ', 600) AS text FROM generate_series(1, 2400)";
    account.sql(&format!("COPY ({lines}) TO 'lines.csv'"));
    assert_eq!(
        account.sql("CREATE EXTERNAL TABLE lines (n BIGINT, text TEXT) STORED AS CSV LOCATION 'lines.csv' OPTIONS ('format.has_header' 'true'); SELECT count(*) AS n, sum(n) AS s FROM lines"),
        "{\"n\":2400,\"s\":2881200}\n"
    );
}
