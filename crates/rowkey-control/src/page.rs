//! The page for browsers: its files, which are part of the program.
//!
//! The folder `page` has them as they are written: modules of JavaScript, which need no build. The compiler leaves out
//! comments, indentation, and spaces that separate no words, so that all files together stay below 60 KiB.

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::header;

/// A file of the page.
struct File {
    path: &'static str,
    content_type: &'static str,
    content: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const ICON: &str = "image/svg+xml";

/// Nothing comes from elsewhere, and no code or style is in the HTML.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";

/// Embeds the file at a path of the folder, without what [`strip`] leaves out.
macro_rules! file {
    ($path:literal, $name:literal, $content_type:expr) => {{
        const SOURCE: &str = include_str!(concat!("../page/", $name));
        const IS_STYLE: bool = matches!($content_type.as_bytes(), b"text/css; charset=utf-8");
        const LENGTH: usize = strip(SOURCE, IS_STYLE, &mut [0; SOURCE.len()]);
        static CONTENT: [u8; LENGTH] = {
            let mut whole = [0; SOURCE.len()];
            strip(SOURCE, IS_STYLE, &mut whole);
            let (mut content, mut at) = ([0; LENGTH], 0);
            while at < LENGTH {
                content[at] = whole[at];
                at += 1;
            }
            content
        };
        File { path: $path, content_type: $content_type, content: &CONTENT }
    }};
}

static FILES: [File; 16] = [
    file!("/", "index.html", HTML),
    file!("/icon.svg", "icon.svg", ICON),
    file!("/style.css", "style.css", STYLE),
    file!("/app.js", "app.js", SCRIPT),
    file!("/api.js", "api.js", SCRIPT),
    file!("/blobs.js", "blobs.js", SCRIPT),
    file!("/controls.js", "controls.js", SCRIPT),
    file!("/cost.js", "cost.js", SCRIPT),
    file!("/entity.js", "entity.js", SCRIPT),
    file!("/journal.js", "journal.js", SCRIPT),
    file!("/queues.js", "queues.js", SCRIPT),
    file!("/rows.js", "rows.js", SCRIPT),
    file!("/tables.js", "tables.js", SCRIPT),
    file!("/types.js", "types.js", SCRIPT),
    file!("/ui.js", "ui.js", SCRIPT),
    file!("/vendor/htm-preact.js", "vendor/htm-preact.js", SCRIPT),
];

/// Writes a file without its comments and its indentation; returns the length of what it wrote.
///
/// A comment is a line that begins with `//`, or with `/*` and ends with `*/`: comments after code, and those of
/// several lines, would stay. (A test of the page refuses them.) A line that ends with `,`, `;` or an opening bracket
/// continues on the next one. Spaces beside `=>` and inside `{ }` are left out, also of texts, and in style sheets those
/// beside other punctuation, and the `;` before a closing bracket.
const fn strip(source: &str, is_style: bool, out: &mut [u8]) -> usize {
    let (source, mut length, mut start) = (source.as_bytes(), 0, 0);
    while start < source.len() {
        let mut end = start;
        while end < source.len() && source[end] != b'\n' {
            end += 1;
        }
        let next = end + 1;
        while start < end && source[start] == b' ' {
            start += 1;
        }
        if start < end && !is_comment(source, start, end) {
            let mut at = start;
            while at < end {
                if is_needed(source, at, is_style) {
                    out[length] = source[at];
                    length += 1;
                }
                at += 1;
            }
            if !is_style && !matches!(source[end - 1], b',' | b';' | b'{' | b'(' | b'[') {
                out[length] = b'\n';
                length += 1;
            }
        }
        start = next;
    }
    length
}

const fn is_comment(source: &[u8], start: usize, end: usize) -> bool {
    if end - start < 2 || source[start] != b'/' {
        return false;
    }
    let is_block = source[start + 1] == b'*' && source[end - 2] == b'*' && source[end - 1] == b'/';
    source[start + 1] == b'/' || is_block
}

/// Whether the byte at `at` of a line means something: a space, if it separates two words.
const fn is_needed(source: &[u8], at: usize, is_style: bool) -> bool {
    let is_after = at > 0 && matches!(source[at - 1], b':' | b';' | b',' | b'{' | b'}');
    let is_before = at + 1 < source.len() && matches!(source[at + 1], b'{' | b'}');
    match source[at] {
        b' ' if is_style => !is_after && !is_before,
        b' ' => {
            let is_inside = (at > 0 && source[at - 1] == b'{')
                || (at + 1 < source.len() && source[at + 1] == b'}');
            !is_inside && !is_arrow(source, at + 1) && (at < 2 || !is_arrow(source, at - 2))
        }
        b';' if is_style => {
            at + 2 >= source.len() || source[at + 1] != b' ' || source[at + 2] != b'}'
        }
        _ => true,
    }
}

const fn is_arrow(source: &[u8], at: usize) -> bool {
    at + 1 < source.len() && source[at] == b'=' && source[at + 1] == b'>'
}

/// Whether a path is a file of the page.
pub(crate) fn has(path: &str) -> bool {
    FILES.iter().any(|file| file.path == path)
}

/// The files of the page.
pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let add = |router: Router<S>, file: &'static File| {
        router.route(file.path, get(move || async move { file.response() }))
    };
    FILES.iter().fold(Router::new(), add)
}

impl File {
    fn response(&self) -> Response {
        let headers = [
            (header::CONTENT_TYPE, self.content_type),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            // The next start may be of another version.
            (header::CACHE_CONTROL, "no-cache"),
        ];
        (headers, self.content).into_response()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::Path;

    use super::*;

    /// What [`strip`] leaves of a text.
    fn stripped(source: &str, is_style: bool) -> String {
        let mut out = vec![0; source.len() + 1];
        let length = strip(source, is_style, &mut out);
        String::from_utf8(out[..length].to_vec()).unwrap()
    }

    #[test]
    fn all_files_together_have_at_most_60_kib() {
        let length: usize = FILES.iter().map(|file| file.content.len()).sum();
        assert!(length <= 60 * 1024, "{length} bytes");
        assert!(length > 40 * 1024, "{length} bytes: a file is missing");
    }

    #[test]
    fn comments_and_indentation_are_left_out() {
        let code = "// What it is.\nconst a = [\n  1,\n  2\n];\n\n/** Says b. */\n  f(a / 2)\n  // why\n`//x`\n";
        assert_eq!(stripped(code, false), "const a = [1,2\n];f(a / 2)\n`//x`\n");
    }

    #[test]
    fn spaces_beside_arrows_and_inside_brackets_are_left_out() {
        assert_eq!(stripped("f(() => a = b >= 1 => c)\n=> ", false), "f(()=>a = b >= 1=>c)\n=>\n");
        assert_eq!(
            stripped("const { a } = { b } ;`${a} {c`", false),
            "const {a} = {b} ;`${a} {c`\n"
        );
    }

    #[test]
    fn spaces_between_words_of_style_sheets_stay() {
        let style =
            "/* The look. */\nnav a, p { margin: 0 auto; color: var(--x); }\na :is(b) { }\n";
        assert_eq!(stripped(style, true), "nav a,p{margin:0 auto;color:var(--x)}a :is(b){}");
    }

    #[test]
    fn each_file_that_the_page_names_is_served() {
        for file in &FILES {
            let content = std::str::from_utf8(file.content).unwrap();
            let is_file = |word: &&str| {
                let extension = Path::new(word).extension().and_then(OsStr::to_str);
                matches!(extension, Some("js" | "css" | "svg")) && !word.contains(' ')
            };
            for name in content.split(['"', '\'']).filter(is_file) {
                assert!(has(name.trim_start_matches('.')), "{} names {name}", file.path);
            }
        }
        assert!(!has("/cost.rs"));
    }
}
