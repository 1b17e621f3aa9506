//! Tests of names, ranges, lines and the buffer, without a server.

use chrono::TimeZone as _;
use rowkey_client::ErrorKind;

use super::buffer::Buffer;
use super::*;

fn at(year: i32, month: u32, day: u32, hour: u32, minute: u32) -> DateTime<Utc> {
    Utc.with_ymd_and_hms(year, month, day, hour, minute, 0).unwrap()
}

#[test]
fn only_exact_blob_names_parse() {
    let begin = at(2026, 11, 21, 14, 15);
    let name = name::blob("web", begin, 7);
    assert_eq!(name, "web/2026/11/21/1415/000007.log");
    assert_eq!(name::parse("web", &name), Some((begin, 7)));
    let others = [
        "web2/2026/11/21/1415/000007.log",
        "web/2026/11/21/1415/7.log",
        "web/2026/11/21/1415/+00007.log",
        "web/2026/11/21/1415/0000007.log",
        "web/2026/11/21/1415/000007.txt",
        "web/2026/13/21/1415/000007.log",
        "web/2026/11/21/1415/a/000007.log",
        "web/26/11/21/1415/000007.log",
        "web/",
        "",
    ];
    for name in others {
        assert_eq!(name::parse("web", name), None, "{name}");
    }
}

#[test]
fn blob_names_and_line_times_sort_chronologically() {
    let times = [
        at(999, 12, 31, 23, 59),
        at(2026, 1, 2, 3, 0),
        at(2026, 1, 2, 3, 0) + TimeDelta::microseconds(1),
        at(2026, 1, 2, 3, 4),
        at(2026, 1, 10, 0, 0),
        at(2026, 10, 1, 0, 0),
        at(9999, 12, 31, 23, 59),
    ];
    let sorted = |texts: Vec<String>| assert!(texts.is_sorted(), "{texts:?}");
    sorted(times.iter().map(|time| name::folder("web", *time)).collect());
    sorted(times.iter().map(|time| name::time(*time)).collect());
    for time in times {
        assert_eq!(name::begin(time, TimeDelta::hours(1)).format("%M%S").to_string(), "0000");
        assert_eq!(name::parse_time(&name::time(time)), Some(time));
        assert_eq!(name::time(time).len(), 27);
    }
}

#[test]
fn a_range_is_split_into_prefixes_of_hours_days_and_months() {
    let prefixes = |from, to| name::prefixes("web", &(from..to)).join(" ");
    let noon = at(2026, 11, 21, 12, 0);
    let minutes = TimeDelta::minutes;
    assert_eq!(prefixes(noon + minutes(5), noon + minutes(6)), "web/2026/11/21/12");
    assert_eq!(prefixes(noon, noon + minutes(60)), "web/2026/11/21/12");
    assert_eq!(prefixes(noon, noon + minutes(61)), "web/2026/11/21/");
    assert_eq!(
        prefixes(at(2026, 11, 21, 23, 30), at(2026, 11, 22, 0, 30)),
        "web/2026/11/21/23 web/2026/11/22/00"
    );
    assert_eq!(
        prefixes(at(2026, 10, 31, 22, 0), at(2026, 12, 2, 1, 0)),
        "web/2026/10/31/ web/2026/11/ web/2026/12/01/ web/2026/12/02/00"
    );
    assert_eq!(
        prefixes(at(2026, 10, 5, 22, 0), at(2026, 11, 8, 0, 1)),
        "web/2026/10/ web/2026/11/"
    );
    assert_eq!(prefixes(at(2024, 1, 1, 0, 0), at(2026, 1, 1, 0, 0)), "web/");
    assert_eq!(prefixes(DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC), "web/");
    let end = DateTime::<Utc>::MAX_UTC;
    assert!(!prefixes(end - TimeDelta::days(3), end).is_empty());
}

/// Every blob that can have lines in a range is under exactly one of the range's prefixes.
#[test]
fn no_range_misses_or_repeats_a_blob() {
    let begin = at(2027, 12, 29, 0, 0);
    let hours: Vec<_> = (0..24 * 70).map(|hour| begin + TimeDelta::hours(hour)).collect();
    for (first, length) in [(0, 1), (5, 43), (23, 25), (24, 48), (70, 24 * 33), (71, 24 * 62)] {
        for minutes in [0, 1, 59] {
            let range = hours[first] + TimeDelta::minutes(minutes)..hours[first + length];
            let prefixes = name::prefixes("web", &range);
            assert!(prefixes.is_sorted());
            for hour in &hours {
                let name = name::blob("web", *hour, 1);
                let listed = prefixes.iter().filter(|prefix| name.starts_with(&**prefix)).count();
                let touched = *hour < range.end && *hour + TimeDelta::hours(1) > range.start;
                assert!(listed <= 1 && (!touched || listed == 1), "{name} of {range:?}");
            }
        }
    }
}

#[test]
fn only_exact_lines_parse() {
    let mut bytes = bytes::BytesMut::new();
    let time = at(2026, 11, 21, 14, 0) + TimeDelta::microseconds(5);
    for text in ["", "GET / 200", " two  spaces ", "\u{fe0f}\t\r"] {
        bytes.clear();
        line::print(time, text, &mut bytes);
        assert_eq!(bytes.len(), text.len() + line::OVERHEAD);
        let read = line::parse(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!((read.time, &*read.text), (time, text));
    }
    let others: [&[u8]; 5] =
        [b"", b"GET / 200", b"2026-11-21T14:00:00Z x", b"2026-11-21T14:00:00.000000Z", b"\xff"];
    for other in others {
        assert_eq!(line::parse(other), None);
    }
    assert_eq!(line::check("a\nb").unwrap_err().kind(), ErrorKind::Invalid);
    let long = "x".repeat(line::MAX_TEXT + 1);
    assert_eq!(line::check(&long).unwrap_err().kind(), ErrorKind::TooLarge);
    assert!(line::check(&long[1..]).is_ok());
}

#[test]
fn a_block_has_lines_of_one_period_in_nondecreasing_time() {
    let mut buffer = Buffer::new(1000, TimeDelta::minutes(15));
    let begin = at(2026, 11, 21, 14, 14);
    for (minutes, text) in [(0, "a"), (-3, "b"), (1, "c"), (2, "d")] {
        assert!(buffer.push(Some(begin + TimeDelta::minutes(minutes)), begin, text).unwrap());
    }
    let first = buffer.pop().unwrap();
    assert_eq!((first.begin, first.lines), (at(2026, 11, 21, 14, 0), 2));
    assert_eq!((first.first, first.last), (begin, begin));
    let second = buffer.pop().unwrap();
    assert_eq!((second.begin, second.lines), (at(2026, 11, 21, 14, 15), 2));
    assert_eq!(second.last, begin + TimeDelta::minutes(2));
    assert!(buffer.pop().is_none());
}

#[test]
fn a_buffer_has_room_again_after_its_lines_were_written() {
    let mut buffer = Buffer::new(100, TimeDelta::hours(1));
    let time = at(2026, 11, 21, 14, 0);
    let text = "x".repeat(50 - line::OVERHEAD);
    assert!(buffer.push(None, time, &text).unwrap() && buffer.push(None, time, &text).unwrap());
    assert!(!buffer.push(None, time, "").unwrap());
    let block = buffer.pop().unwrap();
    assert!(!buffer.push(None, time, "").unwrap(), "what is on its way waits still");
    buffer.written(block.lines, block.bytes.len());
    assert!(buffer.push(None, time, &text).unwrap());
    assert_eq!((buffer.lines, buffer.bytes, buffer.taken), (1, 50, 3));
    let error = buffer.push(None, time, &"x".repeat(90)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}

#[test]
fn dropped_lines_are_counted_and_reported() {
    let mut buffer = Buffer::new(100, TimeDelta::hours(1));
    let time = at(2026, 11, 21, 14, 0);
    let notice = |lines| format!("{lines} gone");
    for text in ["x".repeat(60), "y".repeat(60), "a\nb".to_owned()] {
        buffer.push_or_drop(time, &text, notice);
    }
    assert_eq!(buffer.dropped, 2);
    let block = buffer.pop().unwrap();
    buffer.written(block.lines, block.bytes.len());
    buffer.push_or_drop(time, "next", notice);
    let text = String::from_utf8(buffer.pop().unwrap().bytes.to_vec()).unwrap();
    let texts: Vec<_> = text.lines().map(|line| &line[line::OVERHEAD - 1..]).collect();
    assert_eq!(texts, ["2 gone", "next"]);
    buffer.tell(time);
    assert!(buffer.pop().is_none(), "once is enough");
}
