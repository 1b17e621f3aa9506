//! The processes: writers and workers, their output, and how they are killed, suspended and replaced.
//!
//! The parent gives writers numbers to put, and they say what became of each; workers say which tasks they
//! have begun. Nothing else passes between processes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use crate::Result;
use rowkey_tests::random::Random;
use rustix::process::{Pid, Signal, kill_process};

/// How many numbers a writer has at a time.
const AT_A_TIME: usize = 48;
/// For how many looks of the parent a process is stopped.
const STOPPED: u32 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Worker,
    Writer,
}

impl Role {
    pub(crate) const VARIABLE: &'static str = "ROWKEY_SOAK_ROLE";

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Writer => "writer",
        }
    }
}

/// The arguments of the processes.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) connection_string: String,
    pub(crate) clock: PathBuf,
    pub(crate) tasks: u64,
}

/// What the processes have reported.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    /// Tasks whose put was acknowledged to a writer.
    pub(crate) put: BTreeSet<u64>,
    /// How often workers have begun each task.
    pub(crate) begun: BTreeMap<u64, u32>,
    /// Calls that a writer dropped before they ended.
    dropped: Vec<u64>,
    /// The ends of workers.
    pub(crate) counts: Vec<String>,
}

struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    reader: JoinHandle<()>,
    reported: Arc<Mutex<BTreeSet<u64>>>,
    /// The number of polls until it continues.
    stopped: u32,
    /// Numbers that a writer was given.
    given: BTreeSet<u64>,
}

pub(crate) struct Processes {
    setting: Setting,
    random: Random,
    workers: Vec<Process>,
    writers: Vec<Process>,
    reported: Arc<Mutex<Reported>>,
    next: u64,
    again: VecDeque<u64>,
    /// Tasks of unknown end that no writer puts again.
    pub(crate) given_up: BTreeSet<u64>,
    pub(crate) repeated: u64,
    born: u64,
}

impl Processes {
    pub(crate) fn new(setting: Setting, workers: usize, writers: usize, seed: u64) -> Result<Self> {
        let mut processes = Self {
            setting,
            random: Random(seed),
            workers: Vec::new(),
            writers: Vec::new(),
            reported: Arc::default(),
            next: 0,
            again: VecDeque::new(),
            given_up: BTreeSet::new(),
            repeated: 0,
            born: 0,
        };
        for _ in 0..workers {
            let worker = processes.begin(Role::Worker)?;
            processes.workers.push(worker);
        }
        for _ in 0..writers {
            let writer = processes.begin(Role::Writer)?;
            processes.writers.push(writer);
        }
        Ok(processes)
    }

    fn begin(&mut self, role: Role) -> Result<Process> {
        self.born += 1;
        let Setting { connection_string, clock, tasks } = &self.setting;
        let mut child = Command::new(std::env::current_exe()?)
            .env(Role::VARIABLE, role.name())
            .env("ROWKEY_SOAK_SERVER", connection_string)
            .env("ROWKEY_SOAK_CLOCK", clock)
            .env("ROWKEY_SOAK", tasks.to_string())
            .env("ROWKEY_SOAK_BORN", self.born.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let (all, own) = (Arc::clone(&self.reported), Arc::<Mutex<BTreeSet<u64>>>::default());
        let ended = Arc::clone(&own);
        let reader = thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(std::result::Result::ok) {
                record(&line, &all, &ended);
            }
        });
        Ok(Process { child, stdin, reader, reported: own, stopped: 0, given: BTreeSet::new() })
    }

    pub(crate) fn reported(&self) -> std::sync::MutexGuard<'_, Reported> {
        self.reported.lock().unwrap()
    }

    /// Gives writers what they are to put, and lets those go on that were stopped long enough. Whether
    /// all has been put.
    pub(crate) fn look(&mut self) -> Result<bool> {
        for process in self.workers.iter_mut().chain(&mut self.writers) {
            if let Some(status) = process.child.try_wait()? {
                return Err(format!("a process ended by itself: {status}").into());
            }
            if process.stopped > 0 {
                process.stopped -= 1;
                if process.stopped == 0 {
                    signal(&process.child, Signal::CONT)?;
                }
            }
        }
        let dropped = std::mem::take(&mut self.reported().dropped);
        for number in dropped {
            self.unknown(number);
        }
        for writer in &mut self.writers {
            let ended = std::mem::take(&mut *writer.reported.lock().unwrap());
            for number in ended {
                writer.given.remove(&number);
                if self.random.one_in(50) {
                    self.again.push_back(number);
                    self.repeated += 1;
                }
            }
            while writer.given.len() < AT_A_TIME {
                let next = (self.next < self.setting.tasks).then_some(self.next);
                let Some(number) = self.again.pop_front().or(next) else { break };
                if Some(number) == next {
                    self.next += 1;
                }
                writer.given.insert(number);
                // A writer that has ended is found by the next look.
                let _ = writeln!(writer.stdin.as_mut().ok_or("a writer was ended")?, "{number}");
            }
        }
        let is_done = self.next == self.setting.tasks && self.again.is_empty();
        Ok(is_done && self.writers.iter().all(|writer| writer.given.is_empty()))
    }

    /// Nothing says whether this task was put: two of three are put again, under the same key.
    fn unknown(&mut self, number: u64) {
        if self.random.one_in(3) {
            self.given_up.insert(number);
        } else {
            self.again.push_back(number);
            self.repeated += 1;
        }
    }

    fn of(&mut self, role: Role) -> &mut Vec<Process> {
        match role {
            Role::Worker => &mut self.workers,
            Role::Writer => &mut self.writers,
        }
    }

    /// `kill -9`, and another one in its place.
    pub(crate) fn kill(&mut self, role: Role, victim: u64) -> Result {
        let next = self.begin(role)?;
        let processes = self.of(role);
        let at = usize::try_from(victim)? % processes.len();
        let mut killed = std::mem::replace(&mut processes[at], next);
        killed.child.kill()?;
        killed.child.wait()?;
        // Its output is read to the end.
        killed.reader.join().map_err(|_| "a reader panicked")?;
        let ended = killed.reported.lock().unwrap();
        killed.given.difference(&ended).for_each(|number| self.unknown(*number));
        Ok(())
    }

    /// SIGSTOP; it continues after some polls.
    pub(crate) fn stop(&mut self, role: Role, victim: u64) -> Result {
        let processes = self.of(role);
        let at = usize::try_from(victim)? % processes.len();
        processes[at].stopped = STOPPED;
        signal(&processes[at].child, Signal::STOP)
    }

    /// Stops the processes of a role after their current task, and waits for them.
    pub(crate) fn end(&mut self, role: Role) -> Result {
        for mut process in std::mem::take(self.of(role)) {
            signal(&process.child, Signal::CONT)?;
            drop(process.stdin.take());
            let status = process.child.wait()?;
            process.reader.join().map_err(|_| "a reader panicked")?;
            if !status.success() {
                return Err(format!("a {} ended badly: {status}", role.name()).into());
            }
        }
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in self.workers.iter_mut().chain(&mut self.writers) {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

fn record(line: &str, all: &Mutex<Reported>, ended: &Mutex<BTreeSet<u64>>) {
    let mut all = all.lock().unwrap();
    let Some((word, rest)) = line.split_once(' ') else { return };
    let number = rest.parse();
    match (word, number) {
        ("put", Ok(number)) => {
            all.put.insert(number);
            ended.lock().unwrap().insert(number);
        }
        ("dropped", Ok(number)) => {
            all.dropped.push(number);
            ended.lock().unwrap().insert(number);
        }
        ("begun", Ok(number)) => *all.begun.entry(number).or_default() += 1,
        ("counts", _) => all.counts.push(rest.to_owned()),
        _ => {}
    }
}

fn signal(child: &Child, signal: Signal) -> Result {
    Ok(kill_process(Pid::from_child(child), signal)?)
}
