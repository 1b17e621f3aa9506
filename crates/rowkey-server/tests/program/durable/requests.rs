//! Random requests of all sorts that change something, and those that show everything there is.
//!
//! There are few names, so that requests meet. Many are refused, as they are to be on both sides.

use std::fmt::Write as _;

use rowkey_emulator::{DEVELOPMENT_ACCOUNT, Service};

use super::tables;
use super::worker::Random;

pub(super) const SERVICES: [Service; 3] = [Service::Table, Service::Queue, Service::Blob];
const TABLES: [&str; 2] = ["Things", "others"];
pub(super) const QUEUES: [&str; 2] = ["jobs", "mails"];
const CONTAINERS: [&str; 2] = ["boxes", "shelves"];
/// The first is mostly made of blocks, the other appended to.
const BLOBS: [&str; 2] = ["blocks", "log"];
const LEASES: [&str; 2] =
    ["2a57c317-bd8a-497d-811b-399b44ab7dad", "d1e02bd7-8dc4-4a6b-9f23-0dbdfa9b3c11"];
const PROPERTIES: [&str; 9] = [
    r#""a":1"#,
    r#""b":"größe \"q\"""#,
    r#""c@odata.type":"Edm.Int64","c":"-9223372036854775808""#,
    r#""d@odata.type":"Edm.DateTime","d":"2026-01-01T00:00:00.1234567Z""#,
    r#""e@odata.type":"Edm.Double","e":"NaN""#,
    r#""f@odata.type":"Edm.Guid","f":"00000000-0000-0000-0000-00000000002a""#,
    r#""g@odata.type":"Edm.Binary","g":"AP8H""#,
    r#""h":true"#,
    r#""i":0.1"#,
];

/// The placeholder in a target for a message and its receipt, which differ between servers.
pub(super) const MESSAGE: &str = "{message}";

/// A request that servers get which are to answer the same.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) service: Service,
    pub(super) method: &'static str,
    pub(super) target: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: String,
    /// The message for [`MESSAGE`].
    pub(super) message: usize,
}

/// Values of responses for later requests.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The targets of the queues of messages that were put or gotten.
    pub(super) messages: Vec<String>,
    /// Targets of blobs, and blocks that were put for them.
    staged: Vec<(String, String)>,
    /// Tags of entities.
    tags: Vec<String>,
    /// Targets of snapshots.
    snapshots: Vec<String>,
}

impl Known {
    /// Records the response to an authorized request.
    pub(super) fn learn<'a>(
        &mut self,
        request: &Request,
        header: impl Fn(&str) -> Option<&'a String>,
    ) {
        let (target, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        if let Some(id) = query.strip_prefix("comp=block&blockid=") {
            self.staged.push((target.to_owned(), id.to_owned()));
        }
        if let Some(instant) = header("x-ms-snapshot") {
            self.snapshots.push(format!("{target}?snapshot={}", instant.replace(':', "%3A")));
        }
        if request.service == Service::Table {
            self.tags.extend(header("etag").cloned());
        }
    }
}

impl Request {
    fn new(service: Service, method: &'static str, target: String) -> Self {
        let headers = Vec::new();
        Self { service, method, target, headers, body: String::new(), message: 0 }.typed()
    }

    /// With the type of a document, which that of the Table service alone is not XML.
    fn typed(mut self) -> Self {
        if self.service != Service::Table || self.target.contains("comp=") {
            let body = if self.service == Service::Blob { "" } else { "application/xml" };
            self.headers.push(("accept", "application/xml".to_owned()));
            self.headers.push(("content-type", body.to_owned()));
        }
        self
    }

    fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn body(self, body: impl Into<String>) -> Self {
        Self { body: body.into(), ..self }
    }
}

impl Random {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(u32::try_from(of.len()).unwrap()) as usize]
    }

    fn is_once_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }
}

/// Creates the resources of the other requests.
pub(super) fn preparation() -> Vec<Request> {
    let mut all: Vec<_> = TABLES.iter().map(|name| create_table(name)).collect();
    all.extend(QUEUES.map(|name| Request::new(Service::Queue, "PUT", format!("/{name}"))));
    for container in CONTAINERS {
        let put = |target: String| Request::new(Service::Blob, "PUT", target);
        all.push(put(format!("/{container}?restype=container")));
        for (name, kind) in BLOBS.into_iter().zip(["BlockBlob", "AppendBlob"]) {
            all.push(put(format!("/{container}/{name}")).header("x-ms-blob-type", kind));
        }
    }
    all
}

/// Any request that changes something, or is refused. Most go to one service.
pub(super) fn any(random: &mut Random, known: &Known, mostly: Service) -> Request {
    let service = if random.is_once_in(3) { random.one(&SERVICES) } else { mostly };
    if random.is_once_in(40) {
        let seconds = random.below(100);
        return Request::new(service, "PUT", "/?restype=service&comp=properties".to_owned()).body(
            format!(
                "<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceProperties><Cors>\
                 <CorsRule><AllowedOrigins>http://a</AllowedOrigins><AllowedMethods>GET\
                 </AllowedMethods><MaxAgeInSeconds>{seconds}</MaxAgeInSeconds><ExposedHeaders>\
                 </ExposedHeaders><AllowedHeaders></AllowedHeaders></CorsRule></Cors>\
                 </StorageServiceProperties>"
            ),
        );
    }
    match service {
        Service::Table => table(random, known),
        Service::Queue => queue(random, known),
        Service::Blob if random.is_once_in(6) => container(random),
        Service::Blob => blob(random, known),
    }
}

/// The first requests: properties, lists and documents.
pub(super) fn overview() -> Vec<Request> {
    let mut all = vec![Request::new(Service::Table, "GET", "/Tables".to_owned())];
    let mut get = |service, target: String| all.push(Request::new(service, "GET", target));
    for service in SERVICES {
        get(service, "/?restype=service&comp=properties".to_owned());
    }
    for name in TABLES {
        get(Service::Table, format!("/{name}()"));
        get(Service::Table, format!("/{name}?comp=acl"));
    }
    get(Service::Queue, "/?comp=list&include=metadata".to_owned());
    for name in QUEUES {
        get(Service::Queue, format!("/{name}?comp=acl"));
        get(Service::Queue, format!("/{name}/messages?peekonly=true&numofmessages=32"));
    }
    get(Service::Blob, "/?comp=list&include=metadata".to_owned());
    for container in CONTAINERS {
        get(Service::Blob, format!("/{container}?restype=container&comp=acl"));
    }
    all
}

/// The list of the blobs in a container, and the requests for them.
pub(super) fn of_containers(known: &Known) -> Vec<(Request, Vec<Request>)> {
    let get = |target: String| Request::new(Service::Blob, "GET", target);
    let all = CONTAINERS.iter().map(|container| {
        let include = "include=snapshots,metadata,uncommittedblobs,copy,tags";
        let list = get(format!("/{container}?restype=container&comp=list&{include}"))
            .header("x-ms-version", "2020-10-02");
        let mut parts = Vec::new();
        for name in BLOBS {
            let target = format!("/{container}/{name}");
            let snapshots = known.snapshots.iter();
            parts.extend(snapshots.filter(|one| one.starts_with(&target)).cloned().map(get));
            parts.push(get(format!("{target}?comp=blocklist&blocklisttype=all")));
            parts.push(get(target));
        }
        (list, parts)
    });
    all.collect()
}

fn create_table(name: &str) -> Request {
    let body = format!("{{\"TableName\":\"{name}\"}}");
    Request::new(Service::Table, "POST", "/Tables".to_owned()).body(body)
}

fn policies(random: &mut Random) -> String {
    let mut xml = "<?xml version=\"1.0\" encoding=\"utf-8\"?><SignedIdentifiers>".to_owned();
    for number in 0..random.below(3) {
        write!(
            xml,
            "<SignedIdentifier><Id>id{number}</Id><AccessPolicy><Start>2026-01-01T00:00:00.0000000Z\
             </Start><Permission>r</Permission></AccessPolicy></SignedIdentifier>"
        )
        .unwrap();
    }
    xml + "</SignedIdentifiers>"
}

fn table(random: &mut Random, known: &Known) -> Request {
    let name = random.one(&TABLES);
    let partition = random.one(&["", "p", "größe"]);
    match random.below(20) {
        0 => create_table(name),
        1 if random.is_once_in(3) => {
            Request::new(Service::Table, "DELETE", format!("/Tables('{name}')"))
        }
        1 => {
            Request::new(Service::Table, "PUT", format!("/{name}?comp=acl")).body(policies(random))
        }
        2..=5 => transaction(random, name, partition, known),
        _ => {
            let (method, target, condition, body) = change(random, name, partition, known);
            let request = Request::new(Service::Table, method, target).body(body);
            condition.into_iter().fold(request, |request, tag| request.header("if-match", tag))
        }
    }
}

/// Method, target, `If-Match` and body of a change of an entity.
fn change(
    random: &mut Random,
    table: &str,
    partition: &str,
    known: &Known,
) -> (&'static str, String, Option<String>, String) {
    let row = format!("r{}", random.below(4));
    let mut properties: Vec<&str> = Vec::new();
    properties.extend(PROPERTIES.iter().filter(|_| random.is_once_in(3)));
    let method = random.one(&["POST", "POST", "PUT", "MERGE", "DELETE"]);
    if method == "POST" {
        let keys = format!(r#""PartitionKey":"{partition}","RowKey":"{row}""#);
        properties.insert(0, &keys);
        return (method, format!("/{table}"), None, format!("{{{}}}", properties.join(",")));
    }
    let partition = partition.replace('ö', "%C3%B6").replace('ß', "%C3%9F");
    let target = format!("/{table}(PartitionKey='{partition}',RowKey='{row}')");
    let condition = match random.below(3) {
        0 if method != "DELETE" => None,
        1 if !known.tags.is_empty() => {
            let latest = known.tags.len().saturating_sub(8);
            Some(random.one(&known.tags[latest..].iter().collect::<Vec<_>>()).clone())
        }
        _ => Some("*".to_owned()),
    };
    let is_delete = method == "DELETE";
    let body = if is_delete { String::new() } else { format!("{{{}}}", properties.join(",")) };
    (method, target, condition, body)
}

fn transaction(random: &mut Random, table: &str, partition: &str, known: &Known) -> Request {
    let changes: Vec<_> =
        (0..=random.below(4)).map(|_| change(random, table, partition, known)).collect();
    Request::new(Service::Table, "POST", "/$batch".to_owned())
        .header("content-type", "multipart/mixed; boundary=b")
        .body(tables::transaction(changes))
}

fn queue(random: &mut Random, known: &Known) -> Request {
    let name = random.one(&QUEUES);
    let request =
        |method, target: &str| Request::new(Service::Queue, method, format!("/{name}{target}"));
    let note = random.below(3).to_string();
    let text = format!("m{}", random.below(1000));
    let text = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
    let seconds = random.below(50);
    match random.below(20) {
        0 => request("PUT", "").header("X-MS-Meta-Note", note),
        1 if random.is_once_in(3) => request("DELETE", ""),
        1 => request("DELETE", "/messages"),
        2 => request("PUT", "?comp=metadata").header("x-ms-meta-Other", note),
        3 => request("PUT", "?comp=acl").body(policies(random)),
        4..=9 => {
            let hidden = if random.is_once_in(3) { seconds } else { 0 };
            let lives = random.one(&["60", "200", "-1", "604800"]);
            let options = format!("?visibilitytimeout={hidden}&messagettl={lives}");
            request("POST", &format!("/messages{options}")).body(text)
        }
        number if number < 14 || known.messages.is_empty() => {
            let count = random.below(3) + 1;
            let options = format!("?numofmessages={count}&visibilitytimeout={}", seconds + 1);
            request("GET", &format!("/messages{options}"))
        }
        number => {
            // One of the latest, whose receipt may be good.
            let from = known.messages.len().saturating_sub(6);
            let latest: Vec<usize> = (from..known.messages.len()).collect();
            let message = random.one(&latest);
            let target = format!("{}/messages/{MESSAGE}", known.messages[message]);
            let request = if number < 16 {
                Request::new(Service::Queue, "DELETE", target)
            } else {
                let target = format!("{target}&visibilitytimeout={seconds}");
                let text = if number == 16 { String::new() } else { text };
                Request::new(Service::Queue, "PUT", target).body(text)
            };
            Request { message, ..request }
        }
    }
}

/// A lease operation on a container or a blob.
fn lease(random: &mut Random, target: &str) -> Request {
    let separator = if target.contains('?') { '&' } else { '?' };
    let [first, second] = [random.one(&LEASES), random.one(&LEASES)];
    let request = Request::new(Service::Blob, "PUT", format!("{target}{separator}comp=lease"));
    let action = random.one(&["acquire", "acquire", "renew", "change", "release", "break"]);
    let request = request.header("x-ms-lease-action", action);
    match action {
        "acquire" => request
            .header("x-ms-lease-duration", random.one(&["15", "60", "-1"]))
            .header("x-ms-proposed-lease-id", first),
        "break" => request.header("x-ms-lease-break-period", random.one(&["0", "20"])),
        "change" => request.header("x-ms-lease-id", first).header("x-ms-proposed-lease-id", second),
        _ => request.header("x-ms-lease-id", first),
    }
}

fn container(random: &mut Random) -> Request {
    let target = format!("/{}?restype=container", random.one(&CONTAINERS));
    let request =
        |method, query: &str| Request::new(Service::Blob, method, format!("{target}{query}"));
    match random.below(8) {
        0..=2 => request("PUT", "").header("x-ms-meta-Note", "new"),
        3 if random.is_once_in(4) => request("DELETE", ""),
        3..=4 => request("PUT", "&comp=metadata").header("x-ms-meta-Note", "other"),
        5 => request("PUT", "&comp=acl")
            .header("x-ms-blob-public-access", random.one(&["blob", "container"]))
            .body(policies(random)),
        _ => lease(random, &target),
    }
}

fn blob(random: &mut Random, known: &Known) -> Request {
    let number = random.below(31);
    let name = match number {
        _ if random.is_once_in(10) => random.one(&BLOBS),
        0..=8 => BLOBS[0],
        9..=16 => BLOBS[1],
        _ => random.one(&BLOBS),
    };
    let container = CONTAINERS[usize::from(random.is_once_in(4))];
    let target = format!("/{container}/{name}");
    let request = |query: &str| Request::new(Service::Blob, "PUT", format!("{target}{query}"));
    // Some are longer than one chunk.
    let length = if random.is_once_in(12) { 70_000 } else { random.below(200) };
    let letter = char::from(b'a' + u8::try_from(random.below(26)).unwrap());
    let content = letter.to_string().repeat(length as usize);
    let id = random.one(&["AAAA", "AAAA", "AAAB"]);
    let request = match number {
        0 => request("")
            .header("x-ms-blob-type", "BlockBlob")
            .header("x-ms-blob-content-language", "de")
            .header("x-ms-meta-Note", "put")
            .body(content),
        1..=4 => request(&format!("?comp=block&blockid={id}")).body(content),
        5..=8 => {
            let latest = known.staged.last().filter(|_| !random.is_once_in(4));
            let (target, id) = latest.cloned().unwrap_or_else(|| (target, "AAAB".to_owned()));
            let mut list = format!("<Latest>{id}</Latest>");
            if random.is_once_in(3) {
                let source = random.one(&["Latest", "Committed", "Uncommitted"]);
                write!(list, "<{source}>AAAA</{source}>").unwrap();
            }
            Request::new(Service::Blob, "PUT", format!("{target}?comp=blocklist"))
                .body(format!("<BlockList>{list}</BlockList>"))
        }
        9..=10 => request("").header("x-ms-blob-type", "AppendBlob"),
        11..=15 => request("?comp=appendblock").body(content),
        16 if random.is_once_in(4) => request("?comp=seal").header("x-ms-version", "2020-10-02"),
        16..=18 => request("?comp=snapshot"),
        19 => {
            let which = random.one(&["include", "only"]);
            Request::new(Service::Blob, "DELETE", target).header("x-ms-delete-snapshots", which)
        }
        20 => match known.snapshots.last() {
            Some(snapshot) => Request::new(Service::Blob, "DELETE", snapshot.clone()),
            None => Request::new(Service::Blob, "DELETE", target),
        },
        21 => request("?comp=metadata").header("X-MS-Meta-Other", letter),
        22 => request("?comp=properties").header("x-ms-blob-content-type", "t/u"),
        23..=24 => {
            let (from, name) = (random.one(&CONTAINERS), random.one(&BLOBS));
            let source = format!("http://localhost/{DEVELOPMENT_ACCOUNT}/{from}/{name}");
            request("").header("x-ms-copy-source", source)
        }
        25 => {
            // Mostly tiers that do not keep the blob from being changed.
            let tier = random.one(&["Cool", "Cold", "Hot", "Cool", "Cold", "Hot", "Archive"]);
            request("?comp=tier").header("x-ms-access-tier", tier)
        }
        26 => request("?comp=tags").body(format!(
            "<Tags><TagSet><Tag><Key>letter</Key><Value>{letter}</Value></Tag></TagSet></Tags>"
        )),
        27 => request("")
            .header("x-ms-blob-type", "BlockBlob")
            .header("x-ms-access-tier", "Cold")
            .header("x-ms-tags", format!("a={letter}&b=")),
        _ => return lease(random, &target),
    };
    if random.is_once_in(6) {
        request.header("x-ms-lease-id", random.one(&LEASES))
    } else {
        request
    }
}
