//! The address of the repository is in one place, `repository` of a workspace's manifest, so that it can change.
//! Pages link by relative paths, which registries resolve by that field. Other code reads the address there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::structure::root;

/// The manifests of workspaces whose packages are published.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "integrations/datafusion/Cargo.toml"];

/// Adds each file that has the address, or an address of the same owner.
pub(crate) fn check(faults: &mut Vec<String>) {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap_or_default();
    let Some(owner) = owner(&manifest) else {
        faults.push("Cargo.toml has no `repository`".to_owned());
        return;
    };
    let mut files = Vec::new();
    collect(&root(), &mut files);
    for path in files {
        // Files that are no text have no address.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let shown = path.strip_prefix(root()).unwrap_or(&path);
        let is_manifest = MANIFESTS.iter().any(|manifest| shown == Path::new(manifest));
        for number in found(&text, &owner).skip(usize::from(is_manifest)) {
            faults.push(format!(
                "{}:{number} has the address of the repository: link by a relative path, or read the address from \
                 `repository` in Cargo.toml",
                shown.display()
            ));
        }
    }
}

/// The owner of the repository: the last part of its address but one.
fn owner(manifest: &str) -> Option<String> {
    let line = manifest.lines().find_map(|line| line.strip_prefix("repository = \""))?;
    let (folder, _name) = line.trim_end_matches(['"', '/']).rsplit_once('/')?;
    Some(folder.rsplit_once('/')?.1.to_ascii_lowercase())
}

/// The numbers of the lines that name the owner as a part of an address.
fn found<'t>(text: &'t str, owner: &'t str) -> impl Iterator<Item = usize> + 't {
    let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '-';
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        let line = line.to_ascii_lowercase();
        let mut at = line.match_indices(owner);
        let is_named = at.any(|(at, _)| {
            line[..at].ends_with(is_end) && line[at + owner.len()..].starts_with(['/', '.'])
        });
        is_named.then_some(number)
    })
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    // What is built, downloaded or recorded.
    const FOREIGN: [&str; 5] = [".git", "target", "node_modules", ".venv", ".cache"];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && !path.is_symlink() {
            if !FOREIGN.iter().any(|foreign| name == *foreign) && path != root().join("docs/book") {
                collect(&path, found);
            }
        } else if path.is_file() {
            found.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_the_repository_is_reported_in_any_form() {
        let owner =
            owner("[workspace.package]\nrepository = \"https://host.example/acme-rs/acme\"\n");
        assert_eq!(owner.as_deref(), Some("acme-rs"));
        let text = "acme-rs is a name\n[a](https://host.example/acme-rs/acme/blob/main/a.rs)\n\
                    git@host.example:acme-rs/acme.git\nhttps://Acme-RS.pages.example/acme\nnot-acme-rs/x\n";
        let numbers: Vec<_> = found(text, "acme-rs").collect();
        assert_eq!(numbers, [2, 3, 4]);
    }
}
