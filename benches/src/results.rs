//! Measurements as JSON in `results/`, from which tables and charts can be rendered again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime};
use std::{fs, io};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The figures of one part, and how they came about.
#[derive(Debug, Deserialize, Serialize)]
pub struct Results<T> {
    pub circumstances: Circumstances,
    pub figures: T,
}

/// When, where, and how undisturbed.
#[derive(Debug, Deserialize, Serialize)]
pub struct Circumstances {
    date: String,
    commit: String,
    machine: String,
    rounds: usize,
    seconds: u64,
    /// What other programs took of the machine's CPU time, in percent.
    others: f64,
}

/// From here on others are said to disturb.
const DISTURBED: f64 = 5.0;

impl<T: Serialize + DeserializeOwned> Results<T> {
    pub fn save(&self, part: &str) -> io::Result<()> {
        fs::create_dir_all(folder())?;
        let mut text = serde_json::to_string(self)?;
        text.push('\n');
        fs::write(file(part), text)
    }

    /// `None` when the part was never measured.
    pub fn load(part: &str) -> io::Result<Option<Self>> {
        match fs::read(file(part)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Circumstances {
    /// A sentence or two.
    pub fn say(&self) -> String {
        let Self { date, commit, machine, rounds, seconds, others } = self;
        let disturbed = if *others > DISTURBED {
            " *Not final*: the machine was busy with something else, so latencies and times say \
             nothing, and ranges are wide."
        } else {
            ""
        };
        format!(
            "{date}, commit {commit}, {machine}; rounds: {rounds}, in {seconds} s, with {others:.0} % \
             of the machine's CPU time taken by other programs.{disturbed}"
        )
    }
}

/// A measurement that has begun.
#[derive(Debug)]
pub struct Begun {
    at: Instant,
    ours: u64,
    busy: u64,
    all: u64,
}

impl Begun {
    pub fn now() -> io::Result<Self> {
        let (busy, all) = machine_ticks()?;
        Ok(Self { at: Instant::now(), ours: own_ticks()?, busy, all })
    }

    /// To be called when all processes that were measured have ended.
    pub fn end<T>(self, commit: &str, rounds: usize, figures: T) -> io::Result<Results<T>> {
        let (busy, all) = machine_ticks()?;
        let others = (busy - self.busy).saturating_sub(own_ticks()? - self.ours);
        #[expect(clippy::cast_precision_loss, reason = "ticks of some minutes")]
        let others = (others as f64 * 100.0 / (all - self.all).max(1) as f64).round();
        let date = chrono::DateTime::<chrono::Utc>::from(SystemTime::now()).format("%Y-%m-%d");
        let circumstances = Circumstances {
            date: date.to_string(),
            commit: commit.to_owned(),
            machine: machine(),
            rounds,
            seconds: self.at.elapsed().as_secs(),
            others,
        };
        Ok(Results { circumstances, figures })
    }
}

/// The commit that is measured.
pub fn commit() -> String {
    said_by("git", &["describe", "--always", "--dirty", "--exclude=*"])
}

/// Cores, their kind, and the Node.js that Azurite and one of the clients run on.
fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut models =
        text.lines().filter_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = models.next().map_or("unknown", |(_, model)| model.trim());
    let cores = std::thread::available_parallelism().map_or(1, Into::into);
    let node = said_by("node", &["--version"]);
    format!("{cores} cores of {model}, Linux, Node.js {node}")
}

fn said_by(program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    match String::from_utf8_lossy(&output).trim() {
        "" => "unknown".to_owned(),
        said => said.to_owned(),
    }
}

/// What all cores were busy, and all that they had, since the machine started.
fn machine_ticks() -> io::Result<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().unwrap_or_default();
    // From proc(5): user, nice, system, idle, iowait, irq, softirq, steal.
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).take(8).filter_map(|text| text.parse().ok()).collect();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    let all: u64 = ticks.iter().sum();
    Ok((all - idle, all))
}

/// What this process took, and those that it started and that have ended.
fn own_ticks() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/stat")?;
    // The name of the program may have spaces in it.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    // From proc(5): utime, stime, cutime and cstime are the fields 14 to 17; the name is the second.
    let ticks = fields.split_whitespace().skip(11).take(4);
    Ok(ticks.filter_map(|text| text.parse::<u64>().ok()).sum())
}

fn file(part: &str) -> PathBuf {
    folder().join(part).with_extension("json")
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results")
}
