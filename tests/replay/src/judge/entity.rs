//! Bodies of JSON: entities, tables, errors.

use std::iter::zip;
use std::mem::discriminant;

use super::{Judge, Level, TABLE_ETAG};
use crate::json::Json;
use crate::text::{STAMP, canonical_stamp, pattern};

pattern! {
    PADDED = r"\.(\d*0)?Z$";
    TIMESTAMP = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,7})?Z$";
}

impl Judge<'_> {
    pub(super) fn json_texts(
        &mut self,
        recorded: &str,
        live: &str,
        at: &str,
    ) -> Result<(), String> {
        let (recorded, live) = (Json::read(recorded)?, Json::read(live)?);
        let (recorded, live) = (self.own_tables(recorded), self.own_tables(live));
        self.json(&recorded, &live, at);
        Ok(())
    }

    /// Keeps only the resources of the run in a listing of the account.
    fn own_tables(&self, mut value: Json) -> Json {
        if self.exchange.op() == "QueryTables"
            && let Json::Object(members) = &mut value
            && let Some((_, Json::List(rows))) =
                members.iter_mut().find(|(name, _)| name == "value")
        {
            rows.retain(|row| {
                let name = row.get("TableName").and_then(Json::text);
                name.is_some_and(|name| self.session.owns(name))
            });
        }
        value
    }

    fn differ(&mut self, level: Level, at: &str, recorded: &Json, live: &Json) {
        self.note(level, format!("{at}: recorded {recorded}, live {live}"));
    }

    fn json(&mut self, recorded: &Json, live: &Json, at: &str) {
        match (recorded, live) {
            (Json::Object(old), Json::Object(new)) => {
                for (name, value) in old.iter().filter(|(name, _)| live.get(name).is_none()) {
                    self.note(Level::Body, format!("{at}.{name}: missing, recorded {value}"));
                }
                for (name, value) in new.iter().filter(|(name, _)| recorded.get(name).is_none()) {
                    self.note(Level::Body, format!("{at}.{name}: not recorded, live {value}"));
                }
                let order = |members: &[(String, Json)], other: &Json| {
                    let common = members.iter().filter(|(name, _)| other.get(name).is_some());
                    common.map(|(name, _)| name.clone()).collect::<Vec<_>>()
                };
                let (was, is) = (order(old, live), order(new, recorded));
                if was != is {
                    let text = format!("{at}: order of properties: recorded {was:?}, live {is:?}");
                    self.note(Level::Exact, text);
                }
                for (name, value) in old {
                    if let Some(other) = live.get(name) {
                        self.member(name, value, other, &format!("{at}.{name}"));
                    }
                }
            }
            (Json::List(old), Json::List(new)) => {
                if old.len() != new.len() {
                    let (was, is) = (old.len(), new.len());
                    self.note(Level::Body, format!("{at}: recorded {was} items, live {is}"));
                }
                for (index, (old, new)) in zip(old, new).enumerate() {
                    self.json(old, new, &format!("{at}[{index}]"));
                }
            }
            _ => self.value(recorded, live, at),
        }
    }

    fn value(&mut self, recorded: &Json, live: &Json, at: &str) {
        #[expect(clippy::cast_precision_loss, reason = "the recorder had lost it before")]
        let number = |value: &Json| match value {
            Json::Double(value) => Some(*value),
            Json::Integer(value) if self.exchange.loose_numbers => Some(*value as f64),
            _ => None,
        };
        if let Some((was, is)) = number(recorded).zip(number(live)) {
            // The last digits of a double are not spelled alike by all writers.
            if (was - is).abs() > 1e-14 * was.abs() {
                self.differ(Level::Body, at, recorded, live);
            }
        } else if discriminant(recorded) != discriminant(live) || recorded != live {
            let instant = recorded.text().filter(|it| STAMP.is_match(it)).zip(live.text());
            let same = instant.is_some_and(|(was, is)| canonical_stamp(was) == canonical_stamp(is));
            self.differ(if same { Level::Exact } else { Level::Body }, at, recorded, live);
        }
    }

    fn member(&mut self, name: &str, recorded: &Json, live: &Json, at: &str) {
        let (Some(was), is) = (recorded.text(), live.text().unwrap_or_default()) else {
            self.json(recorded, live, at);
            return;
        };
        let kind = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
        match name {
            "Timestamp" => {
                if !TIMESTAMP.is_match(is) {
                    self.differ(Level::Body, at, recorded, live);
                } else if PADDED.is_match(is) {
                    self.note(Level::Exact, format!("{at}: trailing zeros in {is}"));
                }
                self.session.learn(was, is, "");
            }
            "odata.etag" => {
                if !TABLE_ETAG.is_match(is) {
                    let level = if is.starts_with("W/\"") { Level::Exact } else { Level::Body };
                    self.differ(level, at, recorded, live);
                }
                self.session.learn(was, is, "");
            }
            "odata.type" => {
                if kind(was) != kind(is) {
                    self.differ(Level::Body, at, recorded, live);
                }
            }
            _ if at.ends_with("odata.error.message.value") => self.message(was, is, at),
            _ => self.json(recorded, live, at),
        }
    }
}
