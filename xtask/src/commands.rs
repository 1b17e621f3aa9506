//! Commands and flags of `rowkey` that no page of the book shows.
//!
//! They are found in the text of its definitions, which takes no build: a field behind `#[arg(.., long, ..)]` is a flag, and a variant
//! of an enum with `#[derive(Subcommand)]` a command. That the text is all there is, a test of the command checks against clap.

use std::fs;
use std::path::Path;

use crate::structure::{collect, root};

/// Adds the commands and flags that are on no page.
pub(crate) fn check(faults: &mut Vec<String>) {
    let mut sources = Vec::new();
    collect(&root().join("crates/rowkey-cli/src"), "rs", &mut sources);
    let mut pages = Vec::new();
    collect(&root().join("docs/src/cli"), "md", &mut pages);
    let book: String = pages.iter().filter_map(|page| fs::read_to_string(page).ok()).collect();
    let (mut flags, mut commands) = (0, 0);
    for source in &sources {
        let text = fs::read_to_string(source).unwrap_or_default();
        for flag in flags_of(&text) {
            flags += 1;
            if !shows_flag(&book, &flag) {
                faults.push(format!("no page of docs/src/cli shows --{flag} of `rowkey`"));
            }
        }
        let parent = parent(source);
        for command in commands_of(&text) {
            commands += 1;
            let shown =
                [format!("{parent} {command}"), format!("`{command} "), format!("`{command}`")];
            if !shown.iter().any(|shown| book.contains(shown)) {
                faults.push(format!("no page of docs/src/cli shows `{parent} {command}`"));
            }
        }
    }
    // Otherwise a change of how they are written would end this check.
    if flags < 50 || commands < 30 {
        faults.push(format!(
            "xtask finds {flags} flags and {commands} commands of `rowkey`, of which there are more"
        ));
    }
}

/// The command whose subcommands a file defines.
fn parent(source: &Path) -> String {
    let stem = source.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let folder = source.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    match (stem, folder.unwrap_or_default()) {
        ("mod", "commands") => "rowkey".to_owned(),
        ("mod", folder) => format!("rowkey {folder}"),
        (stem, _) => format!("rowkey {}", stem.replace('_', "-")),
    }
}

/// The flags that a file defines.
fn flags_of(text: &str) -> Vec<String> {
    let mut flags = Vec::new();
    for (at, _) in text.match_indices("#[arg(") {
        let rest = &text[at + "#[arg(".len()..];
        let Some((attribute, behind)) = rest.split_once(")]") else { continue };
        let mut parts = attribute.split([',', '\n']).map(str::trim);
        let Some(long) = parts.find(|part| *part == "long" || part.starts_with("long = ")) else {
            continue;
        };
        let named = long.split('"').nth(1).map(str::to_owned);
        let field = behind
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty() && !line.starts_with("#[") && !line.starts_with("///"));
        let field = field.and_then(|field| field.split_once(':')).map(|(name, _)| name);
        let field = field.and_then(|name| name.rsplit(' ').next());
        flags.extend(named.or_else(|| field.map(|name| name.replace('_', "-"))));
    }
    flags
}

/// The commands that a file defines.
fn commands_of(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for (at, _) in text.match_indices("#[derive(Subcommand)]") {
        let body = text[at..].split_once('{').and_then(|(_, rest)| rest.split_once("\n}"));
        let mut is_external = false;
        for line in body.map(|(body, _)| body).unwrap_or_default().lines() {
            // The variant behind it is no command: it takes the names that are none.
            is_external |= line.contains("external_subcommand");
            let name = line.trim().split(['(', ',', ' ']).next().unwrap_or_default();
            if name.starts_with(char::is_uppercase) && !std::mem::take(&mut is_external) {
                commands.push(kebab(name));
            }
        }
    }
    commands
}

/// `DeadLetters` as `dead-letters`.
fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    for (at, character) in name.char_indices() {
        if character.is_uppercase() && at > 0 {
            kebab.push('-');
        }
        kebab.extend(character.to_lowercase());
    }
    kebab
}

/// Whether a text has a flag, and not only a longer one.
fn shows_flag(text: &str, flag: &str) -> bool {
    let flag = format!("--{flag}");
    text.match_indices(&flag).any(|(at, _)| {
        let next = text[at + flag.len()..].chars().next();
        next.is_none_or(|next| !next.is_alphanumeric() && next != '-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_commands_are_found_as_they_are_written() {
        let text = r#"
#[derive(Subcommand)]
enum Command {
    /// Adds.
    Add(Add),
    #[command(external_subcommand)]
    External(Vec<OsString>),
    DeadLetters(Letters),
}
struct Add {
    /// The name.
    #[arg(value_name = "NAME")]
    name: String,
    #[arg(long, value_name = "FILE")]
    pub(crate) profiles: Option<PathBuf>,
    #[arg(
        id = "to_profile",
        long = "to-profile",
    )]
    #[allow(x)]
    profile: Option<String>,
    #[arg(short, long, requires = "long")]
    if_missing: bool,
}"#;
        assert_eq!(flags_of(text), ["profiles", "to-profile", "if-missing"]);
        assert_eq!(commands_of(text), ["add", "dead-letters"]);
        assert!(shows_flag("`--all TABLES`", "all") && !shows_flag("--allow-http", "all"));
        assert_eq!(parent(Path::new("src/commands/sas/mod.rs")), "rowkey sas");
        assert_eq!(parent(Path::new("src/commands/mod.rs")), "rowkey");
        assert_eq!(parent(Path::new("src/commands/dead_letters.rs")), "rowkey dead-letters");
    }
}
