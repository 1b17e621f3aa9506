//! The panels as one page of HTML, which needs no network: drawings are in it, light or dark as the reader prefers.

use std::fmt::Write as _;

use super::exposition::History;
pub use super::plot::Mark;
use super::plot::{self, escaped};
use super::{Panel, Section, Unit};

const STYLE: &str = include_str!("page.css");

/// A figure at the top of the page.
#[derive(Debug)]
pub struct Figure {
    /// What it is.
    pub name: &'static str,
    /// With its unit.
    pub value: String,
}

/// What is above the panels.
#[derive(Debug)]
pub struct Head<'a> {
    pub title: &'a str,
    pub note: &'a str,
    pub figures: &'a [Figure],
    /// Times in which something was different.
    pub marks: &'a [Mark],
}

/// The page.
pub fn page(head: &Head<'_>, sections: &[Section], history: &History) -> String {
    let title = escaped(head.title);
    let mut body = format!("<header><h1>{title}</h1><p>{}</p></header>", escaped(head.note));
    body.push_str("<div class=\"figures\">");
    for figure in head.figures {
        let (name, value) = (escaped(figure.name), escaped(&figure.value));
        let _ = write!(body, "<div><b>{value}</b><span>{name}</span></div>");
    }
    body.push_str("</div><ol>");
    for mark in head.marks {
        let (from, to) = (plot::clock(mark.from), plot::clock(mark.to));
        let _ =
            write!(body, "<li><b>{}</b> {from} to {to}: {}</li>", mark.letter, escaped(mark.text));
    }
    body.push_str("</ol>");
    for section in sections {
        let _ = write!(body, "<h2>{}</h2><div class=\"panels\">", escaped(section.title));
        for panel in &section.panels {
            body.push_str(&card(panel, history, head.marks));
        }
        body.push_str("</div>");
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head>\n<body>{body}</body></html>\n"
    )
}

fn card(panel: &Panel, history: &History, marks: &[Mark]) -> String {
    let lines = panel.queries.iter().flat_map(|query| query.lines(history)).collect();
    let drawing = plot::draw(panel, lines, history.span(), marks);
    let (title, note) = (escaped(panel.title), escaped(panel.note));
    format!("<section><h3>{title}</h3><p>{note}</p>{drawing}</section>")
}

/// A value for the top of the page.
pub fn figure(name: &'static str, value: f64, unit: FigureUnit) -> Figure {
    let unit = match unit {
        FigureUnit::Number => Unit::Number,
        FigureUnit::PerSecond => Unit::PerSecond,
        FigureUnit::Seconds => Unit::Seconds,
    };
    Figure { name, value: plot::shown(value, unit) }
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug)]
pub enum FigureUnit {
    /// A count.
    Number,
    /// A rate.
    PerSecond,
    /// A duration.
    Seconds,
}
