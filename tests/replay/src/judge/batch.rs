//! The answers in a batch.

use std::iter::zip;

use super::{Judge, Level, TABLE_ETAG, media};
use crate::exchange::Headers;
use crate::text::{self, BATCH_LINE, pattern};

pattern! {
    PART = r"HTTP/1\.1 (\d{3})[^\r\n]*\r?\n((?:[^\r\n]+\r?\n)*)\r?\n";
}

struct Part {
    status: u16,
    headers: Headers,
    body: String,
}

fn parts(batch: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    for found in PART.captures_iter(batch) {
        let rest = found.get(0).and_then(|it| batch.get(it.end()..)).unwrap_or_default();
        let Some(end) = rest.find("\n--") else { continue };
        let body = rest.get(..end).unwrap_or_default();
        let lines = found[2].lines().filter_map(|line| line.split_once(':'));
        let headers = lines.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
        let body = body.strip_suffix('\r').unwrap_or(body).to_owned();
        parts.push(Part {
            status: found[1].parse().unwrap_or(0),
            headers: headers.collect(),
            body,
        });
    }
    parts
}

impl Judge<'_> {
    pub(super) fn batch(&mut self, recorded: &str, live: &str) {
        let (old, new) = (parts(recorded), parts(live));
        let wrapped = |text: &str| text.contains("boundary=changeset");
        if wrapped(recorded) != wrapped(live) {
            self.note(Level::Body, format!("change set: live {}", wrapped(live)));
        }
        let statuses = |parts: &[Part]| parts.iter().map(|part| part.status).collect::<Vec<_>>();
        if statuses(&old) != statuses(&new) {
            let (was, is) = (statuses(&old), statuses(&new));
            self.note(Level::Status, format!("parts: recorded {was:?}, live {is:?}"));
        }
        let request = self.exchange.text();
        let paths = BATCH_LINE.captures_iter(&request).map(|it| text::unquote(text::path(&it[2])));
        let paths: Vec<String> = paths.collect();
        for (index, (old, new)) in zip(&old, &new).enumerate() {
            let at = format!("part {index}: ");
            let none = Headers::new();
            let code = |part: &Part| text::error_code(&none, part.body.as_bytes());
            self.code(code(old), code(new), &at);
            if !old.body.trim().is_empty() || !new.body.trim().is_empty() {
                self.text(&old.body, &new.body, &format!("{at}$"));
            }
            let get = |part: &Part, name: &str| part.headers.get(name).cloned().unwrap_or_default();
            for name in ["preference-applied", "dataserviceid", "location", "content-type"] {
                let was = media(&self.expected(&get(old, name)));
                let is = media(&self.neutral(&get(new, name)));
                if was != is {
                    self.note(
                        Level::Exact,
                        format!("{at}header {name}: recorded {was}, live {is}"),
                    );
                }
            }
            let (was, is) = (get(old, "etag"), get(new, "etag"));
            if was.is_empty() != is.is_empty() || !is.is_empty() && !TABLE_ETAG.is_match(&is) {
                self.note(Level::Exact, format!("{at}header etag: recorded {was}, live {is}"));
            }
            if !was.is_empty() && !is.is_empty() {
                self.session.learn(&was, &is, paths.get(index).map_or("", String::as_str));
            }
        }
    }
}
