//! Formats of parts in templates: the texts that other programs write, read and made again.
//!
//! Each expected text is the literal output of the expression beside it, of .NET, Python or JavaScript.

use std::ops::Bound;

use chrono::{DateTime, NaiveDate, TimeZone as _, Utc};
use rowkey::edm::Guid;
use rowkey::{DynamicEntity, Entity, Key, KeyPart, StorageAccount, Stored};

fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect("an instant")
}

fn guid() -> Guid {
    "c9da6455-213d-42c9-9a79-3e9149a57833".parse().expect("a GUID")
}

/// Declares an entity of one part and checks the text both ways.
macro_rules! reads_and_writes {
    ($name:ident, $ty:ty, $row:literal, [$($value:expr => $text:literal),* $(,)?], [$($refused:literal),* $(,)?]) => {
        #[test]
        fn $name() {
            #[derive(Entity)]
            #[entity(append_ok, partition = "all", row = $row)]
            struct Row {
                value: $ty,
            }
            $(
                let value: $ty = $value;
                assert_eq!(Row::key(&value).parts(), Ok(("all", $text)));
                assert_eq!(Row::parse_key("all", $text).unwrap(), value);
            )*
            for text in [$($refused),*] {
                let _: &str = text;
                assert!(Row::parse_key("all", text).is_err(), "{text:?} is read");
            }
        }
    };
}

// `7.ToString("D8")`, Python `f"{7:08}"`, JavaScript `String(7).padStart(8, "0")`.
reads_and_writes!(padded, u32, "{value:8}",
    [7 => "00000007", 99_999_999 => "99999999", 0 => "00000000"],
    ["7", "000000007", "-0000007", "+0000007", ""]);
// `7.ToString()`, Python `str(7)`, JavaScript `String(7)`.
reads_and_writes!(unpadded, u64, "{value:unpadded}",
    [7 => "7", 0 => "0", u64::MAX => "18446744073709551615"],
    ["07", "", "-7", "+7", "18446744073709551616", "7 ", "00"]);
// `(-5).ToString()`, `long.MinValue.ToString()`.
reads_and_writes!(unpadded_signed, i64, "{value:unpadded}",
    [-5 => "-5", 0 => "0", i64::MIN => "-9223372036854775808", i64::MAX => "9223372036854775807"],
    ["-0", "-05", "--5", "-", "9223372036854775808"]);
reads_and_writes!(unpadded_of_another_type, i8, "{value:unpadded}",
    [-128 => "-128", 127 => "127"], ["128", "-129"]);
// `255.ToString("X8")`, `255.ToString("x8")`, Python `f"{255:08x}"`.
reads_and_writes!(hex_upper, u32, "{value:X8}",
    [255 => "000000FF", u32::MAX => "FFFFFFFF", 0 => "00000000"],
    ["000000ff", "FF", "0000000FF", "0x0000FF", "+00000FF"]);
reads_and_writes!(hex_lower, u64, "{value:x16}",
    [0x0190_9d7e_3c40 => "000001909d7e3c40", u64::MAX => "ffffffffffffffff"],
    ["000001909D7E3C40", "1909d7e3c40"]);
// `Guid.ToString()` is "D"; Python `str(uuid)`, `uuid.hex`; C# `Guid.ToString("N").ToUpper()`.
reads_and_writes!(guid_d, Guid, "{value:D}",
    [guid() => "c9da6455-213d-42c9-9a79-3e9149a57833"], ["c9da6455213d42c99a793e9149a57833"]);
reads_and_writes!(guid_n, Guid, "{value:N}",
    [guid() => "c9da6455213d42c99a793e9149a57833"],
    ["c9da6455-213d-42c9-9a79-3e9149a57833", "C9DA6455213D42C99A793E9149A57833"]);
reads_and_writes!(guid_b, Guid, "{value:B}",
    [guid() => "{c9da6455-213d-42c9-9a79-3e9149a57833}"],
    ["{C9DA6455-213D-42C9-9A79-3E9149A57833}", "c9da6455-213d-42c9-9a79-3e9149a57833"]);
reads_and_writes!(guid_upper, Guid, "{value:upper}",
    [guid() => "C9DA6455-213D-42C9-9A79-3E9149A57833"],
    ["c9da6455-213d-42c9-9a79-3e9149a57833", "C9DA6455-213D-42C9-9A79-3E9149A5783a"]);
reads_and_writes!(guid_n_upper, Guid, "{value:N,upper}",
    [guid() => "C9DA6455213D42C99A793E9149A57833", Guid::nil() => "00000000000000000000000000000000"],
    ["c9da6455213d42c99a793e9149a57833"]);
reads_and_writes!(guid_b_upper, Guid, "{value:B,upper}",
    [guid() => "{C9DA6455-213D-42C9-9A79-3E9149A57833}"], ["C9DA6455-213D-42C9-9A79-3E9149A57833"]);
// `true.ToString()`, Python `str(True)`; JavaScript `String(true)`.
reads_and_writes!(bool_of_dotnet, bool, "{value:True}",
    [true => "True", false => "False"], ["true", "TRUE", "1", ""]);
reads_and_writes!(bool_of_javascript, bool, "{value:true}",
    [true => "true", false => "false"], ["True", "0"]);
// `new DateTime(2026, 11, 23, 4, 45, 6, DateTimeKind.Utc).AddTicks(1234567).ToString("o")`.
reads_and_writes!(iso_of_dotnet, DateTime<Utc>, "{value:iso7}",
[
    at("2026-11-23T04:45:06.1234567Z") => "2026-11-23T04:45:06.1234567Z",
    // `DateTime.MinValue` and `DateTime.MaxValue`, both of kind UTC.
    at("0001-01-01T00:00:00Z") => "0001-01-01T00:00:00.0000000Z",
    at("9999-12-31T23:59:59.9999999Z") => "9999-12-31T23:59:59.9999999Z",
],
[
    "2026-11-23T04:45:06Z", "2026-11-23T04:45:06.1234567", "2026-11-23T04:45:06.1234567+00:00",
    "2026-11-23t04:45:06.1234567z", "2026-11-23T24:00:00.0000000Z", "2026-02-29T00:00:00.0000000Z",
    "0000-01-01T00:00:00.0000000Z", "2026-11-23T04:45:60.0000000Z", "2026-1-23T04:45:06.12345670Z",
    "+026-11-23T04:45:06.1234567Z", "2026-11-23T04:45:06.123456Z", "",
]);
// `new Date(Date.UTC(2026, 10, 23, 4, 45, 6, 123)).toISOString()`.
reads_and_writes!(iso_of_javascript, DateTime<Utc>, "{value:iso3}",
    [
        at("2026-11-23T04:45:06.123Z") => "2026-11-23T04:45:06.123Z",
        at("1969-12-31T23:59:59.999Z") => "1969-12-31T23:59:59.999Z",
    ],
    ["2026-11-23T04:45:06.1230000Z", "2026-11-23T04:45:06,123Z"]);
// `datetime(2026, 11, 23, 4, 45, 6, tzinfo=timezone.utc).isoformat(timespec="microseconds")`.
reads_and_writes!(iso_of_python, DateTime<Utc>, "{value:iso6,naive}+00:00",
    [at("2026-11-23T04:45:06.000120Z") => "2026-11-23T04:45:06.000120+00:00"],
    ["2026-11-23T04:45:06+00:00", "2026-11-23T04:45:06.000120Z"]);
// `datetime(2026, 11, 23, 4, 45, 6, 123456).isoformat()`, of a naive datetime.
reads_and_writes!(iso_of_python_naive, DateTime<Utc>, "{value:iso6,naive}",
    [at("2026-11-23T04:45:06.123456Z") => "2026-11-23T04:45:06.123456"],
    ["2026-11-23T04:45:06.123456Z"]);
// `DateTime.ToString("yyyy-MM-ddTHH:mm:ssZ")`.
reads_and_writes!(iso_of_seconds, DateTime<Utc>, "{value:iso}",
    [at("2026-11-23T04:45:06Z") => "2026-11-23T04:45:06Z"], ["2026-11-23T04:45:06.0Z"]);
// `Utc::now().to_rfc3339_opts(SecondsFormat::Nanos, true)` of chrono.
reads_and_writes!(iso_of_chrono, DateTime<Utc>, "{value:iso9}",
    [at("2026-11-23T04:45:06.123456789Z") => "2026-11-23T04:45:06.123456789Z"],
    ["2026-11-23T04:45:06.123456789+00:00"]);
// `int(time.time())`, `DateTimeOffset.UtcNow.ToUnixTimeSeconds()`.
reads_and_writes!(unix, DateTime<Utc>, "{value:unix}",
    [
        at("2026-11-23T04:45:06Z") => "1795409106",
        at("2001-09-09T01:46:40Z") => "1000000000",
        at("1970-01-01T00:00:00Z") => "0000000000",
        at("2286-11-20T17:46:39Z") => "9999999999",
    ],
    ["999999999", "1795409106.5", "-1", "17954091060", "-000000001"]);
// `Date.now()`, `DateTimeOffset.UtcNow.ToUnixTimeMilliseconds()`.
reads_and_writes!(unix_ms, DateTime<Utc>, "{value:unix_ms}",
    [at("2026-11-23T04:45:06.123Z") => "1795409106123", at("1970-01-01T00:00:00.001Z") => "0000000000001"],
    ["1795409106", "1"]);
// `int(datetime(1969, 12, 31, 23, 59, 59, tzinfo=timezone.utc).timestamp())`.
reads_and_writes!(unix_unpadded, DateTime<Utc>, "{value:unix,unpadded}",
    [
        at("2026-11-23T04:45:06Z") => "1795409106",
        at("1969-12-31T23:59:59Z") => "-1",
        at("1970-01-01T00:00:00Z") => "0",
        at("0001-01-01T00:00:00Z") => "-62135596800",
        at("9999-12-31T23:59:59Z") => "253402300799",
    ],
    ["0000000001", "-0", "253402300800", "-62135596801", "9223372036854775808"]);
// `new Date(Date.UTC(1969, 11, 31, 23, 59, 59, 999)).getTime()`.
reads_and_writes!(unix_ms_unpadded, DateTime<Utc>, "{value:unix_ms,unpadded}",
    [at("1969-12-31T23:59:59.999Z") => "-1", at("2026-11-23T04:45:06.123Z") => "1795409106123"], ["01"]);
// `new DateTime(2017, 11, 10).Ticks.ToString("D19")`, `.Ticks.ToString()`, and
// `(DateTime.MaxValue.Ticks - new DateTime(2017, 11, 10).Ticks).ToString("D19")`.
reads_and_writes!(ticks, DateTime<Utc>, "{value}",
    [
        at("2017-11-10T00:00:00Z") => "0636458688000000000",
        at("0001-01-01T00:00:00Z") => "0000000000000000000",
        at("9999-12-31T23:59:59.9999999Z") => "3155378975999999999",
    ],
    ["636458688000000000", "3155378976000000000"]);
reads_and_writes!(ticks_of_18_digits, DateTime<Utc>, "{value:18}",
    [at("2017-11-10T00:00:00Z") => "636458688000000000"], ["0636458688000000000"]);
reads_and_writes!(ticks_reversed, DateTime<Utc>, "{value:desc}",
    [at("2017-11-10T00:00:00Z") => "2518920287999999999", at("9999-12-31T23:59:59.9999999Z") => "0000000000000000000"],
    ["3155378976000000000"]);
// `date.isoformat()`, `DateOnly.ToString("o")`, `date.toISOString().slice(0, 10)`.
reads_and_writes!(date, NaiveDate, "{value}",
    [
        NaiveDate::from_ymd_opt(2026, 11, 23).unwrap() => "2026-11-23",
        NaiveDate::from_ymd_opt(1, 1, 1).unwrap() => "0001-01-01",
        NaiveDate::from_ymd_opt(9999, 12, 31).unwrap() => "9999-12-31",
    ],
    ["2026-11-3", "2026-02-29", "0000-01-01", "20261123", "+2026-1-23", "2026-11-23Z"]);
reads_and_writes!(date_by_name, NaiveDate, "{value:date}",
    [NaiveDate::from_ymd_opt(2026, 11, 23).unwrap() => "2026-11-23"], ["20261123"]);
// `DateTime.ToString("yyyyMMdd")`, `date.strftime("%Y%m%d")`.
reads_and_writes!(date_of_eight_digits, NaiveDate, "{value:yyyyMMdd}",
    [NaiveDate::from_ymd_opt(1969, 7, 20).unwrap() => "19690720"], ["1969-07-20", "19691301", "00000101"]);

#[test]
fn a_value_outside_the_range_of_its_format_is_an_invalid_key() {
    #[derive(Entity)]
    #[entity(partition = "{hex:x2}", row = "{at:unix}_{day}_{ticks:18}")]
    struct Row {
        hex: u32,
        at: DateTime<Utc>,
        day: NaiveDate,
        ticks: DateTime<Utc>,
    }
    let day = NaiveDate::from_ymd_opt(2026, 11, 23).unwrap();
    let now = at("2026-11-23T04:45:06Z");
    let parts = |hex, at, day, ticks| {
        Row::key(hex, at, day, ticks).parts().map(drop).map_err(ToString::to_string)
    };
    assert_eq!(parts(255, now, day, now), Ok(()));
    assert!(parts(256, now, day, now).unwrap_err().contains("more than the 2 digits"));
    for at in [at("1969-12-31T23:59:59Z"), at("2286-11-20T17:46:40Z")] {
        assert!(parts(1, at, day, now).unwrap_err().contains("1970 to 2286"));
    }
    for year in [0, -1, 10_000] {
        let day = NaiveDate::from_ymd_opt(year, 1, 1).unwrap();
        assert!(parts(1, now, day, now).unwrap_err().contains("the years 1 to 9999"));
        let instant = Utc.from_utc_datetime(&day.and_hms_opt(0, 0, 0).unwrap());
        assert!(parts(1, now, NaiveDate::MIN, instant).is_err());
    }
    assert!(parts(1, now, day, at("3170-01-01T00:00:00Z")).unwrap_err().contains("18 digits"));
}

#[test]
fn a_format_truncates_to_its_resolution() {
    #[derive(Entity)]
    // Only its keys matter here.
    #[entity(append_ok, partition = "{a:date}", row = "{b:unix_ms,unpadded}")]
    struct Row {
        a: DateTime<Utc>,
        b: DateTime<Utc>,
    }
    let key = Row::key(at("1969-12-31T23:59:59.5Z"), at("1969-12-31T23:59:59.9999Z"));
    assert_eq!(key.parts(), Ok(("1969-12-31", "-1")));
}

#[test]
fn a_separator_is_unambiguous_if_parts_cannot_contain_it() {
    #[derive(Clone, Copy, Debug, PartialEq, KeyPart)]
    struct Order(u32);

    #[derive(Entity)]
    #[entity(
        partition = "{order}-{line:unpadded,unordered}-{trace:N}.{flag:True}={customer}",
        row = ""
    )]
    struct Row {
        order: Order,
        line: u16,
        trace: Guid,
        flag: bool,
        customer: String,
    }
    let key = Row::key(Order(7), 12, guid(), true, "a=b");
    let partition = "0000000007-12-c9da6455213d42c99a793e9149a57833.True=a=b";
    assert_eq!(key.parts(), Ok((partition, "")));
    let read = Row::parse_key(partition, "").unwrap();
    assert_eq!(read, (Order(7), 12, guid(), true, "a=b".to_owned()));
}

#[test]
fn text_before_a_hyphen_is_escaped_and_dates_are_not() {
    #[derive(Entity)]
    // Only its keys matter here.
    #[entity(append_ok, partition = "all", row = "{day}T{hour:2}Z{name}-{mark:x4}g{rest}")]
    struct Row {
        day: NaiveDate,
        hour: u8,
        name: String,
        mark: u16,
        rest: String,
    }
    let day = NaiveDate::from_ymd_opt(2026, 11, 23).unwrap();
    let key = Row::key(day, 4, "north-east", 255, "x-y");
    let row = "2026-11-23T04Znorth,~east-00ffgx-y";
    assert_eq!(key.parts(), Ok(("all", row)));
    let read = Row::parse_key("all", row).unwrap();
    assert_eq!(read, (day, 4, "north-east".to_owned(), 255, "x-y".to_owned()));
    // Another writer's text with the separator in it is an error, not another value.
    assert!(Row::parse_key("all", "2026-11-23T04Znorth-east-00ffgx-y").is_err());
}

#[test]
fn a_field_in_both_keys_is_read_from_the_finer_format() {
    #[derive(Debug, PartialEq, Entity)]
    #[entity(partition = "{site}_{at:date}", row = "{at:desc}_{site:D,upper}")]
    struct Reading {
        site: Guid,
        at: DateTime<Utc>,
        celsius: f64,
    }
    let instant = at("2017-11-10T02:44:50.3846037Z");
    let key = Reading::key(guid(), instant);
    let (partition, row) = key.parts().unwrap();
    assert_eq!(partition, "c9da6455-213d-42c9-9a79-3e9149a57833_2017-11-10");
    assert_eq!(Reading::parse_key(partition, row).unwrap(), (guid(), instant));
    // The keys have to agree.
    let other = partition.replace("-11-10", "-11-11");
    assert!(Reading::parse_key(&other, row).is_err());
}

#[test]
fn index_templates_accept_the_formats_of_key_templates() {
    // Only its keys matter here.
    #[derive(Entity)]
    #[entity(append_ok, partition = "{shop}", row = "id_{id:N}")]
    #[entity(index(name = by_day, row = "day_{at:yyyyMMdd}-{number:unpadded,unordered}", many))]
    #[entity(index(name = by_number, row = "number_{number:unpadded}"))]
    #[entity(index(name = by_time, partition = "time_{at:date}", row = "{at:iso3}_{id:N}"))]
    struct Sale {
        shop: String,
        id: Guid,
        number: u32,
        at: DateTime<Utc>,
    }
    let number = Sale::by_number("north", 42);
    assert_eq!(number.parts(), Ok(("north", "number_42")));
    let time = Sale::by_time(at("2026-11-23T04:45:06.123Z"), guid());
    let row = "2026-11-23T04:45:06.123Z_c9da6455213d42c99a793e9149a57833";
    assert_eq!(time.parts(), Ok(("time_2026-11-23", row)));
    let of_day = Sale::by_day_under_at("north", at("2026-11-23T04:45:06Z"));
    let partition = of_day.partition_of::<Sale>();
    assert_eq!(partition.partition_key(), Ok("north"));
}

#[tokio::test]
async fn a_range_of_unpadded_numbers_contains_every_match() {
    #[derive(Clone, Debug, Entity)]
    #[entity(partition = "{shop}", row = "sale_{group:unpadded,unordered}-{number:unpadded}")]
    #[entity(index(name = by_rank, row = "rank_{rank:unpadded}"))]
    struct Sale {
        shop: String,
        group: u32,
        number: u32,
        rank: i32,
    }
    let server = rowkey_emulator::Server::start().await.unwrap();
    let account = StorageAccount::from_connection_string(server.connection_string()).unwrap();
    let table = account.table("sales");
    table.create().await.unwrap();
    let mut expected = Vec::new();
    for (group, number) in
        [9, 10, 100].into_iter().flat_map(|a| [0, 9, 10, 11, 100].map(|b| (a, b)))
    {
        let sale = Sale { shop: "north".into(), group, number, rank: 0 };
        table.insert(&sale).await.unwrap();
        expected.push((group, number));
    }
    let north = || Sale::partition("north");
    let key = |group, number| Sale::key("north", group, number);
    let bounds = |from: Option<(u32, u32)>, to: Option<(u32, u32)>| {
        let from = from.map_or(Bound::Unbounded, |(a, b)| Bound::Included(key(a, b)));
        let to = to.map_or(Bound::Unbounded, |(a, b)| Bound::Excluded(key(a, b)));
        north().range((from, to))
    };
    for from in [None, Some((9, 10)), Some((10, 9)), Some((10, 50))] {
        for to in [None, Some((10, 11)), Some((100, 0)), Some((101, 0))] {
            let found = table.query(bounds(from, to)).all().await.unwrap();
            let mut found: Vec<_> =
                found.iter().map(|row| (row.entity.group, row.entity.number)).collect();
            found.sort_unstable();
            let is_meant = |pair: &(u32, u32)| {
                from.is_none_or(|from| *pair >= from) && to.is_none_or(|to| *pair < to)
            };
            let meant: Vec<_> = expected.iter().copied().filter(is_meant).collect();
            assert_eq!(found, meant, "{from:?} to {to:?}");
        }
    }
    // One group is one range of RowKeys, for all numbers.
    let of_ten = table.query(Sale::under_group("north", 10)).all().await.unwrap();
    assert_eq!(of_ten.len(), 5);

    // The rows of an index are planned alike: with a number of another spelling between them.
    let rank = |rank: i32| Sale::by_rank("north", rank);
    for text in ["-10", "-9", "7", "10", "070"] {
        let copy = DynamicEntity::new("north", format!("rank_{text}"));
        table.insert(&copy).await.unwrap();
    }
    let ranks = Sale::by_rank_all("north").range(rank(-9)..=rank(10));
    let found = table.query(ranks.partition_of::<DynamicEntity>()).all().await.unwrap();
    let row_key = |row: &Stored<DynamicEntity>| Key::of(&row.entity).parts().unwrap().1.to_owned();
    let found: Vec<_> = found.iter().map(row_key).collect();
    assert_eq!(found, ["rank_-9", "rank_10", "rank_7"]);
}
