//! What a client does with blobs: it puts them at once and in blocks, appends, describes, snapshots
//! and deletes them.

use std::collections::BTreeMap;
use std::io;

use rowkey_emulator::{DEVELOPMENT_ACCOUNT, Server, Service, Snapshot};

use super::worker::{Random, State};
use crate::support::{Answer, Client};

/// The blobs of a container.
#[derive(Clone, Debug)]
pub(super) struct Shelf {
    container: String,
    names: BTreeMap<String, Named>,
}

/// All versions under one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Named {
    blob: Option<Blob>,
    /// The contents of the snapshots, oldest first.
    snapshots: Vec<String>,
    /// Blocks that are in no list, by id.
    staged: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Blob {
    content: String,
    is_append: bool,
    /// `x-ms-meta-note`.
    note: Option<String>,
}

/// A request.
#[derive(Clone, Debug)]
enum Step {
    Append(String),
    Commit,
    Delete,
    Describe(String),
    Put { content: String, is_append: bool },
    Snapshot,
    Stage(String, String),
}

impl Shelf {
    pub(super) fn new(container: String) -> Self {
        Self { container, names: BTreeMap::new() }
    }

    fn pick(named: &Named, random: &mut Random) -> Step {
        // Some are longer than one stored chunk.
        let length = if random.below(10) == 0 { 70_000 } else { random.below(200) + 1 };
        let letter = char::from(b'a' + u8::try_from(random.below(26)).unwrap());
        let content = letter.to_string().repeat(length as usize);
        let Some(blob) = &named.blob else {
            return match random.below(3) {
                0 => Step::Put { content: String::new(), is_append: true },
                1 => Step::Put { content, is_append: false },
                _ => Step::Stage(format!("AAA{}", letter.to_ascii_uppercase()), content),
            };
        };
        match random.below(8) {
            0 => Step::Delete,
            1 => Step::Describe(letter.to_string()),
            2 => Step::Snapshot,
            3 => Step::Put { content, is_append: false },
            _ if blob.is_append => Step::Append(content),
            4 if !named.staged.is_empty() => Step::Commit,
            _ => Step::Stage(format!("AAA{}", letter.to_ascii_uppercase()), content),
        }
    }

    fn send(&self, name: &str, step: &Step, client: &mut Client) -> io::Result<Answer> {
        let path = format!("/{}/{name}", self.container);
        let block = [("x-ms-blob-type", "BlockBlob")];
        let append = [("x-ms-blob-type", "AppendBlob")];
        let (method, query, headers, body) = match step {
            Step::Append(content) => ("PUT", "?comp=appendblock", vec![], content.clone()),
            Step::Commit => {
                let ids: Vec<&str> = self.names[name].staged.keys().map(String::as_str).collect();
                let list = ids.join("</Uncommitted><Uncommitted>");
                let list = format!("<Uncommitted>{list}</Uncommitted>");
                ("PUT", "?comp=blocklist", vec![], format!("<BlockList>{list}</BlockList>"))
            }
            Step::Delete => {
                ("DELETE", "", vec![("x-ms-delete-snapshots", "include")], String::new())
            }
            Step::Describe(note) => {
                ("PUT", "?comp=metadata", vec![("x-ms-meta-note", note.as_str())], String::new())
            }
            Step::Put { content, is_append } => {
                let kind = if *is_append { append } else { block };
                ("PUT", "", kind.to_vec(), content.clone())
            }
            Step::Snapshot => ("PUT", "?comp=snapshot", vec![], String::new()),
            Step::Stage(id, content) => {
                let path = format!("{path}?comp=block&blockid={id}");
                return client.try_send_at(DEVELOPMENT_ACCOUNT, "PUT", &path, &[], content);
            }
        };
        let target = format!("{path}{query}");
        client.try_send_at(DEVELOPMENT_ACCOUNT, method, &target, &headers, &body)
    }

    fn apply(&mut self, name: &str, step: &Step) {
        let named = self.names.entry(name.to_owned()).or_default();
        match step {
            Step::Append(content) => named.blob.as_mut().unwrap().content.push_str(content),
            Step::Commit => {
                let content = std::mem::take(&mut named.staged).into_values().collect();
                named.blob = Some(Blob { content, is_append: false, note: None });
            }
            Step::Delete => *named = Named::default(),
            Step::Describe(note) => named.blob.as_mut().unwrap().note = Some(note.clone()),
            Step::Put { content, is_append } => {
                let (content, is_append) = (content.clone(), *is_append);
                named.blob = Some(Blob { content, is_append, note: None });
                named.staged.clear();
            }
            Step::Snapshot => named.snapshots.push(named.blob.clone().unwrap().content),
            Step::Stage(id, content) => {
                named.staged.insert(id.clone(), content.clone());
            }
        }
    }

    fn look(&self, name: &str, client: &mut Client, listing: &str) -> Named {
        let path = format!("/{}/{name}", self.container);
        let answer = client.send("GET", &path, &[], "");
        let blob = (answer.status == 200).then(|| Blob {
            is_append: answer.header("x-ms-blob-type") == Some("AppendBlob"),
            note: answer.header("x-ms-meta-note").map(str::to_owned),
            content: answer.body,
        });
        let mut snapshots = Vec::new();
        for one in listing.split("<Blob>").skip(1) {
            if let Some((_, rest)) = one.split_once("<Snapshot>")
                && one.contains(&format!("<Name>{name}</Name>"))
            {
                let instant = rest.split('<').next().unwrap().replace(':', "%3A");
                let answer = client.send("GET", &format!("{path}?snapshot={instant}"), &[], "");
                assert_eq!(answer.status, 200, "{answer:?}");
                snapshots.push(answer.body);
            }
        }
        let target = format!("{path}?comp=blocklist&blocklisttype=uncommitted");
        let blocks = client.send("GET", &target, &[], "").body;
        let mut staged = BTreeMap::new();
        for block in blocks.split("<Block>").skip(1) {
            let field = |name: &str| {
                let (_, rest) = block.split_once(&format!("<{name}>")).unwrap();
                rest.split('<').next().unwrap().to_owned()
            };
            // The length only, not the content.
            staged.insert(field("Name"), field("Size"));
        }
        Named { blob, snapshots, staged }
    }
}

impl State for Shelf {
    const SERVICE: Service = Service::Blob;

    fn prepare(&self, client: &mut Client) -> io::Result<()> {
        let target = format!("/{}?restype=container", self.container);
        let answer = client.try_send_at(DEVELOPMENT_ACCOUNT, "PUT", &target, &[], "")?;
        assert!([201, 409].contains(&answer.status), "{answer:?}");
        Ok(())
    }

    fn step(
        &mut self,
        random: &mut Random,
        client: &mut Client,
        possible: &mut Vec<Self>,
    ) -> io::Result<()> {
        let name = format!("b{}", random.below(6));
        let step = Self::pick(self.names.entry(name.clone()).or_default(), random);
        let mut sent = self.clone();
        sent.apply(&name, &step);
        possible.push(sent.clone());
        let answer = self.send(&name, &step, client)?;
        assert!((200..300).contains(&answer.status), "{step:?}: {answer:?}");
        *self = sent;
        Ok(())
    }

    fn observe(&self, server: &Server, _: &Snapshot) -> Self {
        let mut client = Client::to(server, Service::Blob);
        let target = format!("/{}?restype=container&comp=list&include=snapshots", self.container);
        let listing = client.send("GET", &target, &[], "").body;
        let mut observed = self.clone();
        for number in 0..6 {
            let name = format!("b{number}");
            let mut seen = self.look(&name, &mut client, &listing);
            // What blocks hold is seen when they are in a list.
            let known = self.names.get(&name).map(|named| &named.staged);
            for (id, held) in &mut seen.staged {
                let content = known.and_then(|staged| staged.get(id));
                let content = content.filter(|content| content.len().to_string() == *held);
                *held = content.cloned().unwrap_or_else(|| format!("{held} bytes"));
            }
            observed.names.insert(name, seen);
        }
        observed
    }

    fn allows(&self, observed: &Self) -> bool {
        observed.names.iter().all(|(name, seen)| {
            let named = self.names.get(name).cloned().unwrap_or_default();
            let staged = named.staged.iter().zip(&seen.staged).all(|(one, other)| {
                one == other || (one.0 == other.0 && *other.1 == format!("{} bytes", one.1.len()))
            });
            named.blob == seen.blob
                && named.snapshots == seen.snapshots
                && named.staged.len() == seen.staged.len()
                && staged
        })
    }
}
