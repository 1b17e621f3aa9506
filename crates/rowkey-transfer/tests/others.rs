//! Files in the forms of other programs: Storage Explorer of several versions, and AzCopy.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use rowkey_entity::edm::{Type, Value};
use rowkey_transfer::azcopy::{self, Manifest};
use rowkey_transfer::storage_explorer::{CsvDecoder, CsvOptions, JsonDecoder, Untyped};
use rowkey_transfer::{ErrorKind, Row};

fn csv(file: &str, options: CsvOptions) -> Vec<Row> {
    let rows = CsvDecoder::new(file.as_bytes(), options).unwrap();
    rows.map(|row| row.unwrap()).collect()
}

fn types(row: &Row) -> Vec<(&str, Type)> {
    row.entity.iter().map(|(name, value)| (name, value.edm_type())).collect()
}

/// The header and the row are those in the comments of programs that read such files.
#[test]
fn csv_of_storage_explorer_in_2020_has_edm_types_and_sorted_columns() {
    let file = "HLA,HLA@type,PartitionKey,RowKey,Timestamp,isGeneric,isGeneric@type\r\n\
                01/02,Edm.String,3,ABC,2020-06-22T15:16:05.333Z,true,Edm.Boolean\r\n";
    let rows = csv(file, CsvOptions::default());
    let row = &rows[0];
    assert_eq!((&*row.entity.partition_key, &*row.entity.row_key), ("3", "ABC"));
    assert_eq!(row.timestamp, "2020-06-22T15:16:05.333Z".parse().ok());
    assert_eq!(row.entity.get("HLA"), Some(&"01/02".into()));
    assert_eq!(row.entity.get("isGeneric"), Some(&true.into()));
    assert_eq!(row.entity.len(), 2);
}

/// As the package Medienstudio.Azure.Data.Tables.CSV writes it for Storage Explorer: a row for each type.
#[test]
fn csv_of_newer_versions_has_types_of_each_row() {
    let file = "PartitionKey,RowKey,Timestamp,binary,binary@type,bool,bool@type,datetime,datetime@type,double,double@type,\
                guid,guid@type,int,int@type,long,long@type,quotes,quotes@type\r\n\
                partition,01-binary,2023-01-01T00:00:00Z,YmluYXJ5,Binary,,,,,,,,,,,,,,\r\n\
                partition,02-bool,2023-01-01T00:00:00Z,,,true,Boolean,,,,,,,,,,,,\r\n\
                partition,03-datetime,2023-01-01T00:00:00Z,,,,,2020-01-01T01:01:01Z,DateTime,,,,,,,,,,\r\n\
                partition,05-double,2023-01-01T00:00:00Z,,,,,,,1.1,Double,,,,,,,,\r\n\
                partition,06-guid,2023-01-01T00:00:00Z,,,,,,,,,c9da6455-213d-42c9-9a79-3e9149a57833,Guid,,,,,,\r\n\
                partition,07-int,2023-01-01T00:00:00Z,,,,,,,,,,,1,Int32,,,,\r\n\
                partition,08-long,2023-01-01T00:00:00Z,,,,,,,,,,,,,1,Int64,,\r\n\
                partition,10-quotes,2023-01-01T00:00:00Z,,,,,,,,,,,,,,,\"string with \"\"quotes\"\"\",String\r\n";
    let rows = csv(&format!("\u{feff}{file}"), CsvOptions::default());
    let found: Vec<_> = rows.iter().map(|row| types(row)[0]).collect();
    let expected = [
        ("binary", Type::Binary),
        ("bool", Type::Boolean),
        ("datetime", Type::DateTime),
        ("double", Type::Double),
        ("guid", Type::Guid),
        ("int", Type::Int32),
        ("long", Type::Int64),
        ("quotes", Type::String),
    ];
    assert_eq!(found, expected);
    assert!(rows.iter().all(|row| row.entity.len() == 1));
    assert_eq!(rows[0].entity.get("binary"), Some(&b"binary".as_slice().into()));
    assert_eq!(rows[7].entity.get("quotes"), Some(&"string with \"quotes\"".into()));
}

/// As in issue 8772 of Storage Explorer, with tabs, which the issue shows.
#[test]
fn csv_with_types_in_the_first_row_alone_is_read_if_the_options_say_so() {
    let file = "PartitionKey\tRowKey\taggType\taggType@type\talarmDateStatus\talarmDateStatus@type\tdate\tdate@type\n\
                1979671\t1000\t2\tInt32\t\tString\t2025-09-22T09:45:35.2743359Z\tString\n\
                1979671\t11\t4\t\t\t\t\t\n\
                1979671\t155\t2\t\tACK\t\t\t\n";
    let tabs = CsvOptions::default().delimiter(b'\t');
    let rows = csv(file, tabs.untyped(Untyped::AsColumn));
    assert_eq!(types(&rows[0]).len(), 3);
    assert_eq!(rows[0].entity.get("alarmDateStatus"), Some(&"".into()));
    assert_eq!(types(&rows[1]), [("aggType", Type::Int32)]);
    assert_eq!(rows[2].entity.get("alarmDateStatus"), Some(&"ACK".into()));
    assert_eq!(rows[2].entity.get("aggType"), Some(&2.into()));

    let mut strict = CsvDecoder::new(file.as_bytes(), tabs).unwrap();
    let error = strict.find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::Untyped);
    assert!(error.to_string().starts_with("line 3: property `aggType`"), "{error}");
}

/// "Expect 6, got 4 on line 3", says Storage Explorer of its own export in issue 8730.
#[test]
fn records_that_are_shorter_than_the_header_are_errors() {
    let file = "PartitionKey,RowKey,A,A@type,B,B@type\np,1,1,Int32,2,Int32\np,2,2,Int32\n";
    let rows: Vec<_> = CsvDecoder::new(file.as_bytes(), CsvOptions::default()).unwrap().collect();
    assert!(rows[0].is_ok());
    let error = rows[1].as_ref().unwrap_err();
    assert!(
        error.to_string().starts_with("line 3: the record has 4 cells, and the header 6"),
        "{error}"
    );
}

#[test]
fn csv_without_types_is_text_or_inferred() {
    let file = "PartitionKey,RowKey,Code,Count,Empty\np,r,007,42,\n";
    let text = csv(file, CsvOptions::default().untyped(Untyped::AsString));
    assert_eq!(types(&text[0]), [("Code", Type::String), ("Count", Type::String)]);
    let inferred = csv(file, CsvOptions::default().untyped(Untyped::Infer));
    assert_eq!(types(&inferred[0]), [("Code", Type::String), ("Count", Type::Int32)]);
    // "Do not export type annotations" of 1.40 leaves the columns, empty.
    let file = "PartitionKey,RowKey,Count,Count@type\np,r,42,\n";
    let inferred = csv(file, CsvOptions::default().untyped(Untyped::Infer));
    assert_eq!(types(&inferred[0]), [("Count", Type::Int32)]);
}

#[test]
fn a_list_of_objects_of_text_is_read_as_json_of_storage_explorer() {
    let file = r#"[
      {
        "PartitionKey": "sales",
        "RowKey": "7",
        "Timestamp": "2025-09-22T09:45:35.2743359Z",
        "Age": "36",
        "Age@type": "Int32",
        "Name": "Ada",
        "Name@type": "String"
      }
    ]"#;
    let rows: Vec<_> = JsonDecoder::new(file.as_bytes()).collect::<Result<_, _>>().unwrap();
    assert_eq!(types(&rows[0]), [("Age", Type::Int32), ("Name", Type::String)]);
    assert!(rows[0].timestamp.is_some());
}

/// A backup of two files, as AzCopy wrote it with `/SplitSize`.
#[test]
fn an_azcopy_backup_is_restored_by_its_manifest() {
    let stem = "myaccount_mytable_20140903T051850.8128447Z";
    let manifest = r#"{"Version":2,"PayloadFormat":"Json","Checksum":15564613245429458971,"AccountName":"myaccount","TableName":"mytable","Timestamp":"2014-09-03T05:18:50.8128447Z","SplitSize":32,"TotalDataFiles":2}"#;
    let first = r#"{"odata.metadata":"https://myaccount.table.core.windows.net/$metadata#mytable","value":[
        {"PartitionKey":"Customer","RowKey":"1","Timestamp":"2013-08-22T01:12:06.2608595Z","Age":23,"AmountDue":200.23,
         "CustomerCode@odata.type":"Edm.Guid","CustomerCode":"c9da6455-213d-42c9-9a79-3e9149a57833","IsActive":true,
         "CustomerSince@odata.type":"Edm.DateTime","CustomerSince":"2008-07-10T00:00:00","Photo@odata.type":"Edm.Binary","Photo":"AQID",
         "NumberOfOrders@odata.type":"Edm.Int64","NumberOfOrders":"255","Ratio@odata.type":"Edm.Double","Ratio":"NaN","Address":""}]}"#;
    let second = r#"[{"PartitionKey":"Customer","RowKey":"2","Age":24}]"#;
    let folder = [
        (format!("{stem}_0_1_0AB9AC20.json"), second),
        (format!("{stem}.manifest"), manifest),
        (format!("{stem}_0_0_C3040FE8.json"), first),
    ];
    let manifest_name = &folder[1].0;
    let manifest = Manifest::from_json(manifest.as_bytes()).unwrap();
    let files = manifest.data_files(manifest_name, folder.iter().map(|(name, _)| name)).unwrap();
    let mut rows = Vec::new();
    for file in files {
        let (_, text) = folder.iter().find(|(name, _)| *name == file.name).unwrap();
        for row in azcopy::Decoder::new(text.as_bytes()) {
            rows.push(row.unwrap());
        }
    }
    assert_eq!(rows.len(), 2);
    let expected = [
        ("Age", Type::Int32),
        ("AmountDue", Type::Double),
        ("CustomerCode", Type::Guid),
        ("IsActive", Type::Boolean),
        ("CustomerSince", Type::DateTime),
        ("Photo", Type::Binary),
        ("NumberOfOrders", Type::Int64),
        ("Ratio", Type::Double),
        ("Address", Type::String),
    ];
    assert_eq!(types(&rows[0]), expected);
    assert_eq!(rows[0].entity.get("Address"), Some(&"".into()));
    assert_eq!(rows[1].entity.get("Age"), Some(&Value::Int32(24)));
    // Without one of its files the backup is not whole.
    let error = manifest.data_files(manifest_name, [&folder[0].0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch);
}
