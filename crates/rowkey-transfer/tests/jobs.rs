//! Tables to files and back: exact, whole after a resume from each checkpoint, and with an error for each damage.

#![cfg(feature = "jobs")]

use std::collections::BTreeSet;
use std::path::Path;

use futures_util::TryStreamExt as _;
use rowkey::edm::{DateTime, Guid};
use rowkey::patterns::job::{Checkpoint, Job, Walk, Walking};
use rowkey::{DynamicEntity, ScanPolicy, StorageAccount, Table};
use rowkey_client::{Clock as _, ManualClock, SystemClock};
use rowkey_emulator::{ErrorCode, Fault, Server};
use rowkey_transfer::backup::{FileEncoder, Manifest};
use rowkey_transfer::jobs::{Export, Exporting, Location, Source};
use rowkey_transfer::{Compression, ErrorKind, Format, FormatEncoder, Row, azcopy};

type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// A server with a table of 30 partitions of 20 rows and one row with all types.
async fn filled() -> TestResult<(Server, Table)> {
    let server = Server::start().await?;
    let table = account(&server)?.table("things");
    table.create().await?;
    for partition in 0..30 {
        let rows = (0..20).map(|row| {
            let mut entity = DynamicEntity::new(format!("k{partition:02}"), format!("{row:04}"));
            entity.set("Number", row);
            entity
        });
        rows.fold(table.transaction(), |all, row| all.insert(&row)).submit().await?;
    }
    let mut all = DynamicEntity::new("", "");
    all.set("Binary", vec![0_u8, 255]);
    all.set("Boolean", false);
    all.set("DateTime", "9999-12-31T23:59:59.9999999Z".parse::<DateTime>()?);
    all.set("Double", f64::NEG_INFINITY);
    all.set("Guid", Guid::from_u128(7));
    all.set("Int32", i32::MIN);
    all.set("Int64", i64::MAX);
    all.set("String", "");
    table.insert(&all).await?;
    Ok((server, table))
}

/// An account whose pauses end at once.
fn account(server: &Server) -> TestResult<StorageAccount> {
    let builder = StorageAccount::builder().connection_string(server.connection_string())?;
    Ok(builder.clock(ManualClock::auto_advancing(SystemClock.now())).build()?)
}

fn walk(table: &Table) -> Walk<DynamicEntity> {
    let walk = Walk::new(table, |table| table.scan::<DynamicEntity>().page_size(20));
    walk.split_automatically()
}

fn export(to: &Export, table: &Table) -> Job<'static, Walking<DynamicEntity, Exporting>> {
    to.job(walk(table)).concurrency(4)
}

async fn entities(table: &Table) -> TestResult<Vec<DynamicEntity>> {
    let all = table.scan::<DynamicEntity>().scan_policy(ScanPolicy::Allow).stream();
    Ok(all.map_ok(|stored| stored.entity).try_collect().await?)
}

/// The entities of a source, sorted.
async fn read(source: Source) -> TestResult<Vec<DynamicEntity>> {
    let mut all: Vec<_> = source.stream().map_ok(|row| row.entity).try_collect().await?;
    all.sort_by(|one, other| {
        (&one.partition_key, &one.row_key).cmp(&(&other.partition_key, &other.row_key))
    });
    Ok(all)
}

/// Places for files: a folder, and a container of another server.
async fn places(folder: &Path) -> TestResult<(Server, [Location; 2])> {
    let server = Server::start().await?;
    let container = account(&server)?.container("backups");
    container.create().await?;
    let places = [Location::folder(folder), Location::container(&container, "a/b/")];
    Ok((server, places))
}

#[tokio::test]
async fn a_backup_restores_each_entity_with_its_types() -> TestResult {
    let (server, table) = filled().await?;
    let expected = entities(&table).await?;
    let folder = tempfile::tempdir()?;
    let (_places, places) = places(folder.path()).await?;
    for (number, place) in places.iter().enumerate() {
        for compression in [Compression::None, Compression::Gzip] {
            if compression == Compression::Gzip {
                for name in place.names().await? {
                    place.remove(&name).await?;
                }
            }
            let to = Export::new(place, table.name()).compression(compression);
            to.check_free().await?;
            let report = export(&to, &table).run().await?;
            let manifest = to.finish(&report).await?;
            assert_eq!((manifest.rows, &*manifest.table), (601, "things"));
            assert_eq!(to.check_free().await.unwrap_err().kind(), ErrorKind::Duplicate);

            let source = Source::open(place).await?;
            assert_eq!((source.table(), source.rows()), (Some("things"), Some(601)));
            assert_eq!(source.verify().await?, 601);
            let restored = table.account().table(&format!("restored{number}{compression:?}"));
            restored.create().await?;
            let (rows, failure) = source.entities();
            let report = failure.or(Job::upsert(&restored, rows).run()).await??;
            assert_eq!((report.total.right, report.is_clean()), (601, true));
            assert_eq!(entities(&restored).await?, expected);
        }
    }
    drop(server);
    Ok(())
}

#[tokio::test]
async fn an_export_that_is_resumed_has_each_entity_once() -> TestResult {
    let (server, table) = filled().await?;
    let expected = entities(&table).await?;
    let folder = tempfile::tempdir()?;
    let (_places, places) = places(folder.path()).await?;
    for place in &places {
        let to = Export::new(place, table.name());
        let mut checkpoints: Vec<String> = Vec::new();
        let job = || export(&to, &table);
        job().progress(|progress| checkpoints.push(progress.checkpoint.to_string())).run().await?;
        assert!(checkpoints.len() > 3, "{} checkpoints", checkpoints.len());
        let mut files = Vec::new();
        for name in place.names().await? {
            let content = place.read(&name).await?.ok_or("a file")?;
            files.push((name, content));
        }
        for name in [
            "things-0123456789abcdef.jsonl.gz",
            ".things-0123456789abcdef.jsonl.gz.a1b2c3",
            ".manifest.json.a1b2c3",
        ] {
            files.push((name.to_owned(), "of a run that was killed".into()));
        }
        for text in &checkpoints {
            let checkpoint: Checkpoint = text.parse()?;
            place.remove("manifest.json").await?;
            for (name, content) in &files {
                place.write(name, content.clone()).await?;
            }
            let injected =
                server.inject(Fault::any().nth(2).times(2).reject(ErrorCode::SERVER_BUSY));
            let report = job().resume(checkpoint).run().await?;
            drop(injected);
            let manifest = to.finish(&report).await?;
            assert_eq!(manifest.rows, 601);
            let listed: BTreeSet<_> = manifest.files.into_iter().map(|file| file.name).collect();
            let mut names: BTreeSet<_> = place.names().await?.into_iter().collect();
            assert!(names.remove("manifest.json"));
            assert_eq!(names, listed, "what an interrupted run left is removed");
            let source = Source::open(place).await?;
            source.verify().await?;
            assert_eq!(read(source).await?, expected);
        }
        let report = job().resume(checkpoints[checkpoints.len() - 1].parse()?).run().await?;
        let lost = to.finish(&report).await?.files.swap_remove(0).name;
        place.remove(&lost).await?;
        let error = to.finish(&report).await.unwrap_err();
        assert_eq!((error.kind(), error.file()), (ErrorKind::Mismatch, Some(&*lost)));
        let shown = place.to_string();
        let named = format!("{}/{lost}: the file was removed", shown.trim_end_matches('/'));
        assert!(error.to_string().starts_with(&named), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn two_exports_to_one_place_leave_one_whole_backup() -> TestResult {
    let (_server, table) = filled().await?;
    let folder = tempfile::tempdir()?;
    let (_places, places) = places(folder.path()).await?;
    for place in &places {
        let to = Export::new(place, table.name());
        let first = export(&to, &table).run().await?;
        let mut changed = DynamicEntity::new("k00", "0000");
        changed.set("Number", 77);
        let old = table.get(rowkey::Key::<DynamicEntity>::new("k00", "0000")).await?;
        table.upsert(&changed).await?;
        let second = export(&to, &table).run().await?;
        to.finish(&first).await?;
        let error = to.finish(&second).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Duplicate, "{error}");
        assert_eq!(Source::open(place).await?.verify().await?, 601, "the first one is whole");
        to.finish(&first).await?;
        table.upsert(&old.ok_or("an entity")?.entity).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_export_is_not_resumed_with_the_table_of_another_account() -> TestResult {
    let ((_server, table), (_another, other)) = (filled().await?, filled().await?);
    let folder = tempfile::tempdir()?;
    let to = Export::new(&Location::folder(folder.path()), table.name());
    let mut checkpoints: Vec<String> = Vec::new();
    let job = export(&to, &table);
    job.progress(|progress| checkpoints.push(progress.checkpoint.to_string())).run().await?;
    let checkpoint: Checkpoint = checkpoints[0].parse()?;
    let refused = export(&to, &other).resume(checkpoint).run().await.unwrap_err();
    assert!(refused.error.to_string().contains("another `from`"), "{refused}");
    Ok(())
}

#[tokio::test]
async fn a_table_without_entities_is_a_backup_too() -> TestResult {
    let (_server, table) = filled().await?;
    let empty = table.account().table("empty");
    empty.create().await?;
    let folder = tempfile::tempdir()?;
    let place = Location::folder(folder.path().join("new/folder"));
    let to = Export::new(&place, "empty");
    let report = export(&to, &empty).run().await?;
    assert_eq!(to.finish(&report).await?.rows, 0);
    assert_eq!(place.names().await?, ["manifest.json"]);
    let source = Source::open(&place).await?;
    assert_eq!((source.verify().await?, read(source).await?), (0, Vec::new()));
    Ok(())
}

#[tokio::test]
async fn damage_is_an_error_and_the_job_that_stores_the_rows_does_not_end_as_done() -> TestResult {
    let (_server, table) = filled().await?;
    let folder = tempfile::tempdir()?;
    let place = Location::folder(folder.path());
    let to = Export::new(&place, table.name()).compression(Compression::None);
    let report = export(&to, &table).run().await?;
    let manifest = to.finish(&report).await?;
    let name = &manifest.files[0].name;
    let whole = place.read(name).await?.ok_or("a file")?;
    let mut damaged = whole.to_vec();
    let at = damaged.iter().rposition(|byte| *byte == b'k').ok_or("a key")?;
    damaged[at] = b'm';
    let cases = [Some(damaged), Some(whole[..whole.len() / 2].to_vec()), None];
    for content in cases {
        match content {
            Some(content) => place.write(name, content).await?,
            None => place.remove(name).await?,
        }
        let error = Source::open(&place).await?.verify().await.unwrap_err();
        assert_eq!(error.file(), Some(&**name), "{error}");

        let restored = table.account().table("restored");
        restored.create_if_missing().await?;
        let (rows, failure) = Source::open(&place).await?.entities();
        let mut is_finished = false;
        let job = Job::upsert(&restored, rows)
            .progress(|progress| is_finished |= progress.checkpoint.is_finished());
        let failed = failure.or(job.run()).await;
        assert_eq!(failed.unwrap_err().kind(), error.kind());
        assert!(!is_finished);
    }
    Ok(())
}

#[tokio::test]
async fn a_backup_of_azcopy_and_single_files_are_sources() -> TestResult {
    let rows: Vec<_> = (0..50)
        .map(|number| {
            let mut entity = DynamicEntity::new("p", format!("{number:02}"));
            entity.set("Number", i64::from(number));
            Row::new(entity)
        })
        .collect();
    let expected: Vec<_> = rows.iter().map(|row| row.entity.clone()).collect();
    let folder = tempfile::tempdir()?;
    let place = Location::folder(folder.path());
    let name = "shop_orders_20180528T030611.6482709Z";
    let encoded = |format, rows: &[Row]| {
        let mut out =
            FormatEncoder::new(format, Vec::new(), Compression::None, tempfile::tempfile)?;
        rows.iter().try_for_each(|row| out.write(row))?;
        out.finish()
    };
    for (part, rows) in rows.chunks(25).enumerate() {
        let file = format!("{name}_0_{part}_0AB9AC20.json");
        place.write(&file, encoded(Format::AzCopy, rows)?).await?;
    }
    let manifest =
        azcopy::Manifest::new("shop", "orders", "2018-05-28T03:06:11.6482709Z".parse()?, 2);
    place.write(&format!("{name}.manifest"), manifest.to_json()).await?;
    let source = Source::open(&place).await?;
    assert_eq!((source.table(), source.verify().await?), (Some("orders"), 50));
    assert_eq!(read(source).await?, expected);

    place.remove(&format!("{name}_0_0_0AB9AC20.json")).await?;
    assert_eq!(Source::open(&place).await.unwrap_err().kind(), ErrorKind::Mismatch);
    place.write("other.manifest", manifest.to_json()).await?;
    let error = Source::open(&place).await.unwrap_err();
    assert!(error.to_string().contains("several manifests"), "{error}");
    let error = Source::open(&Location::folder(folder.path().join("none"))).await.unwrap_err();
    assert!(error.to_string().contains("no manifest"), "{error}");

    for format in [Format::JsonLines, Format::Csv, Format::Json] {
        place.write("one", encoded(format, &rows)?).await?;
        let source = Source::file(&folder.path().join("one"), format, Compression::None);
        assert_eq!(source.verify().await?, 50);
        assert_eq!(read(source).await?, expected, "{format}");
    }
    Ok(())
}

#[tokio::test]
async fn several_files_are_read_at_once_and_in_the_same_order_each_time() -> TestResult {
    let folder = tempfile::tempdir()?;
    let place = Location::folder(folder.path());
    // Files of very different lengths, each of one partition.
    let lengths = [700, 3, 250, 0, 100, 99, 1, 1_200, 301];
    let mut files = Vec::new();
    for (partition, rows) in lengths.into_iter().enumerate() {
        let name = format!("{partition}.jsonl");
        let mut file = FileEncoder::new(Vec::new(), &name, Compression::None)?;
        for row in 0..rows {
            file.write(&Row::new(DynamicEntity::new(
                format!("p{partition}"),
                format!("{row:05}"),
            )))?;
        }
        let (listed, bytes) = file.finish()?;
        place.write(&name, bytes).await?;
        files.push(listed);
    }
    let now = "2026-11-20T12:34:56Z".parse()?;
    let manifest = Manifest::new("things", now, now, files)?.to_json();
    place.write("manifest.json", manifest).await?;

    let mut all = Vec::new();
    for at_once in [1, 3, 16] {
        let keys = async || -> TestResult<Vec<(String, String)>> {
            let source = Source::open(&place).await?.files_at_once(at_once);
            let rows: Vec<_> = source.stream().try_collect().await?;
            Ok(rows.into_iter().map(|row| (row.entity.partition_key, row.entity.row_key)).collect())
        };
        let order = keys().await?;
        assert_eq!(keys().await?, order, "{at_once} at once");
        let partitions: BTreeSet<_> = order[..700].iter().map(|(partition, _)| partition).collect();
        assert!(
            if at_once == 1 { partitions.len() == 1 } else { partitions.len() >= 3 },
            "{partitions:?}"
        );
        let mut sorted = order.clone();
        sorted.sort();
        assert_eq!(sorted.len(), lengths.iter().sum::<usize>());
        for partition in 0..lengths.len() {
            let partition = format!("p{partition}");
            let rows = |keys: &[(String, String)]| -> Vec<_> {
                keys.iter()
                    .filter(|(key, _)| *key == partition)
                    .map(|(_, row)| row.clone())
                    .collect()
            };
            assert_eq!(rows(&order), rows(&sorted), "a file is read in its order");
        }
        all.push(sorted);
    }
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
    Ok(())
}
