//! XML as a tree: names without prefix, attributes, texts, child elements.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// An element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: String,
    /// Of the root: the namespace that it declares for itself.
    pub(crate) namespace: String,
    pub(crate) attributes: Vec<(String, String)>,
    /// The text before the first child.
    pub(crate) text: String,
    pub(crate) children: Vec<Element>,
}

impl Element {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut reader = Reader::from_str(text);
        let mut open: Vec<Self> = Vec::new();
        let mut root = None;
        loop {
            let event = reader.read_event().map_err(|error| error.to_string())?;
            let closed = match event {
                Event::Start(start) => {
                    open.push(Self::of(&start)?);
                    None
                }
                Event::Empty(start) => Some(Self::of(&start)?),
                Event::End(_) => open.pop(),
                Event::Text(piece) => {
                    let piece = piece.replace("\r\n", "\n");
                    Self::append(&mut open, &piece);
                    None
                }
                Event::CData(piece) => {
                    Self::append(&mut open, &piece);
                    None
                }
                Event::GeneralRef(reference) => {
                    let name = reference.to_string();
                    let character =
                        reference.resolve_char_ref().map_err(|error| error.to_string())?;
                    let text = match character {
                        Some(character) => character.to_string(),
                        None => quick_xml::escape::resolve_predefined_entity(&name)
                            .ok_or_else(|| format!("unknown entity &{name};"))?
                            .to_owned(),
                    };
                    Self::append(&mut open, &text);
                    None
                }
                Event::Eof if open.is_empty() => {
                    return root.ok_or_else(|| "there is no element".to_owned());
                }
                Event::Eof => return Err("an element is not closed".to_owned()),
                _ => None,
            };
            if let Some(element) = closed {
                match open.last_mut() {
                    Some(parent) => parent.children.push(element),
                    None => root = Some(element),
                }
            }
        }
    }

    fn of(start: &BytesStart<'_>) -> Result<Self, String> {
        let name = start.name().as_ref().to_owned();
        let (prefix, local) = name.split_once(':').unwrap_or(("", &name));
        let mut element = Self { name: local.to_owned(), ..Self::default() };
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| error.to_string())?;
            let key = attribute.key.as_ref().to_owned();
            let value = quick_xml::escape::unescape(&attribute.value)
                .map_err(|error| error.to_string())?
                .into_owned();
            if key == "xmlns" || key.starts_with("xmlns:") {
                if key.strip_prefix("xmlns").unwrap_or_default().trim_start_matches(':') == prefix {
                    element.namespace = value;
                }
            } else {
                let local = key.rsplit(':').next().unwrap_or_default().to_owned();
                element.attributes.push((local, value));
            }
        }
        Ok(element)
    }

    fn append(open: &mut [Self], text: &str) {
        if let Some(element) = open.last_mut()
            && element.children.is_empty()
        {
            element.text.push_str(text);
        }
    }

    /// The text of the first child of a name.
    pub(crate) fn child(&self, name: &str) -> Option<&str> {
        self.children.iter().find(|child| child.name == name).map(|child| child.text.as_str())
    }

    pub(crate) fn attribute(&self, name: &str) -> &str {
        self.attributes.iter().find(|(it, _)| it == name).map_or("", |(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::Element;

    #[test]
    fn references_and_attributes_are_resolved() {
        let root = Element::read("<a x='1&amp;2'><b>p&lt;&#65;q</b><c/></a>").unwrap();
        assert_eq!(root.attribute("x"), "1&2");
        assert_eq!(root.child("b"), Some("p<Aq"));
        assert_eq!(root.children.len(), 2);
        assert!(Element::read("<a><b></a>").is_err());
    }
}
