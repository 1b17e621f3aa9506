//! Members of a pool that are killed with `kill -9` at any request, or suspended there and killed later.
//!
//! Each member is a process of its own: this binary, which runs one test of it. Its clock stands until its parent
//! moves it, and it tells its parent when it is at rest, so nothing depends on how fast a process runs.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use rowkey::edm::Value;
use rowkey::worker::partitions::Owned;
use rowkey::{StorageAccount, Table};
use rowkey_emulator::{Fault, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep;
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::super::programs::{Clients, spawn};
use super::{COUNT, STEP, partitions, row, start, written};

/// The date of a member in milliseconds, and the connection string.
const SETTING: &str = "ROWKEY_PARTITIONS_MEMBER";
/// A term and a look, and the step in which they end.
const BOUND: usize = (60 + 20) / 5 + 1;

/// Tells the parent. The harness writes lines, too.
fn say(what: impl fmt::Display) {
    let _ = writeln!(std::io::stdout().lock(), "@{what}");
}

/// Tells the parent when the work of a partition ends, however it does.
struct Ending(u32);

impl Drop for Ending {
    fn drop(&mut self) {
        say(format_args!("ended {}", self.0));
    }
}

/// The work of a partition: a write under the fence every 5 seconds.
async fn work(owned: Owned, account: StorageAccount) -> rowkey::Result<()> {
    say(format_args!("owns {} {}", owned.index(), owned.token()));
    let _ending = Ending(owned.index());
    let (table, key) = (account.table("work"), format!("p{}", owned.index()));
    let fence = owned.fence(&table, &key).await?;
    loop {
        fence.submit(table.transaction().upsert(&row(&key, owned.token()))).await?;
        say(format_args!("wrote {} {}", owned.index(), owned.token()));
        tokio::select! {
            () = owned.stopping() => return Ok(()),
            () = account.clock().sleep(STEP) => {}
        }
    }
}

/// The member itself, in a process that [`Member::start`] has started. Otherwise there is nothing to do.
#[tokio::test]
async fn member() -> TestResult {
    let Ok(setting) = std::env::var(SETTING) else { return Ok(()) };
    let (millis, connection_string) = setting.split_once(' ').ok_or("no date")?;
    let date = DateTime::from_timestamp_millis(millis.parse()?).ok_or("no date")?;
    let clients = Clients::new(connection_string);
    let account = clients.account_at(date)?;
    let program = spawn(async move {
        let stop = Arc::new(Notify::new());
        let of_work = account.clone();
        let work = move |owned: Owned| work(owned, of_work.clone());
        partitions(&account).run_until(work, stop.notified()).await
    });
    clients.rest().await;
    say("rested");
    for line in std::io::stdin().lines() {
        clients.step(Duration::from_secs(line?.parse()?)).await;
        say("rested");
    }
    program.abort();
    Ok(())
}

/// A member as its parent sees it.
struct Member {
    child: Child,
    stdin: ChildStdin,
    lines: UnboundedReceiver<String>,
    /// The partitions whose work runs, and their tokens. None once the member is killed.
    owned: BTreeMap<u32, u64>,
    /// The tokens of its last writes.
    wrote: BTreeMap<u32, u64>,
}

impl Member {
    fn start(server: &Server, ahead: TimeDelta) -> TestResult<Self> {
        let date = (server.clock().now().to_chrono() + ahead).timestamp_millis();
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--exact", "partitions::killed::member", "--nocapture"])
            .env(SETTING, format!("{date} {}", server.connection_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take().ok_or("no standard input")?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let (tells, lines) = mpsc::unbounded_channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The harness ends its line about a test after the test, so a line of the test may follow it.
                if let Some((_, line)) = line.split_once('@') {
                    let _ = tells.send(line.to_owned());
                }
            }
        });
        Ok(Self { child, stdin, lines, owned: BTreeMap::new(), wrote: BTreeMap::new() })
    }

    /// Reads what it tells until it is at rest.
    async fn rested(&mut self) {
        loop {
            let line = self.lines.recv().await.expect("the member ended by itself");
            let mut words = line.split(' ');
            let word = words.next();
            let mut number = || words.next().map(|number| number.parse::<u64>().unwrap());
            let index = number().map(|index| u32::try_from(index).unwrap());
            match (word, index, number()) {
                (Some("rested"), ..) => return,
                (Some("owns"), Some(index), Some(token)) => drop(self.owned.insert(index, token)),
                (Some("wrote"), Some(index), Some(token)) => drop(self.wrote.insert(index, token)),
                (Some("ended"), Some(index), _) => drop(self.owned.remove(&index)),
                _ => panic!("{line}"),
            }
        }
    }

    /// Moves its clock. It is at rest when [`rested`](Self::rested) says so.
    fn moves(&mut self) {
        writeln!(self.stdin, "{}", STEP.as_secs()).unwrap();
    }

    /// `kill -9`. What it owned is no longer its own, because it sends nothing more.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.owned.clear();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is checked after each step: the tokens in the rows grow.
struct Rows {
    table: Table,
    seen: BTreeMap<u32, i64>,
}

impl Rows {
    fn new(server: &Server) -> rowkey::Result<Self> {
        Ok(Self { table: sweep::account(server)?.table("work"), seen: BTreeMap::new() })
    }

    async fn look(&mut self, at: &str) -> TestResult {
        for index in 0..COUNT {
            if let Some(Value::Int64(token)) = written(&self.table, &format!("p{index}")).await? {
                let before = self.seen.insert(index, token);
                assert!(before <= Some(token), "{at}: {before:?} was written before {token}");
            }
        }
        Ok(())
    }
}

/// Moves all clocks, and lets all members come to rest. No partition has two owners then.
async fn step(server: &Server, members: &mut [&mut Member], at: &str) {
    server.clock().advance(STEP);
    for member in &mut *members {
        member.moves();
    }
    for member in &mut *members {
        member.rested().await;
    }
    let mut owners = BTreeMap::new();
    for (index, token) in members.iter().flat_map(|member| &member.owned) {
        let other = owners.insert(index, token);
        assert_eq!(other, None, "{at}: two members own partition {index}");
    }
}

/// Steps until the members have these shares and each has written to all of them; how many steps it took.
async fn until(
    server: &Server,
    members: &mut [&mut Member],
    shares: &[usize],
    rows: &mut Rows,
    at: &str,
) -> TestResult<usize> {
    for steps in 0..60 {
        let have: Vec<_> = members.iter().map(|member| member.owned.len()).collect();
        let mut all = members.iter().flat_map(|it| it.owned.iter().map(move |own| (own, it)));
        if have == shares && all.all(|((index, token), it)| it.wrote.get(index) == Some(token)) {
            return Ok(steps);
        }
        step(server, members, at).await;
        rows.look(at).await?;
    }
    Err(format!("{at}: it does not happen").into())
}

/// Starts a member and moves its clock a few times. With a fault that holds one of its requests, until it is held.
async fn run(server: &Server, first: &mut Member, held: impl Future<Output = ()>) {
    let runs = async {
        first.rested().await;
        for _ in 0..5 {
            step(server, &mut [&mut *first], "alone").await;
        }
    };
    tokio::select! {
        () = runs => {}
        () = held => {}
    }
}

#[tokio::test]
async fn a_member_killed_at_any_request_is_replaced_and_its_late_writes_are_refused() -> TestResult
{
    let (ahead, behind) = (TimeDelta::seconds(450), TimeDelta::seconds(-450));
    let requests = {
        let server = start().await?;
        let before = server.journal();
        run(&server, &mut Member::start(&server, behind)?, std::future::pending()).await;
        u64::try_from(server.journal().since(&before).len())?
    };
    // A look, its own lease, 8 leases, 8 fences, writes and renewals.
    assert!(requests > 100, "{requests} requests");
    let (mut runs, mut hits) = (0, 0);
    for request in 1..=requests {
        for (way, is_suspended) in (0..).zip([false, true]) {
            let is_made = if sweep::is_brief() {
                sweep::is_made(request + way)
            } else {
                sweep::is_in_sample(2 * request + way)
            };
            if !is_made {
                continue;
            }
            let at = format!("request {request}, suspended: {is_suspended}");
            let server = start().await?;
            let mut rows = Rows::new(&server)?;
            let mut first = Member::start(&server, behind)?;
            let held = server.inject(Fault::any().nth(request).hold());
            run(&server, &mut first, held.wait_until_held()).await;
            // Requests of eight partitions run beside each other, so their number may vary by a few.
            (runs, hits) = (runs + 1, hits + held.hits());
            // Suspended: its clock stands, and its request arrives after another one has taken over.
            let late = if is_suspended {
                Some(held)
            } else {
                first.kill();
                held.discard();
                None
            };
            let mut second = Member::start(&server, ahead)?;
            second.rested().await;
            let steps = until(&server, &mut [&mut second], &[8], &mut rows, &at).await?;
            assert!(steps <= BOUND, "{at}: {steps} steps");
            if let Some(held) = late {
                let was_held = held.hits() > 0;
                held.release();
                // It continues by a clock that stands: it still takes itself for the owner.
                if was_held {
                    first.rested().await;
                }
                rows.look(&at).await?;
                first.kill();
                // At the most it was counted again until now.
                let steps = until(&server, &mut [&mut second], &[8], &mut rows, &at).await?;
                assert!(steps <= BOUND, "{at}: {steps} steps after it woke");
            }
            // Each row is that of the present owner.
            rows.look(&at).await?;
            for (index, token) in &second.owned {
                assert_eq!(rows.seen.get(index), Some(&i64::try_from(*token)?), "{at}: {index}");
            }
            eprintln!("{at}");
        }
    }
    assert!(hits * 10 >= runs * 9, "{hits} of {runs} requests were held");
    Ok(())
}

#[tokio::test]
async fn killed_members_of_a_pool_are_replaced_within_a_term_and_a_look() -> TestResult {
    let server = start().await?;
    let mut rows = Rows::new(&server)?;
    let mut begin = {
        let server = &server;
        let mut ahead = [-900, 900, 0, -780, 780].into_iter().cycle();
        move || Member::start(server, TimeDelta::seconds(ahead.next().unwrap()))
    };
    let mut members = [begin()?, begin()?, begin()?, begin()?];
    for member in &mut members {
        member.rested().await;
    }
    let [first, second, third, fourth] = &mut members;
    until(&server, &mut [first, second, third, fourth], &[2, 2, 2, 2], &mut rows, "four come")
        .await?;

    // Two of four at once, the first one among them.
    first.kill();
    third.kill();
    let steps = until(&server, &mut [second, fourth], &[4, 4], &mut rows, "two are killed").await?;
    assert!((8..=BOUND).contains(&steps), "{steps} steps");

    // One is killed while a newcomer gets its share.
    let mut fifth = begin()?;
    fifth.rested().await;
    step(&server, &mut [second, fourth, &mut fifth], "one comes").await;
    second.kill();
    let steps =
        until(&server, &mut [fourth, &mut fifth], &[4, 4], &mut rows, "one is killed").await?;
    assert!(steps <= BOUND, "{steps} steps");

    // All of them, and others come.
    fourth.kill();
    fifth.kill();
    let (mut sixth, mut seventh) = (begin()?, begin()?);
    sixth.rested().await;
    seventh.rested().await;
    let steps =
        until(&server, &mut [&mut sixth, &mut seventh], &[4, 4], &mut rows, "all are killed")
            .await?;
    assert!((8..=BOUND).contains(&steps), "{steps} steps");
    Ok(())
}
