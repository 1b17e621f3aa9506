//! The inspector on rows of other libraries: its report, and that its declarations read every row.

#[expect(unreachable_pub, reason = "as it is printed, for a module that others use")]
mod declared;
pub(crate) mod sample;
mod stats;

use rowkey::patterns::inspect::{Difference, Fault, check, inspect};
use rowkey::{DynamicEntity, Entity};
use rowkey_tests::recorded::{Writer, replay};
use rowkey_tests::{Arm, Fixture, TestResult, arm};

use declared::{
    Annotated, Candles, Composite, DotNet, JavaScriptNumbers, Jobs, Players, PythonNumbers,
    RustNumbers, RustTexts, States,
};

#[tokio::test]
async fn declarations_for_tables_of_other_libraries_match_the_compiled_ones() -> TestResult {
    if arm() == Arm::Azurite {
        return Ok(()); // It answers whole Doubles as integers.
    }
    let fixture = Fixture::new().await?;
    let mut text =
        String::from("//! Declarations of the inspector for tables of other libraries.\n");
    for (writer, table, name) in [
        (Writer::Rust, "numbers", "RustNumbers"),
        (Writer::Rust, "texts", "RustTexts"),
        (Writer::Rust, "annotated", "Annotated"),
        (Writer::Rust, "states", "States"),
        (Writer::Rust, "jobs", "Jobs"),
        (Writer::Rust, "candles", "Candles"),
        (Writer::Rust, "players", "Players"),
        (Writer::Python, "numbers", "PythonNumbers"),
        (Writer::JavaScript, "numbers", "JavaScriptNumbers"),
        (Writer::DotNet, "typed", "DotNet"),
    ] {
        let table = replay(&fixture, writer, table).await?;
        text.push('\n');
        text.push_str(&inspect(&table, 1_000).await?.declaration(name));
    }
    text.push('\n');
    text.push_str(&inspect(&composite(&fixture).await?, 1_000).await?.declaration("Composite"));
    assert_eq!(text, include_str!("declared.rs"), "\n{text}");
    Ok(())
}

/// Rows whose keys have several parts, as programs make them of text.
async fn composite(fixture: &Fixture) -> TestResult<rowkey::Table> {
    let table = fixture.account.table(&rowkey_tests::unique_name());
    table.create().await?;
    for (partition, row) in [
        ("contoso-0042", "7_2024-05-06T07:08:09.123Z_0D391D16-97F1-4B9A-BE68-4CC871F90001"),
        ("contoso-0042", "12_2024-05-07T07:08:09.000Z_0D391D16-97F1-4B9A-BE68-4CC871F90002"),
        ("fabrikam-1000", "0_1999-12-31T23:59:59.999Z_C9DA6455-213D-42C9-9A79-3E9149A57833"),
    ] {
        let mut entity = DynamicEntity::new(partition, row);
        entity.set("open", true);
        table.insert(&entity).await?;
    }
    Ok(table)
}

#[tokio::test]
async fn every_declaration_reads_every_row() -> TestResult {
    async fn exact<E: Entity>(writer: Writer, name: &str) -> TestResult {
        let fixture = Fixture::new().await?;
        let table = replay(&fixture, writer, name).await?;
        let report = check::<E>(&table).await?;
        assert!(report.is_exact() && report.unknown.is_empty(), "{name}: {report}");
        Ok(())
    }
    if arm() == Arm::Azurite {
        return Ok(()); // It answers whole Doubles as integers.
    }
    exact::<RustTexts>(Writer::Rust, "texts").await?;
    exact::<Annotated>(Writer::Rust, "annotated").await?;
    exact::<Jobs>(Writer::Rust, "jobs").await?;
    exact::<Candles>(Writer::Rust, "candles").await?;
    exact::<DotNet>(Writer::DotNet, "typed").await?;
    exact::<PythonNumbers>(Writer::Python, "numbers").await?;
    exact::<States>(Writer::Rust, "states").await?;
    let report = check::<Composite>(&composite(&Fixture::new().await?).await?).await?;
    assert!(report.is_exact() && report.rows == 3, "{report}");
    Ok(())
}

#[tokio::test]
async fn check_reports_columns_of_mixed_types() -> TestResult {
    async fn mixed<E: Entity>(writer: Writer, name: &str, columns: &[&str]) -> TestResult {
        let fixture = Fixture::new().await?;
        let table = replay(&fixture, writer, name).await?;
        let report = check::<E>(&table).await?;
        assert!(!report.is_exact());
        for fault in &report.faults {
            let Fault::Properties(differences) = &fault.fault else {
                panic!("{name}: {:?}", fault.fault)
            };
            for difference in differences {
                let Difference::Type(column, ..) = difference else { panic!("{difference:?}") };
                assert!(columns.contains(&column.as_str()), "{name}: {difference:?}");
            }
        }
        Ok(())
    }
    if arm() == Arm::Azurite {
        return Ok(()); // It answers whole Doubles as integers.
    }
    mixed::<Players>(Writer::Rust, "players", &["wins"]).await?;
    mixed::<JavaScriptNumbers>(Writer::JavaScript, "numbers", &["number"]).await?;
    // A Double for each row: `u64` milliseconds.
    let fixture = Fixture::new().await?;
    let table = replay(&fixture, Writer::Rust, "states").await?;
    assert!(check::<States>(&table).await?.is_exact());
    // 2^53 + 1 and beyond were rounded on the way in, and are read as no integer.
    let table = replay(&fixture, Writer::Rust, "numbers").await?;
    let sample = inspect(&table, 1_000).await?;
    assert!(sample.columns["u64"].fractions && !sample.columns["u32"].fractions);
    assert!(check::<RustNumbers>(&table).await?.rows == sample.rows);
    Ok(())
}

#[tokio::test]
async fn a_truncated_sample_is_marked() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = replay(&fixture, Writer::Rust, "keys").await?;
    let some = inspect(&table, 5).await?;
    assert_eq!((some.rows, some.complete), (5, false));
    let all = inspect(&table, 23).await?;
    assert_eq!((all.rows, all.complete), (23, true));
    for (format, count) in [
        ("GUID", 1),
        ("guid", 1),
        ("guid:N", 1),
        ("guid:B", 1),
        ("hex:16", 1),
        ("date", 1),
        ("datetime", 1),
        ("unix", 1),
        ("ticks:desc", 1),
        ("number:10", 1),
        ("empty", 1),
    ] {
        assert_eq!(all.row_keys.get(format), Some(&count), "{format}: {all}");
    }
    let shown = all.to_string();
    assert!(shown.contains("n: Edm.Int32 23, absent 0, up to 4 bytes"), "{shown}");
    assert!(!shown.contains("brien"), "no key is shown");
    Ok(())
}

#[tokio::test]
async fn a_report_shows_columns_and_keys_only_through_an_accessor() -> TestResult {
    /// Writes the id in another spelling, and the number as another type.
    #[derive(Entity)]
    #[entity(partition = "{partition}", row = "{id}")]
    struct Row {
        partition: String,
        id: rowkey::edm::Guid,
        n: i64,
    }
    let table = Fixture::new().await?.table_with_server().await?;
    for row in ["0d391d16-97f1-4b9a-be68-4cc871f90001", "secret"] {
        let mut row = DynamicEntity::new("p", row);
        row.set("n", 1_i32);
        row.set("more", "text");
        table.insert(&row).await?;
    }
    let report = check::<Row>(&table).await?;
    assert_eq!((report.rows, report.faulty, report.is_exact()), (2, 2, false));
    let [first, second] = &report.faults[..] else { panic!("two faults") };
    assert_eq!(
        first.fault,
        Fault::Properties(vec![Difference::Type("n".into(), "Edm.Int32", "Edm.Int64")])
    );
    assert_eq!(second.keys(), ("p", "secret"));
    assert!(matches!(second.fault, Fault::Unreadable(_)), "{second:?}");
    let shown = format!("{report} {report:?}");
    assert!(shown.contains("n is Edm.Int32, would be Edm.Int64"), "{shown}");
    assert!(shown.contains("1 x more is not a property of the type"), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
    Ok(())
}
