//! Tests of moves that are interrupted at any point, repeated, made concurrently, or refused.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use rowkey_client::ErrorKind;

use super::*;

/// A temporary folder of one test, deleted when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("rowkey-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(folder.join("archive")).unwrap();
        Self(folder)
    }

    fn paths(&self) -> (PathBuf, PathBuf) {
        (self.0.join("photo.png"), self.0.join("archive").join("photo.png"))
    }

    /// The files in the folder of the target.
    fn archived(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.join("archive")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// More bytes than the buffers used for copying hold.
fn content() -> Vec<u8> {
    (0..300_000_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect()
}

/// Drops `work` at its `k`-th await; returns whether it ended before.
async fn stopped_at(k: u32, work: impl Future) -> bool {
    let mut work = pin!(work);
    let mut waits = 0;
    std::future::poll_fn(|context| {
        if work.as_mut().poll(context).is_ready() {
            return Poll::Ready(true);
        }
        waits += 1;
        if waits == k { Poll::Ready(false) } else { Poll::Pending }
    })
    .await
}

#[tokio::test]
async fn an_interrupted_move_is_completed_by_the_next_call() {
    for method in [MoveMethod::Link, MoveMethod::Copy] {
        for k in 1.. {
            let folder = Folder::new();
            let (from, to) = folder.paths();
            std::fs::write(&from, content()).unwrap();
            let ended = stopped_at(k, move_by(method, &from, &to)).await;
            if let Ok(there) = std::fs::read(&to) {
                assert!(there == content(), "the target is whole, stopped at {k}");
            }
            move_by(method, &from, &to).await.unwrap();
            assert!(std::fs::read(&to).unwrap() == content(), "stopped at {k}");
            assert!(!from.exists(), "stopped at {k}");
            move_by(method, &from, &to).await.unwrap();
            if ended {
                assert_eq!(folder.archived(), ["photo.png"], "no part is left");
                assert!(k > 1, "{method:?} was never stopped");
                break;
            }
        }
    }
}

#[tokio::test]
async fn files_of_interrupted_moves_are_completed_and_removed() {
    for method in [MoveMethod::Link, MoveMethod::Copy] {
        let folder = Folder::new();
        let (from, to) = folder.paths();
        std::fs::write(&from, content()).unwrap();
        // The target is complete, and the source still exists, beside an incomplete copy.
        std::fs::write(&to, content()).unwrap();
        std::fs::write(to.with_file_name(".photo.png.part-0123456789abcdef"), "half").unwrap();
        std::fs::write(to.with_file_name(".photo.png.part-of-mine"), "not ours").unwrap();
        move_by(method, &from, &to).await.unwrap();
        assert!(!from.exists());
        let mut left = folder.archived();
        left.sort();
        assert_eq!(left, [".photo.png.part-of-mine", "photo.png"]);
    }
}

#[tokio::test]
async fn concurrent_moves_of_one_file_move_it_once() {
    for method in [MoveMethod::Link, MoveMethod::Copy] {
        for _ in 0..4 {
            let folder = Folder::new();
            let (from, to) = folder.paths();
            std::fs::write(&from, content()).unwrap();
            let moves = (0..4).map(|_| move_by(method, &from, &to));
            let done = futures_util::future::join_all(moves).await;
            assert!(done.iter().any(Result::is_ok), "{done:?}");
            for error in done.into_iter().filter_map(Result::err) {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            }
            assert!(!from.exists());
            assert!(std::fs::read(&to).unwrap() == content());
            move_by(method, &from, &to).await.unwrap();
            assert_eq!(folder.archived(), ["photo.png"]);
        }
    }
}

#[tokio::test]
async fn an_existing_destination_is_not_overwritten() {
    for (method, other) in
        [(MoveMethod::Link, "longer"), (MoveMethod::Copy, "longer"), (MoveMethod::Link, "ADA")]
    {
        let folder = Folder::new();
        let (from, to) = folder.paths();
        std::fs::write(&from, "Ada").unwrap();
        std::fs::write(&to, other).unwrap();
        let error = move_by(method, &from, &to).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(
            error.to_string(),
            "MoveFile: the target is another file; move it away, or choose another target"
        );
        assert_eq!(std::fs::read(&from).unwrap(), b"Ada");
        assert_eq!(std::fs::read(&to).unwrap(), other.as_bytes());
    }
}

#[tokio::test]
async fn a_file_is_not_moved_onto_itself() {
    let folder = Folder::new();
    let (from, _) = folder.paths();
    std::fs::write(&from, "Ada").unwrap();
    let around = folder.0.join("archive").join("..").join("photo.png");
    for to in [&from, &around] {
        let error = move_file(&from, to).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(std::fs::read(&from).unwrap(), b"Ada");
    }
}

#[tokio::test]
async fn invalid_moves_are_rejected() {
    for method in [MoveMethod::Link, MoveMethod::Copy] {
        let folder = Folder::new();
        let (from, to) = folder.paths();
        let error = move_by(method, &from, &to).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "neither is there: {error}");
        assert!(error.code().is_none(), "so that no round is repeated");

        std::fs::create_dir(&from).unwrap();
        let error = move_by(method, &from, &to).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "a folder: {error}");
        std::fs::remove_dir(&from).unwrap();

        std::fs::write(&from, "Ada").unwrap();
        let nowhere = folder.0.join("missing").join("photo.png");
        let error = move_by(method, &from, &nowhere).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "no folder: {error}");
        assert!(std::error::Error::source(&error).is_some());
        assert!(!error.to_string().contains("photo"), "paths may be secret: {error}");
        assert_eq!(std::fs::read(&from).unwrap(), b"Ada");

        let error = move_by(method, &from, Path::new("/")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_read_only_file_is_copied_with_its_permissions() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = Folder::new();
    let (from, to) = folder.paths();
    std::fs::write(&from, "Ada").unwrap();
    std::fs::set_permissions(&from, std::fs::Permissions::from_mode(0o440)).unwrap();
    move_by(MoveMethod::Copy, &from, &to).await.unwrap();
    assert_eq!(std::fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o440);
    assert!(!from.exists());
}
