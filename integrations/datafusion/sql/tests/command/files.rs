//! Files in blob containers and folders.

use rowkey::StorageAccount;

use crate::support::{Account, finish};

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
