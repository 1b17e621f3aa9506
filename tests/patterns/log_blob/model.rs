//! Random writers, flushes, faults, stops and ranges against a list of the logged lines.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::TryStreamExt as _;
use rowkey::patterns::log_blob::{BlobLog, LogWriter};
use rowkey_emulator::{ErrorCode, Fault, Server};
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{account, is_brief};

use super::begin;

/// A writer, and the lines passed to it.
struct Modelled {
    writer: LogWriter,
    /// The time that each line is stored with, and its text.
    lines: Vec<(DateTime<Utc>, String)>,
    /// How many of them are written for certain.
    certain: usize,
}

#[tokio::test]
async fn ranges_contain_flushed_lines_once_and_in_order_after_any_faults() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let container = account.container("logs");
    container.create().await?;
    let (mut read, mut failed, mut ended) = (0, 0, 0);
    for seed in seeds(60) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let service = format!("s{seed}");
        let period = Duration::from_secs(60 * u64::from(random.pick(&[5_u32, 15, 60])));
        let log = BlobLog::new(container.clone(), &service).max_blob(400).period(period);
        let mut now = begin();
        let mut writers: Vec<Modelled> = Vec::new();
        for step in 0..30 {
            let number = random.below(3) as usize;
            if writers.len() <= number {
                let writer = log.writer()?;
                writers.push(Modelled { writer, lines: Vec::new(), certain: 0 });
            }
            let last = writers.len() - 1;
            let writer = &mut writers[number.min(last)];
            match random.below(10) {
                0..=4 => {
                    now += TimeDelta::seconds(random.within(900).cast_signed());
                    // Clocks of machines differ, and are set back.
                    let time = now - TimeDelta::seconds(random.within(60).cast_signed());
                    let text = format!("{number} {step} {}", "x".repeat(random.below(90) as usize));
                    writer.writer.log_at(time, &text).await?;
                    let before = writer.lines.last().map_or(time, |(time, _)| *time);
                    writer.lines.push((time.max(before), text));
                }
                5 | 6 => {
                    writer.writer.flush().await?;
                    writer.certain = writer.lines.len();
                }
                7 => {
                    let nth = Fault::any().nth(1 + random.within(3));
                    let fault = match random.below(4) {
                        0 => nth.close_after_commit(),
                        1 => nth.close_before_commit(),
                        2 => nth.reject(ErrorCode::INTERNAL_ERROR),
                        _ => nth.times(9).reject(ErrorCode::SERVER_BUSY),
                    };
                    let _fault = server.inject(fault);
                    match writer.writer.close().await {
                        Ok(()) => writer.certain = writer.lines.len(),
                        Err(_) => failed += 1,
                    }
                }
                8 => {
                    // The program ends, in order or abruptly, and another begins.
                    let fresh = log.writer()?;
                    let before = std::mem::replace(&mut writer.writer, fresh);
                    if random.one_in(2) {
                        before.close().await?;
                        writer.certain = writer.lines.len();
                    }
                    // Lines with an unknown outcome count as lost.
                    let lost: Vec<_> = writer.lines.drain(writer.certain..).collect();
                    assert!(before.waiting().lines <= lost.len() as u64);
                    ended += 1;
                    // The new one's times begin where this one's ended; here they must not mix.
                    if let Some((time, _)) = writer.lines.last() {
                        now = now.max(*time + TimeDelta::seconds(60));
                    }
                }
                _ => {
                    let from =
                        begin() + TimeDelta::seconds(random.within(9000).cast_signed() - 900);
                    let range = from..from + TimeDelta::seconds(random.within(7200).cast_signed());
                    read += assert_range(&log, &writers, range).await?;
                }
            }
        }
        let all = begin() - TimeDelta::hours(1)..now + TimeDelta::hours(1);
        read += assert_range(&log, &writers, all).await?;
    }
    eprintln!("{read} lines read, {failed} closes failed, {ended} writers ended");
    assert!(is_brief() || (read > 500 && failed > 5 && ended > 20));
    Ok(())
}

/// Reads a range: what is certain of it is there, in the order of each writer, and nothing twice. Says
/// how many lines were certain.
async fn assert_range(
    log: &BlobLog,
    writers: &[Modelled],
    range: Range<DateTime<Utc>>,
) -> rowkey::Result<usize> {
    let lines: Vec<_> = log.read(range.clone()).try_collect().await?;
    assert!(lines.is_sorted_by_key(|line| line.time), "{lines:?}");
    let mut found = BTreeMap::new();
    for (place, line) in lines.iter().enumerate() {
        assert!(range.contains(&line.time));
        let again = found.insert(&*line.text, (place, line.time));
        assert_eq!(again, None, "{} is there twice", line.text);
    }
    let mut certain = 0;
    for writer in writers {
        let lines = writer.lines[..writer.certain].iter();
        let mut before = None;
        for (time, text) in lines.filter(|(time, _)| range.contains(time)) {
            let Some((place, stored)) = found.get(&**text) else { panic!("{text} is missing") };
            assert_eq!(stored, time, "{text}");
            assert!(before < Some(place), "{text} is before what was logged before it");
            before = Some(place);
            certain += 1;
        }
    }
    Ok(certain)
}
