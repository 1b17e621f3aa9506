//! What patterns cost by the number of their elements: the requests of a piece of work, and its CPU time.

#![expect(clippy::cast_precision_loss, reason = "some thousands")]

use serde::{Deserialize, Serialize};

use crate::clients::run::Result;
use crate::process::cpu;
use crate::report::{Goal, Rounds, Table, figure, judged};
use crate::workloads::{SUBJECTS, exponent};

/// The measurements.
#[derive(Debug, Deserialize, Serialize)]
pub struct Patterns {
    pub subjects: Vec<Row>,
}

/// One piece of work.
#[derive(Debug, Deserialize, Serialize)]
pub struct Row {
    pub name: String,
    /// The most that the exponent of CPU time may be.
    pub goal: f64,
    pub sizes: Vec<Measured>,
}

/// One piece of work at one size.
#[derive(Debug, Deserialize, Serialize)]
pub struct Measured {
    pub elements: usize,
    /// All requests, the same in each round.
    pub requests: u64,
    /// CPU time of client and server in microseconds, of all elements.
    pub cpu: Rounds,
}

/// The exponent of requests in the number of elements: 1 is linear.
const REQUESTS: f64 = 1.0;

/// Measures for `rounds` rounds.
pub async fn compare(rounds: usize) -> Result<Patterns> {
    let mut subjects: Vec<_> = SUBJECTS
        .iter()
        .map(|subject| Row {
            name: subject.name.to_owned(),
            goal: subject.exponent,
            sizes: subject.sizes.iter().map(|&elements| Measured::none(elements)).collect(),
        })
        .collect();
    // The first round is a warm-up, of the small sizes alone.
    for round in 0..=rounds {
        for (subject, row) in SUBJECTS.iter().zip(&mut subjects) {
            eprintln!("patterns: round {round}: {}", subject.name);
            for measured in &mut row.sizes {
                if round == 0 && measured.elements > 1_000 {
                    continue;
                }
                let cost = subject.measure(measured.elements, || cpu("self").unwrap_or_default());
                let cost = cost.await.map_err(|error| format!("{}: {error}", subject.name))?;
                if round == 0 {
                    continue;
                }
                if measured.requests != cost.requests && round > 1 {
                    let (before, now) = (measured.requests, cost.requests);
                    return Err(format!("{}: {before} requests, then {now}", row.name).into());
                }
                measured.requests = cost.requests;
                measured.cpu.push(cost.cpu.as_secs_f64() * 1e6);
            }
        }
    }
    Ok(Patterns { subjects })
}

impl Measured {
    fn none(elements: usize) -> Self {
        Self { elements, requests: 0, cpu: Rounds::default() }
    }
}

impl Row {
    /// `value` of each size.
    fn points(&self, value: impl Fn(&Measured) -> f64) -> Vec<(f64, f64)> {
        let point = |measured: &Measured| (float(measured.elements), value(measured));
        self.sizes.iter().map(point).collect()
    }

    /// The exponent of the requests.
    pub fn requests(&self) -> f64 {
        exponent(&self.points(|measured| measured.requests as f64))
    }

    /// The exponent of the CPU time, of the medians.
    pub fn cpu(&self) -> f64 {
        exponent(&self.points(|measured| measured.cpu.median()))
    }

    /// CPU microseconds of an element, by size.
    pub fn cpu_of_an_element(&self) -> Vec<f64> {
        self.sizes.iter().map(|it| it.cpu.median() / float(it.elements)).collect()
    }
}

impl Patterns {
    pub fn tables(&self) -> String {
        let table = |figure| {
            Table::new(&[figure, "n", "small", "medium", "large", "large / medium", "exponent"])
        };
        let (mut requests, mut time) = (table("requests"), table("CPU us/element"));
        for row in &self.subjects {
            let sizes: Vec<_> = row.sizes.iter().map(|it| it.elements.to_string()).collect();
            let of = |counts: Vec<String>, ratio: String, exponent: String| {
                let mut cells = vec![row.name.clone(), sizes.join(", ")];
                cells.extend(counts);
                cells.extend([ratio, exponent]);
                cells
            };
            let [.., medium, large] = &row.sizes[..] else { continue };
            let exact = row.sizes.iter().map(|it| it.requests.to_string()).collect();
            let ratio = large.requests as f64 / medium.requests as f64;
            let judge =
                |value: f64, most: f64| judged(&Rounds::once(value.max(0.001)), Goal::AtMost(most));
            requests.row(of(exact, figure(ratio), judge(hundredths(row.requests()), REQUESTS)));
            let cpu = row.cpu_of_an_element().into_iter().map(figure).collect();
            let ratio = judged(&large.cpu.over(&medium.cpu), Goal::None);
            time.row(of(cpu, ratio, judge(hundredths(row.cpu()), row.goal)));
        }
        format!("{}\n{}", requests.render(), time.render())
    }
}

/// Rounded, so that 1.0000001 is linear.
fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn float(number: usize) -> f64 {
    number as f64
}
