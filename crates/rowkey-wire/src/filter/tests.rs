//! Parses filters that official SDKs sent to the live service, and hostile text.

use std::thread;

use Operator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};

use super::parse::{MAX_DEPTH, parse};
use super::{ErrorKind, Filter, Operator, Unsupported, print};
use crate::code::ErrorCode;
use crate::edm::{Type, Value};

fn eq(property: &str, value: impl Into<Value>) -> Filter {
    Filter::compare(property, Equal, value)
}

fn kind(text: &str) -> ErrorKind {
    parse(text).unwrap_err().kind
}

/// Every form of filter in the recordings of azure-data-tables and azure-cosmosdb-table (Python),
/// each with its test. The service answered 200 to all of them.
#[test]
fn recorded_filters_are_read_as_they_were_meant() {
    let instant: crate::edm::DateTime = "1970-10-04T00:00:00Z".parse().unwrap();
    let guid: uuid::Uuid = "c9da6455-213d-42c9-9a79-3e9149a57833".parse().unwrap();
    let recorded = [
        // test_table_batch.test_batch_all_operations_together
        ("PartitionKey eq '003'", eq("PartitionKey", "003")),
        // test_table_batch.test_batch_inserts
        ("PartitionKey eq 'batch_inserts'", eq("PartitionKey", "batch_inserts")),
        // test_table.test_list_tables_with_filter
        ("TableName eq 'pytablesync3f57100b'", eq("TableName", "pytablesync3f57100b")),
        // test_table.test_query_tables_per_page
        (
            "TableName eq 'mytable0' or TableName eq 'mytable1' or TableName eq 'mytable2'",
            Filter::Or(vec![
                eq("TableName", "mytable0"),
                eq("TableName", "mytable1"),
                eq("TableName", "mytable2"),
            ]),
        ),
        // test_custom_entity.test_custom_entity_query
        ("Value lt 25", Filter::compare("Value", Less, 25)),
        // test_table_aad.test_aad_query_user_filter
        ("married eq true", eq("married", true)),
        // test_table_entity.test_query_user_filter_multiple_params
        (
            "married eq true and RowKey eq 'rk97e31758'",
            eq("married", true).and(eq("RowKey", "rk97e31758")),
        ),
        // test_table_entity.test_query_injection
        (
            "PartitionKey eq 'foo' and IsAdmin eq 'admin'",
            eq("PartitionKey", "foo").and(eq("IsAdmin", "admin")),
        ),
        (
            "PartitionKey eq 'foo' or RowKey eq 'bar2' and IsAdmin eq 'admin'",
            eq("PartitionKey", "foo").or(eq("RowKey", "bar2").and(eq("IsAdmin", "admin"))),
        ),
        (
            "PartitionKey eq 'foo'' or RowKey eq ''bar2' and IsAdmin eq 'admin'",
            eq("PartitionKey", "foo' or RowKey eq 'bar2").and(eq("IsAdmin", "admin")),
        ),
        // test_table_entity.test_query_special_chars
        ("PartitionKey eq ':@'", eq("PartitionKey", ":@")),
        (
            "PartitionKey eq ':@' and RowKey eq '+,$' and Chars eq '?''/!_^#'",
            Filter::And(vec![
                eq("PartitionKey", ":@"),
                eq("RowKey", "+,$"),
                eq("Chars", "?'/!_^#"),
            ]),
        ),
        (
            "PartitionKey eq ':@' and RowKey eq '=& ' and Chars eq '?\"\\{}<>%'",
            Filter::And(vec![
                eq("PartitionKey", ":@"),
                eq("RowKey", "=& "),
                eq("Chars", "?\"\\{}<>%"),
            ]),
        ),
        // test_table_entity.test_query_user_filter_binary, _datetimes, _floats, _guids, _int64, _integers
        ("binary eq X'62696e617279'", eq("binary", &b"binary"[..])),
        ("birthday eq datetime'1970-10-04T00:00:00.000000Z'", eq("birthday", instant)),
        ("ratio lt 4.1", Filter::compare("ratio", Less, 4.1)),
        ("clsid eq guid'c9da6455-213d-42c9-9a79-3e9149a57833'", eq("clsid", guid)),
        ("large_int eq 1099511627776L", eq("large_int", 1_099_511_627_776_i64)),
        ("age lt 40", Filter::compare("age", Less, 40)),
        // test_table_entity.test_url_encoding_at_symbol
        ("RowKey eq 'table@storage.com0123456789'", eq("RowKey", "table@storage.com0123456789")),
    ];
    for (text, expected) in recorded {
        assert_eq!(parse(text), Ok(expected), "{text}");
    }
}

/// The documented grammar, beyond the recordings.
#[test]
fn the_documented_grammar_is_read() {
    let cases = [
        ("5 lt Age", Filter::compare("Age", Greater, 5)),
        ("5 le Age", Filter::compare("Age", GreaterOrEqual, 5)),
        ("'x' ne Name", Filter::compare("Name", NotEqual, "x")),
        ("b eq binary'00fF'", eq("b", &[0_u8, 255][..])),
        ("b eq X''", eq("b", &[][..])),
        ("n eq -12", eq("n", -12)),
        ("n eq - 12", eq("n", -12)),
        ("n eq -(-(12))", eq("n", 12)),
        ("n eq -2147483648", eq("n", i32::MIN)),
        ("n eq -9223372036854775808L", eq("n", i64::MIN)),
        ("n eq 1e10", eq("n", 1e10)),
        ("n eq 1.5E-07", eq("n", 1.5e-7)),
        ("n eq 1E+24", eq("n", 1e24)),
        ("n eq 3.0", eq("n", 3.0)),
        ("n eq 3d", eq("n", 3.0)),
        ("n le INF", Filter::compare("n", LessOrEqual, f64::INFINITY)),
        ("n le -INF", Filter::compare("n", LessOrEqual, f64::NEG_INFINITY)),
        ("n eq ''", eq("n", "")),
        ("n eq ''''", eq("n", "'")),
        ("名前 eq '日本😀'", eq("名前", "日本😀")),
        ("active", Filter::Property("active".into())),
        ("not active", Filter::Not(Box::new(Filter::Property("active".into())))),
        ("true", Filter::Constant(true)),
        ("not (a eq 1)", Filter::Not(Box::new(eq("a", 1)))),
        ("not(a eq 1)and(b eq 2)", Filter::Not(Box::new(eq("a", 1))).and(eq("b", 2))),
        ("not a eq 1 and b eq 2", Filter::Not(Box::new(eq("a", 1))).and(eq("b", 2))),
        ("(a eq 1 or b eq 2) and c eq 3", eq("a", 1).or(eq("b", 2)).and(eq("c", 3))),
        ("  ( ( a ) eq ( 1 ) )  ", eq("a", 1)),
        (
            "(a eq 1 and b eq 2) and (c eq 3 and d eq 4)",
            Filter::And(vec![eq("a", 1), eq("b", 2), eq("c", 3), eq("d", 4)]),
        ),
        ("active and not deleted", {
            let not = Filter::Not(Box::new(Filter::Property("deleted".into())));
            Filter::Property("active".into()).and(not)
        }),
        ("Eq eq 1", eq("Eq", 1)),
        ("eq eq 1", eq("eq", 1)),
        ("datetime eq 1", eq("datetime", 1)),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(text), Ok(expected), "{text}");
    }
    let Ok(Filter::Compare(nan)) = parse("n eq NaN") else { panic!("NaN is a constant") };
    assert!(matches!(nan.value, Value::Double(value) if value.is_nan()));
}

#[test]
fn the_recorded_syntax_error_is_reported_word_for_word() {
    // azure-data-tables (Python), test_table_entity.test_query_invalid_filter: 400.
    let error = parse("aaa bbb ccc").unwrap_err();
    assert_eq!(error.at, 7);
    assert_eq!(error.code(), ErrorCode::INVALID_INPUT);
    assert_eq!(error.message("aaa bbb ccc"), "Syntax error at position 7 in 'aaa bbb ccc'.");
}

#[test]
fn a_key_used_as_a_condition_is_reported_word_for_word() {
    // azure-storage-net v8.7.0, TableWithInvalidQuery: the text its test expects of the service.
    let text = "(PartitionKey ) and (RowKey ge '000050')";
    let error = parse(text).unwrap_err();
    assert_eq!(
        error.message(text),
        "A binary operator with incompatible types was detected. Found operand types \
         'Edm.String' and 'Edm.Boolean' for operator kind 'And'."
    );
    assert_eq!(error.code(), ErrorCode::INVALID_INPUT);
}

#[test]
fn incompatible_types_are_named_in_the_order_written() {
    for (text, left, right, operator) in [
        ("a eq 1 and RowKey", Type::Boolean, Type::String, "And"),
        ("a eq 1 and b eq 2 and 'x'", Type::Boolean, Type::String, "And"),
        ("a or 5", Type::Boolean, Type::Int32, "Or"),
        ("PartitionKey eq 5", Type::String, Type::Int32, "Equal"),
        ("5L lt RowKey", Type::Int64, Type::String, "LessThan"),
        ("Timestamp ge '2020-01-01'", Type::DateTime, Type::String, "GreaterThanOrEqual"),
    ] {
        assert_eq!(kind(text), ErrorKind::IncompatibleTypes { left, right, operator }, "{text}");
    }
    let not = ErrorKind::IncompatibleOperand { operand: Type::String, operator: "Not" };
    assert_eq!(kind("not PartitionKey"), not);
    for text in ["PartitionKey", "'x'", "5", "(RowKey)", "null"] {
        assert_eq!(kind(text), ErrorKind::NotBoolean, "{text}");
    }
}

#[test]
fn what_the_service_lacks_is_told_from_what_is_wrong() {
    for (text, what) in [
        ("startswith(Name, 'a')", Unsupported::Function),
        ("substringof('a', Name) and b eq 1", Unsupported::Function),
        ("Name eq tolower('A')", Unsupported::Function),
        ("a eq b", Unsupported::Properties),
        ("1 eq 1", Unsupported::Constants),
        ("a add 1 eq 2", Unsupported::Arithmetic),
        ("a eq 1 sub 2", Unsupported::Arithmetic),
        ("-a eq 2", Unsupported::Arithmetic),
        ("a/b eq 2", Unsupported::Path),
        ("(a eq 1) eq true", Unsupported::Condition),
        ("a eq 1 eq true", Unsupported::Condition),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotSupported(what), "{text}");
        assert_eq!(error.code(), ErrorCode::NOT_IMPLEMENTED, "{text}");
    }
    let error = parse("Name eq null").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Null);
    // Reported by a user of the service in Azurite's issue 2471.
    assert_eq!(error.message("Name eq null"), "One of the request inputs is not valid.");
    assert_eq!(error.code(), ErrorCode::INVALID_INPUT);
}

#[test]
fn wrong_text_is_refused_where_it_goes_wrong() {
    for (text, at, expected) in [
        ("", 0, ErrorKind::ExpressionExpected),
        ("a eq", 4, ErrorKind::ExpressionExpected),
        ("a eq 1 and", 10, ErrorKind::ExpressionExpected),
        ("(a eq 1", 7, ErrorKind::CloseExpected),
        ("a eq 1)", 7, ErrorKind::Syntax),
        ("a EQ 1", 4, ErrorKind::Syntax),
        ("a eq 1 AND b eq 2", 10, ErrorKind::Syntax),
        ("a eq 'x", 7, ErrorKind::UnterminatedString),
        ("a eq 'x'' ", 10, ErrorKind::UnterminatedString),
        ("😀 eq ? 1", 6, ErrorKind::InvalidCharacter('?')),
        ("a eq 1.", 7, ErrorKind::DigitExpected),
        ("a eq 1e+", 8, ErrorKind::DigitExpected),
        ("a eq 3000000000", 5, ErrorKind::BadLiteral { edm_type: Type::Int32, end: 15 }),
        ("a eq X'123'", 5, ErrorKind::BadLiteral { edm_type: Type::Binary, end: 11 }),
        ("a eq X'zz'", 5, ErrorKind::BadLiteral { edm_type: Type::Binary, end: 10 }),
        ("a eq datetime'soon'", 5, ErrorKind::BadLiteral { edm_type: Type::DateTime, end: 19 }),
        ("a eq guid'12'", 5, ErrorKind::BadLiteral { edm_type: Type::Guid, end: 13 }),
        ("a eq 1e999", 5, ErrorKind::BadLiteral { edm_type: Type::Double, end: 10 }),
        ("a eq x'00'", 10, ErrorKind::Syntax),
        ("a eq 5x", 7, ErrorKind::Syntax),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!((error.at, error.kind), (at, expected), "{text}");
    }
    assert_eq!(
        parse("a eq X'123'").unwrap_err().message("a eq X'123'"),
        "Unrecognized 'Edm.Binary' literal 'X'123'' at '5' in 'a eq X'123''."
    );
}

#[test]
fn nesting_is_limited_and_long_chains_are_not() {
    for (open, close) in [("(", ")"), ("not ", ""), ("not (", ")")] {
        let nested = |depth: usize| format!("{}a{}", open.repeat(depth), close.repeat(depth));
        let per_level = open.matches(['n', '(']).count();
        assert!(parse(&nested(MAX_DEPTH / per_level)).is_ok(), "{open}");
        assert_eq!(kind(&nested(MAX_DEPTH + 1)), ErrorKind::TooDeep, "{open}");
        assert_eq!(kind(&nested(100_000)), ErrorKind::TooDeep, "{open}");
    }
    assert_eq!(kind(&format!("a eq {}1", "- ".repeat(100_000))), ErrorKind::TooDeep);
    let chain = vec!["a eq 1"; 20_000].join(" or ");
    assert_eq!(parse(&chain).unwrap().comparisons(), 20_000);
}

/// A thread has 2 MiB of stack by default, which the parser shares with its callers.
#[test]
fn the_deepest_filter_fits_a_small_stack() {
    const STACK: usize = 3 << 19;
    let forms = [
        ("(", ")"),
        ("not (", ")"),
        ("a and (", ")"),
        ("a or b and (", ")"),
        ("a eq (", ")"),
        ("a eq -(", ")"),
    ];
    for (open, close) in forms {
        for depth in [MAX_DEPTH / 2, MAX_DEPTH, MAX_DEPTH + 1] {
            let text = format!("{}a{}", open.repeat(depth), close.repeat(depth));
            let parsed = thread::Builder::new().stack_size(STACK).spawn(move || {
                parse(&text).map(|filter| (print(&filter), filter.comparisons())).is_ok()
            });
            let is_parsed = parsed.unwrap().join().unwrap();
            assert!(!is_parsed || depth <= MAX_DEPTH, "{open}: {depth}");
        }
    }
}

#[test]
fn neither_debug_nor_display_of_an_error_quotes_the_filter() {
    for text in
        ["PartitionKey eq 'secret' oops", "a eq datetime'secret'", "secret(1)", "secret eq 'secret"]
    {
        let error = parse(text).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"), "{text}");
    }
}

/// A small random number generator (`SplitMix64`), so that every run is the same.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }

    fn filter(&mut self, depth: usize) -> Filter {
        let operators = [Equal, GreaterOrEqual, Greater, LessOrEqual, Less, NotEqual];
        match self.below(if depth == 0 { 3 } else { 6 }) {
            0 | 1 => {
                let value = match self.below(8) {
                    0 => Value::Binary(
                        (0..self.below(5)).map(|i| u8::try_from(i * 60).unwrap()).collect(),
                    ),
                    1 => Value::Boolean(self.below(2) == 0),
                    2 => Value::DateTime(
                        crate::edm::DateTime::from_ticks(
                            630_000_000_000_000_000 + i64::try_from(self.below(1 << 50)).unwrap(),
                        )
                        .unwrap(),
                    ),
                    3 => Value::Double(
                        f64::from(i32::try_from(self.below(2000)).unwrap() - 1000) / 7.0,
                    ),
                    4 => Value::Guid(uuid::Uuid::from_u128(self.below(usize::MAX) as u128)),
                    5 => Value::Int32(i32::try_from(self.below(200)).unwrap() - 100),
                    6 => Value::Int64(i64::try_from(self.below(1 << 40)).unwrap() - (1 << 39)),
                    _ => Value::String(
                        ["", "a", "o'clock", "''", "日本 and '", "😀"][self.below(6)].into(),
                    ),
                };
                Filter::compare(
                    ["a", "B2", "naïve"][self.below(3)],
                    operators[self.below(6)],
                    value,
                )
            }
            2 => Filter::Property("active".into()),
            3 => Filter::Not(Box::new(self.filter(depth - 1))),
            4 => self.filter(depth - 1).and(self.filter(depth - 1)),
            _ => self.filter(depth - 1).or(self.filter(depth - 1)),
        }
    }
}

#[test]
fn what_is_printed_reads_back_as_the_same_filter() {
    let mut random = Random(1);
    for _ in 0..5_000 {
        let filter = random.filter(4);
        let text = print(&filter);
        assert_eq!(parse(&text).as_ref(), Ok(&filter), "{text}");
    }
}

/// Names that are keywords elsewhere, and `not` in every position.
#[test]
fn all_that_parses_is_printed_so_that_it_parses_to_the_same() {
    let nots = |count: usize, inner: &str| "not ".repeat(count) + inner;
    let texts = [
        "5 eq and",
        "5 eq eq",
        "add eq 5",
        "or or or",
        "x and and",
        "and and not or",
        "5 lt X",
        "datetime eq 1",
        "not not not x",
        "not a eq 1 and not (b or c)",
        "-(-5) lt x",
        "-0.0 eq x",
        "x eq - INF",
        &nots(MAX_DEPTH, "x"),
        &nots(MAX_DEPTH - 1, "x eq 1"),
        &nots(MAX_DEPTH - 1, "(x eq 1)"),
    ];
    for text in texts {
        let filter = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(parse(&print(&filter)), Ok(filter), "{text}");
    }
    assert_eq!(kind("5 eq not "), ErrorKind::ExpressionExpected);
    assert_eq!(kind("not eq 5"), ErrorKind::Syntax, "`not` is no property");
    assert_eq!(kind("5 eq not x"), ErrorKind::NotSupported(Unsupported::Condition));
    assert_eq!(kind(&nots(MAX_DEPTH, "x eq 1")), ErrorKind::TooDeep);
}

#[test]
fn no_text_makes_the_parser_panic() {
    let pieces = [
        "a",
        "PartitionKey",
        " ",
        "eq",
        "and",
        "or",
        "not",
        "(",
        ")",
        "'",
        "''",
        "-",
        "1",
        "2.5",
        "e",
        "L",
        "INF",
        "NaN",
        "null",
        "true",
        "X'",
        "guid'",
        "datetime'",
        "/",
        ",",
        "?",
        "é",
        "😀",
        "\0",
        "\u{301}",
        "\u{a0}",
        "9999999999",
        "add",
        "\t",
    ];
    let mut random = Random(2);
    let mut accepted = 0;
    for _ in 0..50_000 {
        let text: String =
            (0..random.below(12)).map(|_| pieces[random.below(pieces.len())]).collect();
        match parse(&text) {
            Ok(filter) => {
                accepted += 1;
                // Compared as text, because NaN is not equal to itself.
                let printed = print(&filter);
                let again = parse(&printed).map(|filter| print(&filter));
                assert_eq!(again.as_ref(), Ok(&printed), "{text:?}");
            }
            Err(error) => {
                assert!(error.at <= text.encode_utf16().count(), "{text:?}: {error:?}");
                assert!(!error.message(&text).is_empty());
            }
        }
    }
    assert!(accepted > 100, "the generator also makes filters");
}
