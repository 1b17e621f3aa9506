//! The program is killed at random points under load, and nothing acknowledged is lost.

#![expect(clippy::print_stdout, reason = "a failure is repeated by its seed")]

use std::sync::mpsc;
use std::thread;

use super::blobs::Shelf;
use super::program::{Directory, Program};
use super::queues::Line;
use super::tables::Partition;
use super::worker::{Random, Work, Worker};

/// How often the program is killed with each policy, unless `ROWKEY_KILLS` says so.
const KILLS: u32 = 5;
/// Requests that are answered before it is killed, at most.
const ANSWERED: u32 = 400;

#[tokio::test]
async fn a_kill_loses_no_acknowledged_write_and_splits_no_transaction() {
    kill(1, &["--sync", "interval:20"]).await;
}

#[tokio::test]
async fn a_kill_loses_no_acknowledged_write_with_sync_always() {
    kill(2, &["--sync", "always"]).await;
}

async fn kill(seed: u64, flags: &[&str]) {
    let kills = std::env::var("ROWKEY_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let directory = Directory::new();
    let mut random = Random(seed);
    let mut workers: Vec<Box<dyn Work>> = Vec::new();
    for number in 0..2 {
        let seed = seed << 8 | number;
        let name = format!("w{number}");
        workers.push(Box::new(Worker::new(seed, Partition::new("things", name.clone()))));
        workers.push(Box::new(Worker::new(seed, Line::new(format!("queue-{name}")))));
        workers.push(Box::new(Worker::new(seed, Shelf::new(format!("shelf-{name}")))));
    }
    let mut total = 0;
    for round in 0..kills {
        let mut program = Program::start(directory.path(), flags);
        // By requests and not by time, so that slow machines see the same as fast ones. Sometimes
        // it is killed before any.
        let wanted = random.below(ANSWERED);
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            for worker in &mut workers {
                let tell = tell.clone();
                let connections = program.addresses();
                scope.spawn(move || {
                    worker.work(&connections, &|| {
                        let _ = tell.send(());
                    });
                });
            }
            drop(tell);
            // It ends early when all workers failed, which is said below.
            told.iter().take(wanted as usize).for_each(drop);
            program.kill();
        });
        total += wanted;
        let server = directory.serve().await;
        let snapshot = server.snapshot();
        println!("seed {seed}, kill {round} after {wanted} answers");
        for worker in &mut workers {
            worker.check(&server, &snapshot);
        }
    }
    println!("seed {seed}: {kills} kills, {total} answers awaited before them");
}
