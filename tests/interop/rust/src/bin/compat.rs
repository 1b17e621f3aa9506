//! The rowkey side of the suites of Python and JavaScript: `compat write PROFILE TABLE` creates a table with rows of a
//! profile, `compat check PROFILE TABLE` demands that they are as the other library has updated them.

use rowkey::{StorageAccount, Table};
use rowkey_interop::profiles::{
    DotNetRow, JavaScriptRow, Profile, PythonRow, RustRow, check_updated, write,
};
use rowkey_interop::{Result, connection_string};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [command, profile, table] = &arguments[..] else {
        return Err("usage: compat write|check PROFILE TABLE".into());
    };
    let table = StorageAccount::from_connection_string(&connection_string()?)?.table(table);
    match profile.as_str() {
        "azure_data_tables-0.21" => run::<RustRow>(command, &table).await,
        "python" => run::<PythonRow>(command, &table).await,
        "javascript" => run::<JavaScriptRow>(command, &table).await,
        "dotnet" => run::<DotNetRow>(command, &table).await,
        other => Err(format!("no profile is called {other}").into()),
    }
}

async fn run<P: Profile>(command: &str, table: &Table) -> Result {
    match command {
        "write" => write::<P>(table).await,
        "check" => check_updated::<P>(table).await,
        other => Err(format!("no command is called {other}").into()),
    }
}
