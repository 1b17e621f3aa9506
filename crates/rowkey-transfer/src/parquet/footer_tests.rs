//! Files whose footer or columns do not say the truth.

use std::sync::Arc;

use ::parquet::basic::Encoding;
use ::parquet::column::writer::ColumnWriter;
use ::parquet::data_type::ByteArray;
use ::parquet::file::metadata::{KeyValue, ParquetMetaData, ParquetMetaDataWriter};
use ::parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use rowkey_entity::edm::{DateTime, Value};

use super::Decoder;
use super::schema::KEY;
use super::thrift::Header;
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

/// Appends the first column of the keys again, with another header for its dictionary.
fn with_dictionary(file: &[u8], header: &[u8]) -> Vec<u8> {
    let reader = SerializedFileReader::new(bytes::Bytes::from(file.to_vec())).unwrap();
    let column = reader.metadata().row_group(0).column(0);
    let (start, length) = column.byte_range();
    let [start, length] = [start, length].map(|number| usize::try_from(number).unwrap());
    let chunk = &file[start..start + length];
    let old = usize::try_from(Header::read(chunk).unwrap().length).unwrap();
    let moved = [header, &chunk[old..]].concat();
    let data = usize::try_from(column.data_page_offset()).unwrap() - start - old + header.len();
    let end = with_footer(file, |metadata| metadata);
    let footer = u32::from_le_bytes(end[end.len() - 8..end.len() - 4].try_into().unwrap());
    let body = file.len().min(end.len() - 8 - usize::try_from(footer).unwrap());
    let longer = [&file[..body], &moved, &file[body..]].concat();
    with_footer(&longer, |metadata| {
        let at = |offset: usize| i64::try_from(body + offset).unwrap();
        let mut builder = metadata.into_builder();
        let groups = builder.take_row_groups().into_iter().map(|group| {
            let mut columns = group.columns().to_vec();
            let first = columns[0].clone().into_builder();
            columns[0] = first
                .set_dictionary_page_offset(Some(at(0)))
                .set_data_page_offset(at(data))
                .set_total_compressed_size(i64::try_from(moved.len()).unwrap())
                .build()
                .unwrap();
            group.into_builder().set_column_metadata(columns).build().unwrap()
        });
        let groups = groups.collect();
        builder.set_row_groups(groups).build()
    })
}

#[test]
fn a_dictionary_that_claims_to_be_large_takes_no_memory() {
    let whole = file(KEYS, &keys(), None);
    // The same header: five bytes, the length of `p` and itself, and one value.
    let same =
        with_dictionary(&whole, &[0x15, 4, 0x15, 10, 0x15, 10, 0x4C, 0x15, 2, 0x15, 0, 0, 0]);
    assert_eq!(read(same).into_iter().map(Result::unwrap).count(), 3);
    for header in [
        // 2,147,483,647 values, which would need 64 GiB.
        &[0x15, 4, 0x15, 10, 0x15, 10, 0x4C, 0x15, 254, 255, 255, 255, 15, 0x15, 0, 0, 0][..],
        // Two values.
        &[0x15, 4, 0x15, 10, 0x15, 10, 0x4C, 0x15, 4, 0x15, 0, 0, 0],
        // 2,147,483,647 bytes.
        &[0x15, 4, 0x15, 254, 255, 255, 255, 15, 0x15, 10, 0x4C, 0x15, 2, 0x15, 0, 0, 0],
        // More bytes than the column has.
        &[0x15, 4, 0x15, 10, 0x15, 254, 255, 255, 255, 15, 0x4C, 0x15, 2, 0x15, 0, 0, 0],
        &[0x15, 4, 0x15, 11, 0x15, 10, 0x4C, 0x15, 2, 0x15, 0, 0, 0],
    ] {
        let error = error(with_dictionary(&whole, header));
        let kinds = [ErrorKind::Malformed, ErrorKind::TooLong, ErrorKind::Truncated];
        assert!(kinds.contains(&error.kind()), "{error}");
    }
}

#[test]
fn a_row_larger_than_any_entity_is_an_error() {
    let large: &'static str = Box::leak("x".repeat(9 << 20).into_boxed_str());
    let schema = format!("{KEYS} required binary A (STRING); required binary B (STRING);");
    for (second, kind) in [("y", None), (large, Some(ErrorKind::TooLong))] {
        let [partition, row] = keys();
        let cells = [partition, row, Cells::Text(vec![large; 3]), Cells::Text(vec![second; 3])];
        let rows = read(file(&schema, &cells, None));
        assert_eq!(rows[0].as_ref().err().map(Error::kind), kind);
        assert_eq!(rows.len(), if kind.is_some() { 1 } else { 3 });
    }
}

#[test]
fn lists_of_lengths_are_read_and_checked() {
    let texts: Vec<String> =
        (0..1_000).map(|number| format!("{:0>1$}", number, number % 40)).collect();
    for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let schema =
                parse_message_type(&format!("message m {{ {KEYS} optional binary A (STRING); }}"));
            let properties = WriterProperties::builder()
                .set_writer_version(version)
                .set_dictionary_enabled(false)
                .set_encoding(encoding)
                .build();
            let mut out = SerializedFileWriter::new(
                Vec::new(),
                Arc::new(schema.unwrap()),
                Arc::new(properties),
            )
            .unwrap();
            let mut group = out.next_row_group().unwrap();
            let values: Vec<ByteArray> = texts.iter().map(|text| text.as_str().into()).collect();
            let levels: Vec<i16> = (0..1_000).map(|number| i16::from(number % 3 > 0)).collect();
            for at in 0..3 {
                let mut column = group.next_column().unwrap().unwrap();
                if let ColumnWriter::ByteArrayColumnWriter(out) = column.untyped() {
                    let written = if at == 2 {
                        let count = levels.iter().filter(|level| **level == 1).count();
                        out.write_batch(&values[..count], Some(&levels), None)
                    } else {
                        out.write_batch(&values, None, None)
                    };
                    written.unwrap();
                }
                column.close().unwrap();
            }
            group.close().unwrap();
            let file = out.into_inner().unwrap();
            let rows = read(file.clone());
            assert_eq!(rows.len(), 1_000);
            for (number, row) in rows.into_iter().enumerate() {
                let row = row.unwrap();
                assert_eq!(row.entity.row_key, texts[number]);
                assert_eq!(row.entity.len(), usize::from(number % 3 > 0));
            }
            // Blocks of 128 values in four pieces, and 1,000 lengths, which become 2^40.
            let list = [0x80, 1, 4, 0xE8, 7];
            let at = file.windows(5).position(|bytes| bytes == list).unwrap();
            let mut many = file;
            many[at..at + 7].copy_from_slice(&[0x80, 1, 4, 0x80, 0x80, 0x80, 0x80]);
            assert_eq!(error(many).kind(), ErrorKind::Malformed);
        }
    }
}

#[test]
fn columns_nested_without_an_end_do_not_overflow_the_stack() {
    let depth = 200_000_usize;
    let mut footer = vec![0x15, 2, 0x19, 0xFC];
    let mut count = depth + 2;
    while count >= 0x80 {
        footer.push(u8::try_from(count & 0x7F | 0x80).unwrap());
        count >>= 7;
    }
    footer.push(u8::try_from(count).unwrap());
    // The root, groups with one child each, and a number.
    footer.extend([0x48, 1, b'm', 0x15, 2, 0]);
    footer.extend([0x35, 0, 0x18, 1, b'g', 0x15, 2, 0].repeat(depth));
    footer.extend([0x15, 2, 0x25, 0, 0x18, 1, b'x', 0]);
    footer.extend([0x16, 0, 0x19, 0x0C, 0]);
    let length = u32::try_from(footer.len()).unwrap().to_le_bytes();
    let file = [b"PAR1", &footer[..], &length, b"PAR1"].concat();
    assert_eq!(error(file).kind(), ErrorKind::Unsupported);
}
