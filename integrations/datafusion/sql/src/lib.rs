//! The program `rowkey-sql`: SQL over Azure tables, as a prompt, from scripts, and on a cluster.
//!
//! The program calls [`run`]. [`command`] describes all flags, for tools that make pages or completions.
//!
//! - `args`: the flags · `error`: what failed, and the exit code · `connect`: which accounts there are, and the session over them
//! - `split`: a script's statements · `shell`: runs a statement · `explain`: what a query requests · `output`: rows in their forms
//! - `prompt`: lines from a terminal · `cluster`: plans that a cluster runs

mod args;
mod cluster;
mod connect;
mod error;
mod explain;
mod output;
mod prompt;
mod shell;
mod split;

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use clap::{CommandFactory as _, Parser as _};

use args::{Cli, Process};
use error::{Error, Exit, Result};
use shell::Shell;

/// Runs what the arguments of this process say, and returns its exit code.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Ends the process for `--help` (0) and for wrong usage (2).
        Err(error) => error.exit(),
    };
    let done = thread::Builder::new().stack_size(STACK).spawn(|| execute(cli));
    let done = done.map_err(Error::from).and_then(|running| match running.join() {
        Ok(done) => done,
        Err(panic) => resume_unwind(panic),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

/// Bytes of the stack of a thread that plans, of which only what is used takes memory: the engine descends into long conditions.
const STACK: usize = 256 << 20;
/// Bytes of the stacks of the others.
const WORKER_STACK: usize = 32 << 20;

/// Describes the command line: flags and help.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Writes an error, and returns its exit code.
fn report(error: &Error) -> ExitCode {
    // No error if the reader of the output has closed it, as `head` does.
    if error.exit() != Exit::Ok {
        let _ = writeln!(io::stderr(), "rowkey-sql: {error}");
    }
    error.exit().into()
}

fn execute(mut cli: Cli) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(WORKER_STACK)
        .build()?;
    match cli.process.take() {
        Some(Process::Scheduler(scheduler)) => return runtime.block_on(scheduler.run()),
        Some(Process::Executor(executor)) => return runtime.block_on(executor.run()),
        None => {}
    }
    let is_prompt = cli.query.is_empty() && cli.file.is_none() && io::stdin().is_terminal();
    if is_prompt {
        let shell = Arc::new(Shell::new(&cli)?);
        return prompt::run(&runtime, &shell);
    }
    let mut statements = Vec::new();
    for text in scripts(&cli)? {
        statements.extend(split::all(&text));
    }
    let shell = Arc::new(Shell::new(&cli)?);
    shell.check(&statements)?;
    for (at, statement) in statements.iter().enumerate() {
        // Until a signal, which would end the process, and leave what runs on the cluster and files that are not complete.
        let done = prompt::until(&runtime, &shell, statement, cluster::stopped());
        let left = statements.len() - at - 1;
        done.map_err(|error| error.with_left(left))?;
    }
    Ok(())
}

/// The texts to run: those of `-c`, or a file, or stdin.
fn scripts(cli: &Cli) -> Result<Vec<String>> {
    if !cli.query.is_empty() {
        return Ok(cli.query.clone());
    }
    let mut text = String::new();
    match &cli.file {
        Some(path) if path.as_os_str() != "-" => {
            let shown = path.display();
            text = std::fs::read_to_string(path).map_err(|error| {
                Error::usage(format!("the script {shown} cannot be read: {error}"))
            })?;
        }
        _ => {
            io::stdin().lock().read_to_string(&mut text)?;
        }
    }
    // As editors for Windows write it before the text.
    Ok(vec![text.trim_start_matches('\u{feff}').to_owned()])
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definitions_of_flags_do_not_contradict_each_other() {
        super::command().debug_assert();
    }

    #[test]
    fn the_help_of_each_command_begins_with_examples() {
        fn check(command: &clap::Command) {
            let mut command = command.clone();
            let help = command.render_long_help().to_string();
            assert!(help.starts_with("Examples:\n  "), "{}: {help}", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&super::command());
    }
}
