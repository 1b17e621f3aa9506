//! What was measured of the servers, and the tables of it.

use serde::{Deserialize, Serialize};

use crate::process::{KINDS, Kind};
use crate::report::{Goal, Rounds, Table, figure, judged};

/// Of everything, one a server, in the order of [`KINDS`]; without a round of one that is not
/// installed.
type Each<T> = [T; KINDS.len()];

/// All that is measured of servers.
#[derive(Debug, Deserialize, Serialize)]
pub struct Servers {
    pub workloads: Vec<Row>,
    pub starts: Each<Start>,
    /// The most memory in use, in MiB, over all workloads.
    pub peak_mib: Each<f64>,
}

/// One workload.
#[derive(Debug, Deserialize, Serialize)]
pub struct Row {
    pub name: String,
    pub connections: usize,
    pub goals: [Goal; 2],
    pub tail: Goal,
    pub measured: Each<Measured>,
}

/// A server under a workload.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Measured {
    /// CPU time of the server in microseconds an operation.
    pub cpu: Rounds,
    /// Microseconds from request to answer.
    pub p50: Rounds,
    pub p99: Rounds,
    /// The most memory in use while it lasted, in MiB, with all that was stored before.
    pub peak_mib: f64,
}

/// A server that starts.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Start {
    pub milliseconds: Rounds,
    pub idle_mib: Rounds,
}

/// What ours may take when idle, in MiB.
const IDLE: f64 = 8.0;
/// How many times as long as the bare server's its start may take.
const START: f64 = 3.0;

impl Servers {
    pub fn tables(&self) -> String {
        [self.cpu(), self.latency(), self.processes()].map(|table| table.render()).join("\n")
    }

    fn cpu(&self) -> Table {
        let mut table = Table::new(&[
            "CPU us/op (connections)",
            "bare",
            "rowkey",
            "Azurite",
            "rowkey / bare",
            "Azurite / rowkey",
            "Azurite / bare",
        ]);
        for row in &self.workloads {
            let [bare, rowkey, azurite] = row.each(|measured| &measured.cpu);
            table.row(vec![
                format!("{} ({})", row.name, row.connections),
                figure(bare.median()),
                figure(rowkey.median()),
                figure(azurite.median()),
                judged(&rowkey.over(bare), row.goals[0]),
                judged(&azurite.over(rowkey), row.goals[1]),
                figure(azurite.over(bare).median()),
            ]);
        }
        table
    }

    fn latency(&self) -> Table {
        let mut table = Table::new(&[
            "latency us, memory MiB",
            "p50: bare",
            "rowkey",
            "Azurite",
            "p99: bare",
            "rowkey",
            "Azurite",
            "p99: rowkey / bare",
            "Azurite / rowkey",
            "peak: bare",
            "rowkey",
            "Azurite",
        ]);
        for row in &self.workloads {
            let [bare, rowkey, azurite] = row.each(|measured| &measured.p99);
            let peak = |kind| {
                let Measured { cpu, peak_mib, .. } = row.of(kind);
                figure(if cpu.is_empty() { f64::NAN } else { *peak_mib })
            };
            let mut cells = vec![row.name.clone()];
            cells.extend(row.each(|measured| &measured.p50).map(|p50| figure(p50.median())));
            cells.extend([bare, rowkey, azurite].map(|p99| figure(p99.median())));
            cells.push(judged(&rowkey.over(bare), row.tail));
            cells.push(figure(azurite.over(rowkey).median()));
            cells.extend(KINDS.map(peak));
            table.row(cells);
        }
        table
    }

    fn processes(&self) -> Table {
        let mut table = Table::new(&[
            "process",
            "bare",
            "rowkey",
            "Azurite",
            "rowkey / bare",
            "Azurite / rowkey",
            "goal",
        ]);
        let mut row = |name: &str, [bare, rowkey, azurite]: Each<&Rounds>, goal: String| {
            table.row(vec![
                name.to_owned(),
                figure(bare.median()),
                figure(rowkey.median()),
                figure(azurite.median()),
                judged(&rowkey.over(bare), Goal::None),
                judged(&azurite.over(rowkey), Goal::None),
                goal,
            ]);
        };
        let [bare, rowkey, azurite] = &self.starts;
        row(
            "ms from start to first answer",
            [&bare.milliseconds, &rowkey.milliseconds, &azurite.milliseconds],
            Goal::AtMost(START).verdict(rowkey.milliseconds.over(&bare.milliseconds).median()),
        );
        row(
            "MiB, idle",
            [&bare.idle_mib, &rowkey.idle_mib, &azurite.idle_mib],
            format!("rowkey {}", Goal::AtMost(IDLE).verdict(rowkey.idle_mib.median())),
        );
        let peaks = self.peak_mib.map(Rounds::once);
        let [bare, rowkey, azurite] = &peaks;
        row("MiB, peak of all workloads", [bare, rowkey, azurite], String::new());
        table
    }
}

impl Row {
    pub fn of(&self, kind: Kind) -> &Measured {
        &self.measured[kind as usize]
    }

    pub fn each(&self, what: fn(&Measured) -> &Rounds) -> Each<&Rounds> {
        self.measured.each_ref().map(what)
    }
}
