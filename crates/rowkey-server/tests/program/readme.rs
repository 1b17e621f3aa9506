//! The commands in Azurite's README, and directories as people have them: each starts the program, or is
//! refused with a message that says what to do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::certificates;
use crate::work::Work;

/// The commands of Azurite's README without the program's name; ports are 0.
const COMMANDS: [&[&str]; 28] = [
    &[],
    &["azurite", "-s", "-l", "DIR/azurite", "-d", "DIR/azurite/debug.log"],
    &["azurite-blob", "-l", "path/to/azurite/workspace"],
    &["azurite-queue", "-l", "path/to/azurite/workspace"],
    &["azurite-table", "-l", "path/to/azurite/workspace"],
    &["azurite-blob", "--blobHost", "0.0.0.0"],
    &["Azurite", "--cert", "path/server.pem", "--key", "path/key.pem"],
    &["-s", "-l", "DIR/azurite", "-d", "DIR/azurite/debug.log"],
    &["--silent", "--location", "DIR/azurite", "--debug", "DIR/azurite/debug.log"],
    &["-l", "path/to/azurite/workspace"],
    &["--blobHost", "0.0.0.0"],
    &[
        "-l",
        "DIR/data",
        "--blobHost",
        "0.0.0.0",
        "--queueHost",
        "0.0.0.0",
        "--tableHost",
        "0.0.0.0",
    ],
    &[
        "-l",
        "DIR/workspace",
        "-d",
        "DIR/workspace/debug.log",
        "--blobPort",
        "0",
        "--blobHost",
        "0.0.0.0",
        "--blobKeepAliveTimeout",
        "5",
        "--queuePort",
        "0",
        "--queueHost",
        "0.0.0.0",
        "--queueKeepAliveTimeout",
        "5",
        "--tablePort",
        "0",
        "--tableHost",
        "0.0.0.0",
        "--tableKeepAliveTimeout",
        "5",
        "--loose",
        "--skipApiVersionCheck",
        "--disableProductStyleUrl",
        "--disableTelemetry",
    ],
    &["--blobHost", "127.0.0.1", "--queueHost", "127.0.0.1", "--tableHost", "127.0.0.1"],
    &["--location", "DIR/azurite"],
    &["-s"],
    &["-d", "path/debug.log"],
    &["--debug", "path/debug.log"],
    &["-L"],
    &["--loose"],
    &["--cert", "path/server.pem", "--key", "path/key.pem"],
    &["--oauth", "basic", "--cert", "path/server.pem", "--key", "path/key.pem"],
    &["--skipApiVersionCheck"],
    &["--disableProductStyleUrl"],
    &["--disableTelemetry"],
    &["--inMemoryPersistence"],
    &["--inMemoryPersistence", "--extentMemoryLimit", "64"],
    // The certificate, the log and the data in one directory, as in a volume of a container.
    &[
        "-l",
        "path",
        "-d",
        "path/logs/azurite.txt",
        "--cert",
        "path/server.pem",
        "--key",
        "path/key.pem",
    ],
];

#[test]
fn the_commands_of_azurites_readme_start_the_program_twice() {
    for flags in COMMANDS {
        let work = Work::new()
            .with("path/server.pem", certificates::CERTIFICATE)
            .with("path/key.pem", certificates::KEY);
        for time in ["first", "second"] {
            let started = work.starts(flags);
            assert!(started.ready.starts_with("{\"ready\":true,"), "{time}: {}", started.ready);
        }
    }
    for accounts in ["account1:key1", "account1:key1:key2;account2:key1:key2"] {
        let started = Work::new().run(&[], &[("AZURITE_ACCOUNTS", accounts)]);
        assert!(started.is_ok_and(|started| started.ready.contains("AccountName=account1;")));
    }
    assert!(Work::new().run(&[], &[("AZURITE_SKIP_API_VERSION_CHECK", "true")]).is_ok());
}

#[test]
fn what_azurites_readme_has_and_the_program_has_not_is_refused_with_advice() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/server/standalone.md");
    let page = fs::read_to_string(page).unwrap();
    for (flags, advice, on_page) in [
        (&["--cert", "path/server.pem"][..], "add --key", "`--cert`, `--key`"),
        (&["--oauth", "full"], "basic", "`--oauth`"),
        (
            &["--inMemoryPersistence", "-l", "DIR/x"],
            "cannot be used with",
            "`--inMemoryPersistence`",
        ),
        (
            &["azurite-file", "-l", "DIR/x"],
            "invalid value 'azurite-file'",
            "words that are not flags",
        ),
    ] {
        let Err(log) = Work::new().run(flags, &[]) else { panic!("{flags:?}: started") };
        assert!(log.contains(advice), "{flags:?}: {log}");
        assert!(page.contains(on_page), "{on_page} is not on the page");
    }
    for program in ["azurite-blob", "azurite-queue", "azurite-table"] {
        assert!(page.contains(&format!("`{program}`")), "{program} is not on the page");
    }
}

/// A certificate and its key in one file, with the password `pfxpassword`.
///
/// `openssl pkcs12 -export -in v1.cert -inkey v1.key -passout pass:pfxpassword`, and the same with `-legacy`, which is
/// encrypted by RC2 and triple DES as in files of .NET.
const PFX: [&[u8]; 2] = [include_bytes!("certificate.pfx"), include_bytes!("legacy.pfx")];

#[test]
fn pfx_files_are_read_where_openssl_is_and_refused_with_advice_where_it_is_not() {
    let has_openssl = Command::new("openssl").arg("version").output().is_ok();
    for file in PFX {
        let work = Work::new().with("cert.pfx", file);
        let run = |password, variables: &[(&str, &str)]| {
            work.run(&["--oauth", "basic", "--cert", "cert.pfx", "--pwd", password], variables)
        };
        match run("pfxpassword", &[]) {
            Ok(started) => assert!(started.ready.contains("https://"), "{}", started.ready),
            Err(log) => assert!(!has_openssl && log.contains("does not run"), "{log}"),
        }
        let Err(log) = run("other", &[]) else { panic!("a wrong password") };
        assert!(log.contains("openssl pkcs12 -in cert.pfx"), "{log}");
        assert!(log.contains("with the password of --pwd") || !has_openssl, "{log}");
        let Err(log) = run("pfxpassword", &[("PATH", "/nowhere")]) else { panic!("no openssl") };
        assert!(
            log.contains("does not run") && log.contains("openssl pkcs12 -in cert.pfx"),
            "{log}"
        );
        assert!(!log.contains("pfxpassword"), "{log}");
    }
}

#[test]
fn files_that_are_no_data_do_not_make_a_location_foreign() {
    let work = Work::new();
    // A log of an earlier start that kept nothing.
    drop(work.starts(&["--silent", "--debug", "data/debug.log"]));
    assert!(work.has("data/debug.log"));
    drop(work.starts(&["--location", "data"]));
    for name in [
        "data/lost+found/#1",
        "data/.DS_Store",
        "data/.gitkeep",
        "data/.gitignore",
        "data/Thumbs.db",
        "data/desktop.ini",
        "data/debug.log",
        "data/debug.log.1",
        "data/debug.log-20261125",
        "data/debug.log.2.gz",
    ] {
        let work = Work::new().with(name, "x");
        drop(work.starts(&["-l", "data"]));
        assert_eq!(fs::read(work.0.join(name)).unwrap(), b"x", "{name}");
        assert!(work.has("data/store"), "{name}");
    }
    // A log whose name says nothing, in a directory of its own, by another spelling of its path.
    let work = Work::new().with("data/logs/earlier", "x");
    drop(work.starts(&["-l", "DIR/data", "-d", "data/../data/logs/trace"]));
    assert!(work.has("data/store") && work.has("data/logs/trace"));
    // The directory is a link.
    #[cfg(unix)]
    {
        let work = Work::new().with("real/trace", "x");
        std::os::unix::fs::symlink("real", work.0.join("data")).unwrap();
        drop(work.starts(&["-l", "data", "-d", "real/trace"]));
        assert!(work.has("real/store"));
    }
}

#[test]
fn a_location_of_azurite_is_refused_with_what_to_do() {
    for name in [
        "__azurite_db_table__.json",
        "__azurite_db_blob_extent__.json",
        "__blobstorage__/1a2b",
        "__queuestorage__/1a2b",
        "AzuriteConfig",
    ] {
        let work = Work::new().with(&format!("data/{name}"), "{}").with("data/debug.log", "x");
        let Err(log) = work.run(&["-l", "data"], &[]) else { panic!("{name}: started") };
        assert!(log.contains("it has data of Azurite"), "{log}");
        assert!(log.contains(name.split('/').next().unwrap()), "{log}");
        assert!(log.contains("nothing was changed; name another directory"), "{log}");
        assert!(!work.has("data/store") && !work.has("data/rowkey-server"), "{name}");
    }
}

#[test]
fn a_log_is_never_written_into_the_data() {
    let work = Work::new();
    drop(work.starts(&["-l", "data"]));
    let files = |path: &Path| -> Vec<(PathBuf, Vec<u8>)> {
        let found = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let found = found.filter(|path| path.is_file());
        let mut found: Vec<_> = found.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        found.sort();
        found
    };
    let before = files(&work.0.join("data"));
    for file in ["rowkey-server", "synced", "store/0.jnl", "store/debug.log"] {
        for file in [format!("data/{file}"), format!("DIR/data/../data/{file}")] {
            for location in ["data", "data/.", "DIR/data"] {
                let flags = ["-l", location, "-d", &file];
                let Err(log) = work.run(&flags, &[]) else { panic!("{flags:?}: started") };
                assert!(log.contains("--debug: "), "{log}");
                assert!(log.contains("is a name of the server's own data"), "{log}");
            }
        }
    }
    assert!(files(&work.0.join("data")) == before, "something was changed");
    assert!(!work.has("data/store/debug.log"));
    drop(work.starts(&["-l", "data"]));
    // Also before there is any data.
    let work = Work::new();
    assert!(work.run(&["-l", "new", "-d", "new/store"], &[]).is_err());
    assert!(!work.has("new"));
}
