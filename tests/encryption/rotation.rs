//! Rotation of keys: through every failure, and beside other writers.

use super::*;

#[tokio::test]
async fn writers_adopt_a_new_key_within_a_minute_and_verify_confirms_it() -> TestResult {
    let (server, account, old) = start().await?;
    let knowing = store(&account, ring_of(of(26)).with(of(27)))?;
    old.insert(&patient(1)).await?;
    knowing.insert(&patient(2)).await?;
    let new = store(&account, ring(27))?;
    assert_eq!(new.reencrypt().run().await?.total.repaired, 2);
    // They hold the older key for a minute.
    knowing.insert(&patient(3)).await?;
    server.clock().advance(Duration::from_secs(60));
    wait(&account, 60).await;
    knowing.insert(&patient(4)).await?;
    let error = old.insert(&patient(5)).await.unwrap_err();
    assert!(error.to_string().contains("`2027`, which the ring lacks"), "{error}");

    let early = new.verify_keys().run().await.unwrap_err().error;
    assert_eq!(early.kind(), ErrorKind::Conflict, "{early}");
    assert!(early.to_string().contains("s are left"), "{early}");
    server.clock().advance(Duration::from_secs(12 * 60));
    wait(&account, 12 * 60).await;
    let report = new.verify_keys().run().await?;
    assert_eq!((report.total.right, report.total.stale, report.is_clean()), (3, 1, false));
    assert_eq!(&*report.problems[0].row_key, "patient_000003");
    assert_eq!(new.reencrypt().run().await?.total.repaired, 1);
    let report = new.verify_keys().run().await?;
    assert_eq!((report.total.right, report.is_clean()), (4, true));

    // A new branch key under the same key, where one may have leaked, by a program whose clock is behind.
    let behind = ManualClock::auto_advancing(account.clock().now() - TimeDelta::minutes(14));
    let behind = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(behind)
        .build()?;
    ring(27).rotate(&behind.table("patients")).await?;
    let after = store(&account, ring(27))?;
    assert_eq!(after.reencrypt().run().await?.total.repaired, 4);
    Ok(())
}

/// What must be true when the job has passed, with the new key alone.
async fn assert_rotated(account: &StorageAccount) -> TestResult {
    let patients = store(account, ring_of(of(27)))?;
    for number in 1..=4 {
        let read = [
            patients.get(key(number)).await?,
            patients.find(Patient::by_bed("north", number)).await?,
        ];
        assert_eq!(
            read.map(|read| read.map(|read| read.entity)),
            [Some(patient(number)), Some(patient(number))]
        );
    }
    assert!(patients.verify().run().await?.is_clean());
    Ok(())
}

/// A table with rows under the old key, the new one, and in plain.
async fn mixed(account: &StorageAccount) -> TestResult {
    let (old, new) = (store(account, ring(26))?, store(account, ring(27))?);
    old.insert(&patient(1)).await?;
    ring(27).rotate(&account.table("patients")).await?;
    new.insert(&patient(2)).await?;
    // It holds the older key for a minute.
    old.insert(&patient(4)).await?;
    // As a program wrote it before there was encryption, without an index.
    put(account, &DynamicEntity::of(&patient(3))?).await?;
    Ok(())
}

#[tokio::test]
async fn reencryption_succeeds_if_any_of_its_requests_fails() -> TestResult {
    let (server, account, _) = start().await?;
    mixed(&account).await?;
    let accepting = |account: &StorageAccount| store(account, ring(27).accept_plaintext());
    for repeats in [false, true] {
        sweep_sample(
            &server,
            if repeats { "repeated" } else { "once" },
            async |account| {
                let account = if repeats { account.clone() } else { once(account) };
                let mut checkpoint = None;
                let patients = accepting(&account)?;
                let job = patients.reencrypt().progress(|progress| {
                    checkpoint = Some(progress.checkpoint.to_string());
                });
                let ran = job.run().await.map(|report| assert!(report.is_clean(), "{report:?}"));
                Ok::<_, rowkey::Error>((checkpoint, ran.map_err(|error| error.to_string())))
            },
            async |account, result| {
                let patients = accepting(account)?;
                if let Ok((checkpoint, Err(_))) = result {
                    let job = patients.reencrypt();
                    let job = match checkpoint {
                        Some(checkpoint) => job.resume(checkpoint.parse()?),
                        None => job,
                    };
                    assert!(job.run().await?.is_clean());
                }
                patients.drain_backlog().await?;
                assert_eq!(patients.work_once().await?.failed, 0);
                // The plaintext row has its claim by now.
                assert!(patients.repair().run().await?.is_clean());
                assert_rotated(account).await
            },
            |snapshot, _| assert_sealed(snapshot),
        )
        .await?;
    }
    Ok(())
}

/// Item 4: with a lagging secondary, re-encryption reads the primary and loses no row.
#[tokio::test]
async fn reencryption_reads_the_primary_and_ignores_the_scan_policy() -> TestResult {
    let (server, account, patients) = start().await?;
    patients.insert(&patient(1)).await?;
    let behind = server.hold_back_secondary();
    patients.insert(&patient(2)).await?;
    let busy =
        server.inject(Fault::on(Operation::QueryEntities).nth(1).reject(ErrorCode::SERVER_BUSY));
    let options = ClientOptions {
        read_from_secondary: true,
        scan_policy: ScanPolicy::Deny,
        ..account.options().clone()
    };
    let report = store(&account.with_options(options), ring(27))?.reencrypt().run().await?;
    assert_eq!((busy.hits(), report.total.repaired, report.is_clean()), (1, 2, true));
    drop(behind);
    let after = store(&account, ring_of(of(27)))?;
    for number in 1..=2 {
        assert_eq!(after.get(key(number)).await?.map(|one| one.entity), Some(patient(number)));
    }
    Ok(())
}

#[tokio::test]
async fn reencryption_reports_undecryptable_rows_and_leaves_them_unchanged() -> TestResult {
    let (_server, account, patients) = start().await?;
    for number in 1..=3 {
        patients.insert(&patient(number)).await?;
    }
    let mut altered = raw(&account, "patient_000002").await?;
    altered.set("Name", vec![1_u8, 1]);
    put(&account, &altered).await?;
    put(&account, &DynamicEntity::of(&patient(4))?).await?;

    let report = store(&account, ring(27))?.reencrypt().run().await?;
    assert_eq!((report.total.repaired, report.total.unreadable), (2, 2), "{report:?}");
    assert!(!report.is_clean());
    let named: Vec<_> = report.problems.iter().map(|problem| &*problem.row_key).collect();
    assert_eq!(named, ["patient_000002", "patient_000004"]);
    let left = raw(&account, "patient_000002").await?;
    assert!(altered.iter().all(|(name, value)| left.get(name) == Some(value)));
    Ok(())
}

#[tokio::test]
async fn an_old_branch_key_is_replaced() -> TestResult {
    let (server, account, patients) = start().await?;
    let (ring, table) = (ring(26), account.table("patients"));
    let age = Duration::from_secs(600);
    let records = || {
        let snapshot = server.snapshot();
        let rows = snapshot.table("patients").unwrap().entities();
        rows.filter(|row| row.partition_key() == "encryption").count()
    };
    assert!(ring.rotate_if_older_than(&table, age).await?, "there is none");
    patients.insert(&patient(1)).await?;
    let before = server.journal();
    assert!(!ring.rotate_if_older_than(&table, age).await?);
    assert_eq!((server.journal().since(&before).len(), records()), (1, 1));
    wait(&account, 604).await;
    server.clock().advance(Duration::from_secs(604));
    let before = server.journal();
    assert!(ring.rotate_if_older_than(&table, age).await?);
    assert_eq!((server.journal().since(&before).len(), records()), (2, 2));
    assert!(!ring.rotate_if_older_than(&table, age).await?);
    // Writers use the new key, and values of the older key are readable.
    patients.insert(&patient(2)).await?;
    let metadata =
        |row: DynamicEntity| row.get("_RowkeyEncryption").map(|value| format!("{value:?}"));
    let branch =
        |text: Option<String>| text.and_then(|text| text.split(' ').nth(1).map(str::to_owned));
    let (one, two) =
        (raw(&account, "patient_000001").await?, raw(&account, "patient_000002").await?);
    assert_ne!(branch(metadata(one)), branch(metadata(two)));
    assert_eq!(patients.get(key(1)).await?.map(|one| one.entity), Some(patient(1)));
    assert_eq!(patients.reencrypt().run().await?.total.repaired, 1);
    Ok(())
}

/// Keys before whose sealing another program writes, as often as it says.
struct Meddled {
    ring: KeyRing,
    account: StorageAccount,
    left: AtomicU32,
}

impl Sealer for Meddled {
    fn seal<'a>(
        &'a self,
        op: &'a Op,
        table: &'a Table,
        names: &'a [&'static str],
        before: Option<(&'a DynamicEntity, &'a [&'static str])>,
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let take = |left: u32| left.checked_sub(1);
            if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                let doctor = format!("doctor {}", self.left.load(Ordering::Relaxed));
                let other = store(&self.account, ring(27))?;
                other.upsert(&Patient { doctor, ..patient(1) }).await?;
            }
            self.ring.seal(op, table, names, before, row).await
        })
    }

    fn open<'a>(
        &'a self,
        table: &'a Table,
        names: &'a [&'static str],
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<Vec<String>>> {
        self.ring.open(table, names, row)
    }

    fn renew<'a>(&'a self, table: &'a Table) -> BoxFuture<'a, Result<()>> {
        self.ring.renew(table)
    }

    fn age<'a>(&'a self, table: &'a Table) -> BoxFuture<'a, Result<Duration>> {
        self.ring.age(table)
    }

    fn is_current<'a>(
        &'a self,
        table: &'a Table,
        names: &'a [&'static str],
        row: &'a DynamicEntity,
    ) -> BoxFuture<'a, Result<bool>> {
        self.ring.is_current(table, names, row)
    }

    fn seal_content(
        &self,
        row: &DynamicEntity,
        property: &str,
        value: &Value,
    ) -> Result<(Vec<u8>, Vec<u8>)> {
        self.ring.seal_content(row, property, value)
    }

    fn open_content(
        &self,
        row: &DynamicEntity,
        property: &str,
        key: &[u8],
        stored: &[u8],
    ) -> Result<Value> {
        self.ring.open_content(row, property, key, stored)
    }

    fn is_content(&self, key: &[u8], value: &Value) -> bool {
        self.ring.is_content(key, value)
    }
}

#[tokio::test]
async fn reencryption_keeps_concurrent_writes() -> TestResult {
    let (_server, account, patients) = start().await?;
    patients.insert(&patient(1)).await?;
    patients.insert(&patient(2)).await?;
    let meddled = Meddled { ring: ring(27), account: account.clone(), left: AtomicU32::new(3) };
    let job = Store::<Patient>::builder(account.table("patients"))
        .queue(account.queue("patients"))
        .keys(meddled)
        .build()?;
    let report = job.reencrypt().run().await?;
    assert_eq!((report.total.repaired, report.is_clean()), (2, true), "{report:?}");
    let read = store(&account, ring_of(of(27)))?;
    let expected = Patient { doctor: "doctor 0".into(), ..patient(1) };
    assert_eq!(read.get(key(1)).await?.map(|one| one.entity), Some(expected));
    assert_eq!(read.query(Patient::by_tag("north", "doctor 0")).all().await?.len(), 1);
    assert!(read.verify().run().await?.is_clean());
    Ok(())
}
