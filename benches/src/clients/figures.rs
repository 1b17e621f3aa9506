//! The measurements of the clients, and their table.

use serde::{Deserialize, Serialize};

use crate::report::{Goal, Rounds, Table, figure, judged};

/// All that is measured of clients.
#[derive(Debug, Deserialize, Serialize)]
pub struct Clients {
    pub workloads: Vec<Row>,
}

/// One workload.
#[derive(Debug, Deserialize, Serialize)]
pub struct Row {
    pub name: String,
    /// Of rowkey to hyper-util by hand, at most.
    pub goal: f64,
    /// Of rowkey, at most.
    pub allocations: f64,
    /// Those that are installed.
    pub clients: Vec<Client>,
}

/// A client under a workload.
#[derive(Debug, Deserialize, Serialize)]
pub struct Client {
    pub name: String,
    /// CPU time of the client in microseconds an operation.
    pub cpu: Rounds,
    /// Allocations an operation, of those that were counted.
    pub allocations: Rounds,
}

impl Client {
    /// Its name, for people.
    pub fn shown(&self) -> &str {
        match &*self.name {
            "reqwest" => "reqwest by hand",
            "hyper-util" => "hyper-util by hand",
            "azure_data_tables-pooled" => "the same, pooled",
            "js" => "JavaScript",
            "python" => "Python",
            name => name,
        }
    }
}

impl Row {
    /// The cost of a client; no round of one that is not there.
    pub fn cpu(&self, name: &str) -> Rounds {
        self.of(name, |client| &client.cpu)
    }

    fn of(&self, name: &str, what: fn(&Client) -> &Rounds) -> Rounds {
        let client = self.clients.iter().find(|client| client.name == name);
        client.map(what).cloned().unwrap_or_default()
    }
}

impl Clients {
    pub fn tables(&self) -> String {
        let mut head = vec!["CPU us/op, 16 in flight"];
        let first = self.workloads.first().map_or(&[][..], |row| &row.clients);
        head.extend(first.iter().map(Client::shown));
        let mut cpu = Table::new(&head);
        let mut ratios = Table::new(&[
            "ratios",
            "rowkey / reqwest",
            "rowkey / hyper-util",
            "azure_data_tables / rowkey",
            "JavaScript / rowkey",
            "Python / rowkey",
            "allocations: rowkey",
            "reqwest",
            "azure_data_tables",
        ]);
        for row in &self.workloads {
            let mut cells = vec![row.name.clone()];
            cells.extend(row.clients.iter().map(|client| figure(client.cpu.median())));
            cpu.row(cells);
            let rowkey = row.cpu("rowkey");
            let allocations = |name| row.of(name, |client| &client.allocations);
            let ratio = |other: &str| judged(&row.cpu(other).over(&rowkey), Goal::None);
            ratios.row(vec![
                row.name.clone(),
                judged(&rowkey.over(&row.cpu("reqwest")), Goal::None),
                judged(&rowkey.over(&row.cpu("hyper-util")), Goal::AtMost(row.goal)),
                ratio("azure_data_tables"),
                ratio("js"),
                ratio("python"),
                judged(&allocations("rowkey"), Goal::AtMost(row.allocations)),
                figure(allocations("reqwest").median()),
                figure(allocations("azure_data_tables").median()),
            ]);
        }
        format!("{}\n{}", cpu.render(), ratios.render())
    }
}
