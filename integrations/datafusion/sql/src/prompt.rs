//! Lines from a terminal: statements that end with `;`, and commands that begin with a dot.

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use tokio::runtime::Runtime;

use crate::error::{Error, Exit, Result};
use crate::report;
use crate::shell::Shell;
use crate::split;

const HELP: &str = "\
SELECT …;       a statement ends with `;` and may have several lines
.tables         the tables of all accounts
.schema NAME    the columns of a table
.refresh        sample the columns of all tables again
.help           this text
.quit           leave, as Ctrl-D does
Ctrl-C stops a statement, or forgets the lines that are typed.";

const NAMES: &str = "SELECT table_catalog AS account, table_name AS name, table_type AS type FROM information_schema.tables \
                     WHERE table_schema = 'tables' ORDER BY 1, 2";

/// Reads and runs statements until the end of the input.
pub(crate) fn run(runtime: &Runtime, shell: &Arc<Shell>) -> Result<()> {
    let mut editor = DefaultEditor::new().map_err(failed)?;
    let history = history();
    if let Some(path) = &history {
        // The first time there is none.
        let _ = editor.load_history(path);
    }
    let ended = read(runtime, shell, &mut editor);
    if let Some(path) = &history {
        let saved = path.parent().map_or(Ok(()), fs::create_dir_all).map_err(ReadlineError::from);
        if let Err(error) = saved.and_then(|()| editor.save_history(path)) {
            let _ = writeln!(
                io::stderr(),
                "rowkey-sql: the history is not saved in {}: {error}",
                path.display()
            );
        }
    }
    ended
}

fn read(runtime: &Runtime, shell: &Arc<Shell>, editor: &mut DefaultEditor) -> Result<()> {
    let mut typed = String::new();
    loop {
        let prompt = if typed.is_empty() { "sql> " } else { "...> " };
        match editor.readline(prompt) {
            Ok(line) => {
                typed.push_str(&line);
                typed.push('\n');
            }
            Err(ReadlineError::Interrupted) => {
                typed.clear();
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
        let entered = typed.trim();
        if entered.starts_with('.') {
            let command = entered.trim_end_matches(';').to_owned();
            typed.clear();
            let _ = editor.add_history_entry(&command);
            let mut words = command.split_whitespace();
            let done = match (words.next(), words.next()) {
                (Some(".quit" | ".exit"), None) => return Ok(()),
                (Some(".help"), None) => {
                    println(HELP);
                    Ok(())
                }
                (Some(".tables"), None) => statement(runtime, shell, NAMES),
                (Some(".schema"), Some(name)) => {
                    statement(runtime, shell, &format!("DESCRIBE {name}"))
                }
                (Some(".refresh"), None) => {
                    rowkey_datafusion::refresh(&shell.session);
                    Ok(())
                }
                _ => Err(Error::usage(format!("{command} is no command; .help lists them"))),
            };
            show(done);
            continue;
        }
        let (statements, rest) = split::complete(&typed);
        if statements.is_empty() {
            if split::is_empty(rest) {
                typed.clear();
            }
            continue;
        }
        let statements: Vec<_> = statements.into_iter().map(str::to_owned).collect();
        let rest = rest.trim_start().to_owned();
        let _ = editor.add_history_entry(format!("{};", statements.join("; ")));
        for text in &statements {
            let done = statement(runtime, shell, text);
            let is_done = done.is_ok();
            show(done);
            if !is_done {
                break;
            }
        }
        typed = rest;
    }
}

/// Runs one statement, until Ctrl-C.
fn statement(runtime: &Runtime, shell: &Arc<Shell>, text: &str) -> Result<()> {
    until(runtime, shell, text, ctrl_c())
}

/// Waits for Ctrl-C.
pub(crate) async fn ctrl_c() -> Error {
    match tokio::signal::ctrl_c().await {
        Ok(()) => Error::new(Exit::Interrupted, "stopped by Ctrl-C"),
        Err(error) => error.into(),
    }
}

/// Runs one statement, until something stops it.
///
/// In a task of its own: one that computes for long does not keep this one from seeing Ctrl-C, and ends when it next waits.
pub(crate) fn until(
    runtime: &Runtime,
    shell: &Arc<Shell>,
    text: &str,
    stopped: impl Future<Output = Error>,
) -> Result<()> {
    let (shell, text) = (Arc::clone(shell), text.to_owned());
    let mut running = None;
    let done = runtime.block_on(async {
        tokio::select! {
            // First, so that Ctrl-C ends no process before it is waited for.
            biased;
            stopped = stopped => Err(stopped),
            done = async {
                let task = running.insert(runtime.spawn(async move { shell.run(&text).await }));
                task.await
            } => done.unwrap_or_else(|error| Err(Error::new(Exit::Failed, error.to_string()))),
        }
    });
    if let Some(running) = running {
        running.abort();
    }
    done
}

fn show(done: Result<()>) {
    if let Err(error) = done {
        // The prompt goes on.
        let _ = report(&error);
    }
}

fn println(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

fn failed(error: ReadlineError) -> Error {
    Error::new(Exit::Failed, format!("the terminal cannot be read: {error}"))
}

/// The file of the statements that were typed, in the folder for the state of the user's programs. It has the values in statements.
fn history() -> Option<PathBuf> {
    let folder = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = if cfg!(windows) {
        folder("LOCALAPPDATA")
    } else {
        folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))
    };
    Some(state?.join("rowkey").join("sql_history"))
}
