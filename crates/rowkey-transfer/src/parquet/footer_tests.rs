//! Files whose footer or columns do not say the truth.

use std::sync::Arc;

use ::parquet::column::writer::ColumnWriter;
use ::parquet::data_type::ByteArray;
use ::parquet::file::metadata::{KeyValue, ParquetMetaData, ParquetMetaDataWriter};
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use rowkey_entity::edm::{DateTime, Value};

use super::Decoder;
use super::schema::KEY;
use crate::error::{Error, ErrorKind, Result};
use crate::row::Row;

/// What one column of a test file has.
enum Cells {
    Text(Vec<&'static str>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
}

/// A file with these columns, all of them required, in one row group.
fn file(schema: &str, columns: &[Cells], metadata: Option<&str>) -> Vec<u8> {
    let schema = parse_message_type(&format!("message m {{ {schema} }}")).unwrap();
    let pair = metadata.map(|text| vec![KeyValue::new(KEY.to_owned(), text.to_owned())]);
    let properties = WriterProperties::builder()
        .set_key_value_metadata(pair)
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    let mut out =
        SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties)).unwrap();
    let mut group = out.next_row_group().unwrap();
    for cells in columns {
        let mut column = group.next_column().unwrap().unwrap();
        match (column.untyped(), cells) {
            (ColumnWriter::ByteArrayColumnWriter(out), Cells::Text(values)) => {
                let values: Vec<ByteArray> = values.iter().map(|text| (*text).into()).collect();
                out.write_batch(&values, None, None).unwrap();
            }
            (ColumnWriter::Int32ColumnWriter(out), Cells::Int32(values)) => {
                out.write_batch(values, None, None).unwrap();
            }
            (ColumnWriter::Int64ColumnWriter(out), Cells::Int64(values)) => {
                out.write_batch(values, None, None).unwrap();
            }
            _ => panic!("another type"),
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    out.into_inner().unwrap()
}

/// Replaces the footer of a file.
fn with_footer(file: &[u8], change: impl FnOnce(ParquetMetaData) -> ParquetMetaData) -> Vec<u8> {
    let reader = SerializedFileReader::new(bytes::Bytes::from(file.to_vec())).unwrap();
    let footer = u32::from_le_bytes(file[file.len() - 8..file.len() - 4].try_into().unwrap());
    let mut changed = file[..file.len() - 8 - usize::try_from(footer).unwrap()].to_vec();
    let metadata = change(reader.metadata().clone());
    ParquetMetaDataWriter::new(&mut changed, &metadata).finish().unwrap();
    changed
}

fn read(file: Vec<u8>) -> Vec<Result<Row>> {
    match Decoder::from_bytes(file) {
        Ok(rows) => rows.collect(),
        Err(error) => vec![Err(error)],
    }
}

fn error(file: Vec<u8>) -> Error {
    read(file).into_iter().find_map(Result::err).unwrap()
}

const KEYS: &str = "required binary PartitionKey (STRING); required binary RowKey (STRING);";

fn keys() -> [Cells; 2] {
    [Cells::Text(vec!["p"; 3]), Cells::Text(vec!["1", "2", "3"])]
}

#[test]
fn counts_of_rows_that_contradict_each_other_are_errors() {
    let whole = file(KEYS, &keys(), None);
    assert_eq!(read(whole.clone()).into_iter().map(Result::unwrap).count(), 3);
    // A row group that lost a row.
    let fewer = with_footer(&whole, |metadata| {
        let mut builder = metadata.into_builder();
        let groups = builder.take_row_groups().into_iter();
        let groups = groups.map(|group| group.into_builder().set_num_rows(2).build().unwrap());
        builder.set_row_groups(groups.collect()).build()
    });
    assert_eq!(error(fewer).kind(), ErrorKind::Malformed);
    // A footer with another sum: the field with 3 rows as a zigzag number, before the list of row groups.
    let mut more = whole;
    let at = more.windows(3).rposition(|bytes| bytes == [0x16, 6, 0x19]).unwrap();
    more[at + 1] = 8;
    assert_eq!(error(more).kind(), ErrorKind::Malformed);
}

#[test]
fn a_column_that_is_there_twice_is_an_error() {
    let three = || Cells::Text(vec!["a", "b", "c"]);
    for (name, more) in [
        (
            "RowKey",
            file(
                &format!("{KEYS} required binary RowKey (STRING);"),
                &{
                    let [partition, row] = keys();
                    [partition, row, three()]
                },
                None,
            ),
        ),
        (
            "A",
            file(
                &format!("{KEYS} required binary A (STRING); required binary A (STRING);"),
                &{
                    let [partition, row] = keys();
                    [partition, row, three(), three()]
                },
                None,
            ),
        ),
    ] {
        let error = error(more);
        assert_eq!(error.kind(), ErrorKind::Duplicate, "{error}");
        assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
    }
}

const TICKS: &str = r#"{"version":1,"columns":[{"column":"Until","property":"Until","type":"Edm.DateTime"},
    {"column":"Until@ticks","property":"Until","type":"Edm.DateTime","part":"ticks"}]}"#;

#[test]
fn ticks_belong_to_their_column_wherever_it_is() {
    let schema = format!(
        "{KEYS} required int32 Until@ticks; required int64 Until (TIMESTAMP(MICROS,true));"
    );
    for metadata in [Some(TICKS), None] {
        let [partition, row] = keys();
        let cells = [partition, row, Cells::Int32(vec![7; 3]), Cells::Int64(vec![1; 3])];
        let rows = read(file(&schema, &cells, metadata));
        let until: DateTime = "1970-01-01T00:00:00.0000017Z".parse().unwrap();
        let row = rows[0].as_ref().unwrap();
        assert_eq!(row.entity.get("Until"), Some(&Value::DateTime(until)));
        assert_eq!(row.entity.len(), 1);
    }
}

#[test]
fn ticks_without_their_column_are_no_values() {
    let schema = format!("{KEYS} required int32 Until@ticks;");
    for metadata in [Some(TICKS), None] {
        let [partition, row] = keys();
        let error = error(file(&schema, &[partition, row, Cells::Int32(vec![7; 3])], metadata));
        assert!(error.to_string().contains("`Until@ticks`"), "{error}");
    }
}
