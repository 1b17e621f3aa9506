//! Reads what `--seed` names: JSON for people, JSON lines of a table, backups, and folders of all of these.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rowkey_emulator::{Seed, SeedError};
use rowkey_transfer::backup::{FileDecoder, Manifest};
use rowkey_transfer::{Compression, Format, Row};

/// The file that makes a folder a backup.
const MANIFEST: &str = "manifest.json";

/// Reads a file or a folder. All of it is read before anything is started.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Seed>> {
    let metadata = fs::metadata(path).map_err(|error| {
        let message = format!("--seed: cannot read {}: {error}", path.display());
        io::Error::new(error.kind(), message)
    })?;
    if !metadata.is_dir() {
        return file(path).map(|seed| vec![seed]);
    }
    let seeds = folder(path)?;
    if seeds.is_empty() {
        return Err(refused(path, "it has no seed: no file of JSON or JSON lines, and no backup"));
    }
    Ok(seeds)
}

/// Reads a backup, or each file of a folder and each backup below it, in the order of their names.
fn folder(path: &Path) -> io::Result<Vec<Seed>> {
    if path.join(MANIFEST).is_file() {
        return backup(path).map(|seed| vec![seed]);
    }
    let entries: io::Result<Vec<PathBuf>> =
        fs::read_dir(path).and_then(|found| found.map(|entry| Ok(entry?.path())).collect());
    let mut entries = entries.map_err(|error| refused(path, &error.to_string()))?;
    entries.sort();
    let mut seeds = Vec::new();
    for entry in entries {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        if entry.is_dir() && entry.join(MANIFEST).is_file() {
            seeds.push(backup(&entry)?);
        } else if matches!(Format::of_name(&name), Some(Format::Json | Format::JsonLines)) {
            seeds.push(file(&entry)?);
        }
    }
    Ok(seeds)
}

fn file(path: &Path) -> io::Result<Seed> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match Format::of_name(&name) {
        Some(Format::Json) if name == MANIFEST => backup(path.parent().unwrap_or(path)),
        Some(Format::Json) => Seed::read(path).map_err(|error| wrong(path, &error)),
        Some(Format::JsonLines) => lines(path, &name),
        _ => Err(refused(
            path,
            "a seed is a file of JSON (`.json`), a file of JSON lines named after its table (`orders.jsonl`, \
             `orders.jsonl.gz`), or a folder; convert other formats with `rowkey import` and `rowkey export`",
        )),
    }
}

/// Reads the JSON lines of the table that the file is named after, or that the manifest beside it names.
fn lines(path: &Path, name: &str) -> io::Result<Seed> {
    if let Some(manifest) = path.parent().map(|folder| folder.join(MANIFEST))
        && let Ok(manifest) = fs::read(manifest)
        && let Ok(manifest) = Manifest::from_json(&manifest)
        && let Some(listed) = manifest.files.iter().find(|listed| listed.name == name)
    {
        let rows =
            FileDecoder::new(File::open(path)?, listed).map_err(|error| bad(path, &error))?;
        return collect(path, &manifest.table, rows);
    }
    let table = name.split('.').next().unwrap_or_default();
    let rows = Format::JsonLines.read(File::open(path)?, Compression::of_name(name));
    collect(path, table, rows.map_err(|error| bad(path, &error))?)
}

/// Reads a backup, and compares it with its manifest.
fn backup(folder: &Path) -> io::Result<Seed> {
    let path = folder.join(MANIFEST);
    let manifest = fs::read(&path).map_err(|error| refused(&path, &error.to_string()))?;
    let manifest = Manifest::from_json(&manifest).map_err(|error| bad(&path, &error))?;
    let mut seed = Seed::new();
    seed.add_table(&manifest.table).map_err(|error| wrong(&path, &error))?;
    for listed in &manifest.files {
        let path = folder.join(&listed.name);
        let file = File::open(&path).map_err(|error| refused(&path, &error.to_string()))?;
        let rows = FileDecoder::new(file, listed).map_err(|error| bad(&path, &error))?;
        add(&mut seed, &path, &manifest.table, rows)?;
    }
    Ok(seed)
}

fn collect(
    path: &Path,
    table: &str,
    rows: impl Iterator<Item = rowkey_transfer::Result<Row>>,
) -> io::Result<Seed> {
    let mut seed = Seed::new();
    seed.add_table(table).map_err(|error| wrong(path, &error))?;
    add(&mut seed, path, table, rows)?;
    Ok(seed)
}

fn add(
    seed: &mut Seed,
    path: &Path,
    table: &str,
    rows: impl Iterator<Item = rowkey_transfer::Result<Row>>,
) -> io::Result<()> {
    for row in rows {
        let entity = row.map_err(|error| bad(path, &error))?.entity;
        let (partition_key, row_key) = (entity.partition_key, entity.row_key);
        let properties = entity.properties.into_iter().collect();
        let added = seed.add_entity(table, partition_key, row_key, properties);
        added.map_err(|error| wrong(path, &error))?;
    }
    Ok(())
}

fn wrong(path: &Path, error: &SeedError) -> io::Error {
    refused(path, &error.to_string())
}

fn bad(path: &Path, error: &rowkey_transfer::Error) -> io::Error {
    refused(path, &error.to_string())
}

fn refused(path: &Path, what: &str) -> io::Error {
    let message = format!("--seed: {}: {what}; nothing was started", path.display());
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
