//! The command `rowkey`: looks at and changes Azure Table storage from a terminal or a script.
//!
//! The program calls [`run`]. [`command`] describes all commands and flags, for tools that make pages or completions.
//!
//! - `error`: what failed, and the exit code · `args`: the flags that all commands share
//! - `accounts`: by a connection string or a token · `profiles`: connections by name · `connect`: which account a command uses
//! - `entities`: entities from the command line, a file or stdin · `output`: tables, JSON lines and CSV
//! - `selection`: which entities a command reads · `rejects`: those that cannot be written
//! - `duration`: times of flags · `prices`: what requests cost · `secret`: secrets from stdin or the environment
//! - `programs`: other programs, which take the place of this one
//! - `jobs`: what all commands that run a job share · `confirm`: questions before what cannot be undone · `commands`: a file for each command

mod accounts;
mod args;
mod commands;
mod confirm;
mod connect;
mod duration;
mod entities;
mod error;
mod jobs;
mod output;
mod prices;
mod profiles;
mod programs;
mod rejects;
mod secret;
mod selection;

use std::env;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use commands::Cli;
use error::{Error, Exit};

/// Runs the command that the arguments of this process name, and returns its exit code.
pub fn run() -> ExitCode {
    let matches = command().try_get_matches();
    let parsed = matches.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    match parsed {
        Ok((cli, matches)) => {
            let is_json = cli.common.json;
            let done = cli.run_program(&matches, command).and_then(|()| execute(cli));
            done.map_or_else(|error| report(&error, is_json), |()| ExitCode::SUCCESS)
        }
        // The arguments are wrong, so which flags there are is not known.
        Err(error) if error.use_stderr() && env::args_os().any(|argument| argument == "--json") => {
            report(&Error::usage(error.to_string().trim_end()), true)
        }
        // Ends the process for `--help` (0) and for wrong usage (2).
        Err(error) => error.exit(),
    }
}

/// Writes an error, and returns its exit code.
fn report(error: &Error, is_json: bool) -> ExitCode {
    let text = if is_json { error.json() } else { format!("rowkey: {error}") };
    // No error if the reader of the output has closed it, as `head` does.
    if error.exit() != Exit::Ok {
        let _ = writeln!(io::stderr(), "{text}");
    }
    error.exit().into()
}

/// Describes the command line: commands, flags and help.
pub fn command() -> clap::Command {
    Cli::command()
}

/// All requests of a command run on this thread.
fn execute(cli: Cli) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(commands::run(cli, command))
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

    #[test]
    fn every_command_and_flag_is_on_the_page_of_the_book() {
        fn check(path: &str, command: &clap::Command, page: &str) {
            for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
                assert!(flag == "help" || page.contains(&format!("--{flag}")), "{path} --{flag}");
            }
            for inner in command.get_subcommands() {
                let name = inner.get_name();
                let is_shown = page.contains(&format!("rowkey {name}"))
                    || page.contains(&format!("`{name} "))
                    || page.contains(&format!("{path} {name}"));
                assert!(is_shown, "{path} {name}");
                check(&format!("{path} {name}"), inner, page);
            }
        }
        // Only the repository has the page; a package has not.
        let package = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let page = package.ancestors().nth(2).map(|root| root.join("docs/src/cli/commands.md"));
        if let Some(page) = page.and_then(|page| std::fs::read_to_string(page).ok()) {
            check("rowkey", &super::command(), &page);
        }
    }
}
