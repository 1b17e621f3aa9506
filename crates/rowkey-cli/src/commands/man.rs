//! `rowkey completions` and `rowkey man`: what shells and `man` read.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;
use clap_mangen::Man as Page;

use crate::error::{Error, Exit, Result};
use crate::output;

const COMPLETIONS: &str = "\
Examples:
  rowkey completions bash > ~/.local/share/bash-completion/completions/rowkey
  rowkey completions zsh > ~/.zfunc/_rowkey";

const MAN: &str = "\
Examples:
  rowkey man | man -l -
  rowkey man --folder ~/.local/share/man/man1";

/// Write the completions for a shell to stdout.
#[derive(Args)]
#[command(before_help = COMPLETIONS)]
pub(crate) struct Completions {
    /// The shell.
    shell: Shell,
}

/// Write the manual page to stdout, or the pages of all commands to a folder.
#[derive(Args)]
#[command(before_help = MAN)]
pub(crate) struct Man {
    /// Write a page for each command to this folder, which must exist.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

pub(crate) fn completions(args: &Completions, mut command: clap::Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "rowkey", &mut script);
    output::text(&script)
}

pub(crate) fn man(args: &Man, command: clap::Command) -> Result<()> {
    match &args.folder {
        None => {
            let mut page = Vec::new();
            Page::new(command).render(&mut page)?;
            output::text(&page)
        }
        Some(folder) => clap_mangen::generate_to(command, folder).map_err(|error| {
            let text = format!("{} cannot be written: {error}", folder.display());
            Error::new(Exit::Failed, text)
        }),
    }
}
