//! Shapes and text. Colours are those of a light card, and of a dark one where the reader prefers
//! dark; a card of its own stays legible on any page.

use std::fmt::Write as _;

/// The meaning of a colour.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tone {
    Ours,
    Theirs,
    Floor,
    Goal,
    Grid,
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text {
    Title,
    Strong,
    Plain,
    Quiet,
}

/// Where a text is, as seen from its point.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

const STYLE: &str = "\
text{font:13px system-ui,-apple-system,'Segoe UI','DejaVu Sans',Arial,sans-serif;fill:#1f2328}\
.title{font-size:17px;font-weight:600}.strong{font-weight:600}.quiet{font-size:12px;fill:#59636e}\
.card{fill:#fff;stroke:#d1d9e0}\
.ours{fill:#0969da;stroke:#0969da}.theirs{fill:#c4661f;stroke:#c4661f}\
.floor{fill:#818b98;stroke:#818b98}.goal{fill:#cf222e;stroke:#cf222e}.grid{fill:#d8dee4;stroke:#d8dee4}\
line,polyline{stroke-width:1}polyline{stroke-width:2.5}polyline[class]{fill:none}\
.goal{stroke-width:2.5}.whisker{stroke:#1f2328;opacity:.55}.dashed{stroke-dasharray:6 4;stroke-width:2}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.quiet{fill:#9da7b3}\
.card{fill:#161b22;stroke:#3d444d}.ours{fill:#4493f8;stroke:#4493f8}\
.theirs{fill:#e38b4f;stroke:#e38b4f}.floor{fill:#8b949e;stroke:#8b949e}\
.goal{fill:#ff7b72;stroke:#ff7b72}.grid{fill:#30363d;stroke:#30363d}.whisker{stroke:#e6edf3}\
}";

/// A drawing that grows.
#[derive(Debug)]
pub(super) struct Svg {
    body: String,
}

impl Svg {
    pub(super) fn new() -> Self {
        Self { body: String::new() }
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), look: Text, anchor: Anchor, text: &str) {
        let look = match look {
            Text::Title => "title",
            Text::Strong => "strong",
            Text::Plain => "plain",
            Text::Quiet => "quiet",
        };
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{look}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    pub(super) fn line(&mut self, (x, y): (f64, f64), (to_x, to_y): (f64, f64), tone: Tone) {
        let class = class(tone);
        self.push(format_args!(
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{to_x:.1}\" y2=\"{to_y:.1}\" class=\"{class}\"/>"
        ));
    }

    pub(super) fn dashed(&mut self, (x, y): (f64, f64), to_x: f64, tone: Tone) {
        let class = class(tone);
        self.push(format_args!(
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{to_x:.1}\" y2=\"{y:.1}\" \
             class=\"{class} dashed\"/>"
        ));
    }

    /// How far the rounds were apart.
    pub(super) fn whisker(&mut self, (x, y): (f64, f64), to_x: f64) {
        self.push(format_args!(
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{to_x:.1}\" y2=\"{y:.1}\" class=\"whisker\"/>"
        ));
    }

    pub(super) fn bar(&mut self, (x, y): (f64, f64), width: f64, height: f64, tone: Tone) {
        let class = class(tone);
        self.push(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             class=\"{class}\"/>"
        ));
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), tone: Tone) {
        let class = class(tone);
        self.push(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" class=\"{class}\"/>"));
    }

    pub(super) fn path(&mut self, points: &[(f64, f64)], tone: Tone) {
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let (points, class) = (points.join(" "), class(tone));
        self.push(format_args!("<polyline points=\"{points}\" class=\"{class}\"/>"));
    }

    /// The whole file; `title` is what is read out to a reader who does not see it.
    pub(super) fn finish(self, width: f64, height: f64, title: &str) -> String {
        let (title, body) = (escaped(title), self.body);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>{title}</title>\n\
             <style>{STYLE}</style>\n<rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\" \
             class=\"card\"/>\n{body}</svg>\n",
            width - 1.0,
            height - 1.0,
        )
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.body, "{element}");
    }
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Ours => "ours",
        Tone::Theirs => "theirs",
        Tone::Floor => "floor",
        Tone::Goal => "goal",
        Tone::Grid => "grid",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
