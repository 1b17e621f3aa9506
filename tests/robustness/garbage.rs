//! Inputs for decoders: valid and damaged.

use std::panic;

use serde_json::Value;

use crate::corpus;
use crate::mutate::{self, Random};
use crate::{seed, setting};

/// Gives `decode` every seed whole, and then damaged ones. It must return from each; what it
/// returns is whether it understood. Fails when it understands none of the damaged ones, or all:
/// then they test nothing.
pub(crate) fn feed(seeds: &[&[u8]], mut decode: impl FnMut(&[u8]) -> bool) {
    for seed in seeds {
        assert!(decode(seed), "not understood: {}", seed.escape_ascii());
    }
    let times = setting("ROWKEY_GARBAGE", 500);
    let run = seed();
    let mut random = Random(run);
    let (mut understood, mut refused) = (0_u64, 0_u64);
    for _ in 0..times {
        for seed in seeds {
            let mut input = seed.to_vec();
            for _ in 0..=random.below(4) {
                mutate::bytes(&mut random, &mut input, seeds);
            }
            let result = panic::catch_unwind(panic::AssertUnwindSafe(|| decode(&input)));
            let Ok(is_understood) = result else {
                let input = input.escape_ascii();
                panic!("panicked with ROWKEY_SEED={run} at: {input}");
            };
            if is_understood {
                understood += 1;
            } else {
                refused += 1;
            }
        }
    }
    assert!(
        understood > 0 && refused > 0,
        "{understood} understood, {refused} refused, with ROWKEY_SEED={run}"
    );
}

/// The same for decoders that take text.
pub(crate) fn feed_text(seeds: &[&str], mut decode: impl FnMut(&str) -> bool) {
    let seeds: Vec<&[u8]> = seeds.iter().map(|seed| seed.as_bytes()).collect();
    feed(&seeds, |input| decode(&String::from_utf8_lossy(input)));
}

/// The bodies of recorded answers that hold `what`, with their content types.
pub(crate) fn answers(what: &str) -> Vec<(String, String)> {
    let lines = include_str!("corpus/answers.jsonl").lines();
    let answers = lines.map(|line| {
        let answer: Value = serde_json::from_str(line).expect("a line is JSON");
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        (text("body"), text("content_type"))
    });
    answers.filter(|(body, _)| body.contains(what)).collect()
}

/// The bodies of recorded requests that hold `what`.
pub(crate) fn bodies(what: &str) -> Vec<Vec<u8>> {
    let requests = corpus::own().into_iter();
    let bodies = requests.map(|request| request.body);
    bodies.filter(|body| String::from_utf8_lossy(body).contains(what)).collect()
}
