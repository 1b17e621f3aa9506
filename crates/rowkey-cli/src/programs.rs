//! Other programs that take the place of this one: `rowkey NAME`, where NAME is no command, runs `rowkey-NAME`, as cargo and git do.

use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;

use crate::error::{Error, Exit, Result};

/// The program with this name: beside this one, otherwise in PATH.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let file = format!("{name}{}", env::consts::EXE_SUFFIX);
    let beside = env::current_exe().ok().map(|program| program.with_file_name(&file));
    let folders = env::var_os("PATH").unwrap_or_default();
    // A relative folder in PATH, or an empty one, is what the current folder happens to have.
    let folders = env::split_paths(&folders).filter(|folder| folder.is_absolute());
    let in_path = folders.map(|folder| folder.join(&file));
    beside.into_iter().chain(in_path).find(|path| path.is_file())
}

/// Runs a program with these arguments, and ends with its exit code. Returns only if it cannot be run.
pub(crate) fn run(program: &Path, arguments: &[OsString]) -> Result<Infallible> {
    let error = replace(Command::new(program).args(arguments));
    let program = program.display();
    Err(Error::new(Exit::Failed, format!("{program} cannot be run: {error}; install it again")))
}

/// The program takes the place of this process, so signals and the exit code are its own.
#[cfg(unix)]
fn replace(command: &mut Command) -> io::Error {
    use std::os::unix::process::CommandExt as _;

    command.exec()
}

/// Waits for the program, and ends with its exit code.
#[cfg(not(unix))]
fn replace(command: &mut Command) -> io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}

/// Runs the program that the first word names with the other words. Returns only if it cannot be run.
///
/// `matches` has the flags in front of the name, which the program would not see.
pub(crate) fn run_named(
    words: &[OsString],
    matches: &ArgMatches,
    command: &clap::Command,
) -> Result<Infallible> {
    let (name, arguments) = words
        .split_first()
        .map_or((None, words), |(name, rest)| (name.to_str().filter(|name| is_name(name)), rest));
    let program = name.map(|name| (name, format!("rowkey-{name}")));
    let found = program.as_ref().and_then(|(_, program)| find(program));
    let (Some((name, program)), Some(path)) = (program, found) else {
        return Err(unknown(words, command));
    };
    if let Some(flag) = flag_in_front(matches, command) {
        return Err(Error::usage(format!(
            "--{flag} in front of `{name}` does not reach the program {program}; give it behind the name if the program has \
             it: `rowkey {name} --{flag}`"
        )));
    }
    run(&path, arguments)
}

/// Whether a word can be part of the name of a program: no path, for example.
fn is_name(word: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !word.is_empty() && word.bytes().all(is_plain)
}

/// The first flag that the command line, and not the environment, gives.
fn flag_in_front(matches: &ArgMatches, command: &clap::Command) -> Option<String> {
    let is_given = |flag: &&clap::Arg| {
        let id = flag.get_id().as_str();
        // Flags that end the program, such as `--version`, have no value.
        matches.try_contains_id(id).is_ok()
            && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    command.get_arguments().find(is_given).and_then(clap::Arg::get_long).map(str::to_owned)
}

/// Neither a command nor a program has this name.
fn unknown(words: &[OsString], command: &clap::Command) -> Error {
    let name = words.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let program = format!("rowkey-{name}");
    let error = if is_name(&name) {
        Error::usage(format!(
            "`{name}` is no command of rowkey, and the program {program} is neither beside rowkey nor in PATH"
        ))
    } else {
        Error::usage(format!("`{name}` is neither a command of rowkey nor the name of a program"))
    };
    let error = match (&*name, similar(&name, command)) {
        ("sql", _) => error.and(format!("install it by `cargo install {program}`")),
        (_, Some(similar)) => error.and(format!("perhaps `{similar}` is meant")),
        _ => error,
    };
    error.and("`rowkey --help` lists the commands")
}

/// The command whose name is most like this one.
fn similar(name: &str, command: &clap::Command) -> Option<String> {
    // The same commands without other programs, where a name that is not known is an error with suggestions.
    let alone = clap::Command::new("rowkey").subcommands(command.get_subcommands().cloned());
    let error = alone.try_get_matches_from(["rowkey", name]).err()?;
    match error.get(ContextKind::SuggestedSubcommand)? {
        // The last one is the most similar.
        ContextValue::Strings(names) => names.last().cloned(),
        ContextValue::String(name) => Some(name.clone()),
        _ => None,
    }
}
