//! Charts for the book, drawn by hand: what they show is little, and a library for plots would be most
//! of the build.
//!
//! - [`svg`]: shapes and text
//! - [`bars`]: ratios on a logarithmic axis
//! - [`lines`]: cost by size
//! - this module: the four charts

#![expect(clippy::cast_precision_loss, reason = "what is drawn is less precise anyway")]

mod bars;
mod lines;
mod svg;

use crate::clients::figures::Clients;
use crate::growth::{BYTES, Growth, SIZES};
use crate::patterns::Patterns;
use crate::process::Kind;
use crate::report::{Goal, Rounds, figure};
use crate::servers::Servers;

use bars::{Bar, Bars, Group};
use lines::{Lines, Panel, Series};
use svg::Tone;

/// CPU time of ours and of Azurite, over that of bare hyper.
pub fn servers(servers: &Servers) -> String {
    let groups = servers.workloads.iter().map(|row| {
        let bare = &row.of(Kind::Bare).cpu;
        let bar = |name: &str, tone, kind| Bar::new(name, tone, &row.of(kind).cpu, bare);
        let goal = match row.goals[0] {
            Goal::AtMost(most) => Some(most),
            Goal::AtLeast(_) | Goal::None => None,
        };
        Group {
            name: row.name.clone(),
            bars: vec![
                bar("rowkey-server", Tone::Ours, Kind::Rowkey),
                bar("Azurite", Tone::Theirs, Kind::Azurite),
            ],
            goal,
        }
    });
    Bars {
        title: "Servers: CPU time per operation, as multiples of bare hyper",
        note: "1× is hyper on one thread without authentication and checks. \
               Red mark: what rowkey-server may cost at most. Shorter is better.",
        groups: groups.collect(),
    }
    .draw()
}

/// CPU time of clients, over that of reqwest by hand.
pub fn clients(clients: &Clients) -> String {
    let groups = clients.workloads.iter().map(|row| {
        let by_hand = row.cpu("reqwest");
        let bars = row.clients.iter().map(|client| {
            let tone = match &*client.name {
                "rowkey" => Tone::Ours,
                "reqwest" | "hyper-util" => Tone::Floor,
                _ => Tone::Theirs,
            };
            Bar::new(client.shown(), tone, &client.cpu, &by_hand)
        });
        Group { name: row.name.clone(), bars: bars.collect(), goal: Some(row.goal) }
    });
    Bars {
        title: "Clients: CPU time per operation, as multiples of a hand-written loop over reqwest",
        note: "16 operations in flight against bare hyper. \
               Red mark: what rowkey may cost at most. Shorter is better.",
        groups: groups.collect(),
    }
    .draw()
}

/// Cost and memory from 10,000 to a million entities.
pub fn growth(growth: &Growth) -> String {
    let series = |values: [Vec<f64>; 2]| {
        let [bare, rowkey] = values;
        vec![
            Series { name: "bare hyper", tone: Tone::Floor, values: bare },
            Series { name: "rowkey-server", tone: Tone::Ours, values: rowkey },
        ]
    };
    let mut panels: Vec<_> = growth
        .workloads
        .iter()
        .map(|row| {
            let values = [0, 1]
                .map(|at| row.cpu.iter().map(|each: &[Rounds; 2]| each[at].median()).collect());
            let goal = row.cpu.first().map(|each| each[1].median() * row.goal);
            let name = format!("{}: CPU microseconds per operation", row.name);
            Panel { name, series: series(values), goal }
        })
        .collect();
    let bytes =
        [0, 1].map(|at| growth.bytes_per_entity.iter().map(|each| each[at]).collect::<Vec<_>>());
    panels.push(Panel {
        name: "memory: bytes per entity".to_owned(),
        series: series(bytes),
        goal: Some(BYTES),
    });
    Lines {
        title: "From 10,000 to 1,000,000 entities",
        note: "Dashed: what rowkey-server may cost at 1,000,000 at most. Lower is better.",
        at: &SIZES,
        panels,
    }
    .draw()
}

/// CPU time of an element of patterns, by the number of elements.
pub fn patterns(patterns: &Patterns) -> String {
    let sizes = |row: &crate::patterns::Row| -> Vec<usize> {
        row.sizes.iter().map(|measured| measured.elements).collect()
    };
    let at = patterns.subjects.first().map(sizes).unwrap_or_default();
    // Rows of one entity are at most 98, so they have an axis of their own: the table has them.
    let rows = patterns.subjects.iter().filter(|row| sizes(row) == at);
    let panels = rows.map(|row| Panel {
        name: row.name.clone(),
        series: vec![Series {
            name: "client and server",
            tone: Tone::Ours,
            values: row.cpu_of_an_element(),
        }],
        goal: None,
    });
    Lines {
        title: "Patterns: CPU microseconds per element, by the number of elements",
        note: "A line that does not rise is linear growth. Client and server in one process.",
        at: &at,
        panels: panels.collect(),
    }
    .draw()
}

/// A ratio as a label.
fn times(ratio: f64) -> String {
    format!("{}×", figure(ratio))
}
