//! `cargo xtask package [--verify]`: what would be published is complete.
//!
//! Each package is made and unpacked. Its licences must be those of the repository, and its source must name no file
//! that the package does not have. With `--verify`, cargo builds each package as its users do and checks the order of
//! publishing, and everything that is packaged is compiled outside of the repository: tests, benchmarks, and the
//! code of each feature. That builds all dependencies again, so `cargo xtask ci` goes without.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::structure::{collect, root, target};

const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// What stands before the path of a file that a source names.
const NAMING: [&str; 3] = ["include_str!(\"", "include_bytes!(\"", "#[path = \""];

/// The same before the first piece of a path, of which the folder is known.
const NAMING_A_FOLDER: [&str; 2] = ["include_str!(concat!(\"", "include_bytes!(concat!(\""];

/// The gate: packages are made, and nothing is built.
pub(crate) fn check() -> bool {
    let folder = target().join("package");
    let names = published();
    // What an earlier run made may be of another version.
    for path in entries(&folder).iter().filter(|path| has_extension(path, "crate")) {
        let _ = fs::remove_file(path);
    }
    let mut faults = Vec::new();
    let package = |more: &[&str]| {
        let mut package = cargo(&["package", "--no-verify", "--allow-dirty"]);
        package.args(more).args(names.iter().flat_map(|name| ["-p", name])).output()
    };
    // The registry has nothing new to say where the dependencies have been built; asking it takes half a minute.
    let offline = package(&["--offline"]).ok().filter(|output| output.status.success());
    match offline.map_or_else(|| package(&[]), Ok) {
        Ok(output) if output.status.success() => {}
        Ok(output) => faults.push(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => faults.push(format!("cargo package does not run: {error}")),
    }
    unpublished(&mut faults);
    let unpacked = folder.join("unpacked");
    let _ = fs::remove_dir_all(&unpacked);
    for name in names {
        match unpack(&folder, &name, &unpacked) {
            Ok(package) => complete(&package, &mut faults),
            Err(error) => faults.push(format!("{name}: {error}")),
        }
    }
    for fault in &faults {
        println!("   {fault}");
    }
    faults.is_empty()
}

/// The same, and everything is compiled.
pub(crate) fn verify() -> bool {
    println!("   cargo publish --workspace --dry-run");
    let publish = ["publish", "--workspace", "--dry-run", "--allow-dirty"];
    check() && succeeds(&mut cargo(&publish)) && compile().is_ok_and(|is_good| is_good)
}

/// Compiles the packages in a workspace of their own, one by one: features of one are not those of another.
fn compile() -> std::io::Result<bool> {
    let folder = target().join("package/unpacked");
    let names = published();
    let members: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let patches: Vec<_> =
        names.iter().map(|name| format!("{name} = {{ path = \"{name}\" }}\n")).collect();
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n[patch.crates-io]\n{}",
        members.join(", "),
        patches.concat()
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    Ok(names.iter().all(|name| {
        [&[][..], &["--all-features"]].iter().all(|features| {
            println!("   cargo check -p {name} --all-targets {}", features.join(" "));
            let mut check = cargo(&["check", "-p", name, "--all-targets"]);
            // Where the repository builds: dependencies are the same.
            succeeds(check.args(*features).current_dir(&folder).env("CARGO_TARGET_DIR", target()))
        })
    }))
}

/// The packages of `crates`, all of which are published.
pub(crate) fn published() -> Vec<String> {
    let folders = entries(&root().join("crates")).into_iter();
    let folders = folders.filter(|path| path.join("Cargo.toml").exists());
    folders.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
}

/// Every other package says that it is not published.
fn unpublished(faults: &mut Vec<String>) {
    let mut manifests = Vec::new();
    for folder in ["benches", "crates", "examples", "tests", "xtask"] {
        collect(&root().join(folder), "toml", &mut manifests);
    }
    let crates = root().join("crates");
    for path in manifests.iter().filter(|path| path.ends_with("Cargo.toml")) {
        let text = fs::read_to_string(path).unwrap_or_default();
        let is_published = path.ancestors().nth(2) == Some(&*crates);
        let is_package = text.lines().any(|line| line == "[package]");
        if is_package && text.lines().any(|line| line == "publish = false") == is_published {
            let shown = path.strip_prefix(root()).unwrap_or(path).display();
            let rule = if is_published { "is published" } else { "needs `publish = false`" };
            faults.push(format!("{shown}: a package here {rule}"));
        }
        if is_published && !text.lines().any(|line| line.starts_with("include = [")) {
            let shown = path.strip_prefix(root()).unwrap_or(path).display();
            faults.push(format!("{shown} has no `include`, the list of what is packaged"));
        }
    }
}

/// Unpacks a package, and returns its folder.
fn unpack(folder: &Path, name: &str, unpacked: &Path) -> Result<PathBuf, String> {
    let is_version = |path: &&PathBuf| {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let version = stem.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        let is_number = |version: &str| version.starts_with(|c: char| c.is_ascii_digit());
        has_extension(path, "crate") && version.is_some_and(is_number)
    };
    let files = entries(folder);
    let package = files.iter().find(is_version).ok_or("no package was made")?;
    fs::create_dir_all(unpacked).map_err(|error| error.to_string())?;
    // Windows has it, too.
    let mut tar = Command::new("tar");
    if !succeeds(tar.arg("-xzf").arg(package).arg("-C").arg(unpacked)) {
        return Err(format!("tar does not unpack {}", package.display()));
    }
    let folder = unpacked.join(name);
    let versioned = unpacked.join(package.file_stem().unwrap_or_default());
    fs::rename(versioned, &folder).map_err(|error| error.to_string())?;
    Ok(folder)
}

/// Whether an unpacked package has the licences, a page, and each file that its sources name.
fn complete(package: &Path, faults: &mut Vec<String>) {
    let name = package.file_name().unwrap_or_default().display();
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    for licence in LICENCES {
        // A copy, and no symbolic link: an archive or a checkout may make a file of its target's name.
        if read(&package.join(licence)) != read(&root().join(licence)) {
            faults.push(format!("{name}: {licence} is not a copy of the repository's"));
        }
    }
    if read(&package.join("README.md")).lines().count() < 3 {
        faults.push(format!("{name} has no README.md"));
    }
    let mut sources = Vec::new();
    collect(package, "rs", &mut sources);
    if sources.is_empty() {
        faults.push(format!("{name} has no source"));
    }
    for path in sources {
        let shown = path.strip_prefix(package).unwrap_or(&path).display();
        for fault in outside(&read(&path), &path, package) {
            faults.push(format!("{name}: {shown}:{fault}"));
        }
    }
}

/// The lines of a source that name a file which its package does not have.
fn outside(text: &str, path: &Path, package: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    let folder = path.parent().unwrap_or(path);
    for (number, line) in (1..).zip(text.lines()) {
        let behind = |naming: &&str| {
            let (_, named) = line.split_once(naming)?;
            Some(named.split('"').next().unwrap_or_default())
        };
        let files = NAMING.iter().filter_map(behind);
        let folders = NAMING_A_FOLDER.iter().filter_map(behind);
        for named in files.chain(folders.filter_map(|piece| Some(piece.rsplit_once('/')?.0))) {
            let file = folder.join(named).canonicalize();
            let package = package.canonicalize();
            let is_inside = |file: PathBuf| package.is_ok_and(|package| file.starts_with(package));
            if !file.is_ok_and(is_inside) {
                faults.push(format!("{number}: {named} is not in the package"));
            }
        }
        if line.contains("\"/../") {
            faults.push(format!("{number}: a path that leaves the package"));
        }
    }
    faults
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension == wanted)
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(root());
    command
}

fn succeeds(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_outside_of_a_package_are_reported() {
        let package = root().join("xtask");
        let path = package.join("src/main.rs");
        let text = format!(
            "const A: &str = {0}\"package.rs\");\nconst B: &str = {0}\"../../README.md\");\n\
             const C: &str = {0}\"gone.rs\"); const D: &str = {0}concat!(\"gone/a-\", NAME));\n#[path {1} \"../Cargo.toml\"]\nlet d = (\"/..{2}a\");\n",
            "include_str!(", "=", "/"
        );
        let found = outside(&text, &path, &package);
        assert_eq!(
            found,
            [
                "2: ../../README.md is not in the package",
                "3: gone.rs is not in the package",
                "3: gone is not in the package",
                "5: a path that leaves the package",
            ]
        );
    }

    #[test]
    fn every_package_in_crates_is_published() {
        let names = published();
        assert!(names.iter().any(|name| name == "rowkey"), "{names:?}");
        assert!(names.iter().all(|name| name.starts_with("rowkey")), "{names:?}");
    }
}
