//! Parquet: files of pyarrow, files that passed through other programs, and row groups.

#![cfg(feature = "parquet")]

mod support;

use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use rowkey_entity::DynamicEntity;
use rowkey_entity::edm::{DateTime, Value};
use rowkey_transfer::parquet::{Codec, Decoder};
use rowkey_transfer::{Row, Spool};
use support::{Random, assert_same};

const SNAPPY: &[u8] = include_bytes!("files/pyarrow-snappy.parquet");
const LEGACY: &[u8] = include_bytes!("files/pyarrow-legacy.parquet");

#[test]
fn files_of_pyarrow_with_several_row_groups_are_read() {
    for file in [SNAPPY, LEGACY] {
        let rows: Vec<Row> = Decoder::from_bytes(file).unwrap().map(Result::unwrap).collect();
        let keys: Vec<_> = rows.iter().map(|row| &*row.entity.row_key).collect();
        assert_eq!(keys, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
        let instant = |text: &str| Value::DateTime(text.parse::<DateTime>().unwrap());
        let expected: [(&str, Value); 9] = [
            ("small", 7.into()),
            ("unsigned", i64::from(u32::MAX).into()),
            ("large", i64::MAX.into()),
            ("single", 0.5.into()),
            ("day", instant("2020-06-22T00:00:00Z")),
            ("milli", instant("2020-06-22T15:16:05.333Z")),
            ("local", instant("2020-06-22T15:16:05.333Z")),
            ("bytes", vec![0].into()),
            ("fixed", b"abc".as_slice().into()),
        ];
        let entity = &rows[7].entity;
        assert_eq!(entity.partition_key, "p");
        let found: Vec<_> = entity.iter().map(|(name, value)| (name, value.clone())).collect();
        assert_eq!(found, expected);
        assert_eq!(rows[6].entity.get("text"), Some(&"a".into()));
    }
}

#[test]
fn rows_of_many_row_groups_come_back() {
    let mut random = Random(1);
    // More than 16 MiB, so that there are several groups.
    let rows: Vec<Row> = (0..600)
        .map(|number| {
            let mut row = random.row();
            row.entity.set("Large", "x".repeat(40_000));
            row.entity.row_key = number.to_string();
            row
        })
        .collect();
    let file = support::parquet::encode(&rows, Codec::Uncompressed);
    let reader = SerializedFileReader::new(bytes::Bytes::from(file.clone())).unwrap();
    assert_eq!(reader.num_row_groups(), 2);
    assert_same(&support::parquet::read(&file), &rows, "row groups");
}

#[test]
fn a_file_on_disk_is_read_as_one_in_memory() {
    let mut row = Row::new(DynamicEntity::new("p", "r"));
    row.entity.set("Age", 36);
    let path = std::env::temp_dir().join(format!("rowkey-transfer-{}.parquet", std::process::id()));
    std::fs::write(&path, support::parquet::encode(std::slice::from_ref(&row), Codec::Snappy))
        .unwrap();
    let rows = Decoder::open(std::fs::File::open(&path).unwrap()).unwrap();
    assert_eq!(rows.map(Result::unwrap).collect::<Vec<_>>(), [row]);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_spool_may_be_a_file() {
    let path = std::env::temp_dir().join(format!("rowkey-transfer-{}.spool", std::process::id()));
    let file =
        std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let mut spool = Spool::new(file);
    let row = Random(5).row();
    spool.write(&row).unwrap();
    let (columns, rows) = spool.finish().unwrap();
    assert_eq!(columns.rows(), 1);
    assert_same(&rows.collect::<Vec<_>>(), &[row], "spool");
    std::fs::remove_file(path).unwrap();
}
