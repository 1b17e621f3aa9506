//! The role of a field: determined by its attributes, some of which exclude each other.

use proc_macro2::Span;
use syn::{Error, Ident, LitStr, Path, Result, Type};

use crate::attrs::{DefaultValue, Field as Attrs, System};
use crate::declaration::{Declarations, Marks};
use crate::model::plain;
use crate::names::{Case, check_property};
use crate::types::is_reference;

/// The role of a field.
pub(crate) enum Role {
    /// It is in a key template.
    Key,
    /// It is stored under this name.
    Property {
        name: String,
        json: bool,
        encrypt: bool,
        /// Whether its value is in a blob.
        blob: bool,
        /// A module whose functions convert it.
        with: Option<Path>,
        default: Option<DefaultValue>,
        /// The type that it is stored as, a variant of `edm::Type`.
        stored: Option<Ident>,
        /// Whether every row has this type.
        exact: bool,
    },
    /// It is a reference to a blob, stored under these names, the first of which is that of the address.
    Reference([String; 4]),
    /// Each of its entries is a property with its own name.
    Rest,
    /// Each of its fields is a property with its own name after this prefix.
    Flatten(String),
    /// It is not stored.
    Skipped(Option<DefaultValue>),
    /// It receives one of the properties that every entity has.
    System(System),
}

impl Role {
    /// The names of the properties that the field itself is stored as.
    pub(crate) fn names(&self) -> &[String] {
        match self {
            Self::Property { name, .. } => std::slice::from_ref(name),
            Self::Reference(names) => names,
            _ => &[],
        }
    }
}

/// The attributes of a field, for the checks of those that declare something.
pub(crate) struct Given<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) is_key: bool,
    /// Whether it is a reference to a blob.
    pub(crate) is_reference: bool,
    pub(crate) marks: &'a Marks,
    /// The other attributes: the name of each, and where the field has it.
    others: Vec<(&'static str, Option<Span>)>,
}

impl Given<'_> {
    /// The error of an attribute without effect.
    fn refuse(&self, span: Span, why: &str) -> Error {
        Error::new(span, format!("no effect: `{}` {why}", plain(self.ident)))
    }

    /// Refuses the first attribute given, except those named in `but`.
    pub(crate) fn alone(&self, but: &[&str], why: &str) -> Result<()> {
        let marks = self.marks.names().map(|name| (name, self.marks.span(name)));
        let mut given = self.others.iter().copied().chain(marks);
        let found = given.find_map(|(name, span)| span.filter(|_| !but.contains(&name)));
        found.map_or(Ok(()), |span| Err(self.refuse(span, why)))
    }
}

/// What the names of a reference's properties have after the name of its field.
const OF_REFERENCE: [&str; 4] = ["", "_Length", "_Sha256", "_ContentType"];

/// The role that a field's attributes determine, and what they declare. Refuses an attribute that would have no effect.
pub(crate) fn role(
    (ident, ty): (&Ident, &Type),
    attrs: Attrs,
    (is_key, is_projection): (bool, bool),
    rename_all: Option<Case>,
) -> Result<(Role, Marks)> {
    let Attrs {
        rename,
        default,
        skip,
        json,
        marks,
        rest,
        stored,
        exact,
        flatten,
        prefix,
        with,
        system,
    } = attrs;
    let [encrypt, blob, compress] = ["encrypt", "blob", "compress"].map(|name| marks.span(name));
    let converted = with.as_ref().map(|(_, span)| *span);
    let (renamed, defaulted) =
        (rename.as_ref().map(LitStr::span), default.as_ref().map(|d| d.span));
    if let Some(prefix) = prefix.as_ref().filter(|_| flatten.is_none()) {
        let what = "`prefix` requires `flatten`: `flatten, prefix = \"..\"`";
        return Err(Error::new(prefix.span(), what));
    }
    let types = stored.as_ref().map(Ident::span).or(exact);
    let others = vec![
        ("as", types),
        ("rename", renamed),
        ("default", defaulted),
        ("skip", skip),
        ("json", json),
        ("rest", rest),
        ("flatten", flatten),
        ("with", converted),
    ];
    let given = Given { ident, is_key, is_reference: is_reference(ty), marks: &marks, others };
    Declarations::check_field(&given)?;
    if is_key {
        given.alone(&[], "is part of a key, not a property")?;
        return Ok((Role::Key, marks));
    }
    if let Some((system, _)) = system {
        given.alone(&[], "receives a property that is never absent")?;
        return Ok((Role::System(system), marks));
    }
    if skip.is_some() {
        given.alone(&["skip", "default"], "is skipped")?;
        return Ok((Role::Skipped(default), marks));
    }
    if rest.is_some() {
        given.alone(
            &["rest"],
            "is not a property: its entries are properties with their own names",
        )?;
        return Ok((Role::Rest, marks));
    }
    if flatten.is_some() {
        given.alone(
            &["flatten"],
            "is not a property: its fields are properties with their own names",
        )?;
        let prefix = prefix.map(|prefix| {
            let text = prefix.value();
            let checked = check_property(&text).map_err(|what| Error::new(prefix.span(), what));
            checked.map(|()| text)
        });
        return Ok((Role::Flatten(prefix.transpose()?.unwrap_or_default()), marks));
    }
    let name = match (&rename, rename_all) {
        (Some(name), _) => name.value(),
        (None, Some(case)) => case.apply(&plain(ident)),
        (None, None) => plain(ident),
    };
    let span = renamed.unwrap_or_else(|| ident.span());
    check_property(&name).map_err(|what| Error::new(span, what))?;
    if given.is_reference {
        if let Some(span) = encrypt {
            let what = "`encrypt` cannot be combined with a `BlobRef`: its content is streamed, read in parts and \
                        linked to; encrypt it before the upload, or make the field a `Vec<u8>`";
            return Err(Error::new(span, what));
        }
        if let Some(span) = compress {
            let what = "`compress` cannot be combined with a `BlobRef`: ranges and links read what was uploaded; \
                        upload compressed content with its `Content-Encoding`";
            return Err(Error::new(span, what));
        }
        given.alone(&["blob", "rename"], "is a reference to a blob, whose properties are fixed")?;
        if blob.is_none() {
            let what = format!("`{}` is a reference to a blob: add #[entity(blob)]", plain(ident));
            return Err(Error::new(ident.span(), what));
        }
        let names = OF_REFERENCE.map(|end| format!("{name}{end}"));
        let longest = check_property(&names[3]);
        longest.map_err(|what| Error::new(span, what))?;
        return Ok((Role::Reference(names), marks));
    }
    if let Some(blob) = blob.filter(|_| is_projection) {
        let what =
            "`blob` is only valid in entities, and on a `BlobRef`: projections read no blobs";
        return Err(Error::new(blob, what));
    }
    if let Some(span) = types {
        let fixed = [
            (json, "is stored as JSON in a String"),
            (blob, "is stored in a blob"),
            (encrypt, "is stored encrypted, as a Binary"),
            (converted, "is converted by the functions of `with`"),
        ];
        if let Some((_, why)) = fixed.into_iter().find(|(given, _)| given.is_some()) {
            return Err(given.refuse(span, why));
        }
    }
    if let Some(span) = converted {
        if let Some(span) = json.or(blob) {
            return Err(given.refuse(span, "is converted by the functions of `with`"));
        }
        if encrypt.is_some() {
            let what = "`encrypt` cannot be combined with `with`; remove `with`, or use `json`";
            return Err(Error::new(span, what));
        }
    }
    if let Some(blob) = blob.filter(|_| default.is_some()) {
        let what = "an absent field in a blob is always the default; remove `default`";
        return Err(Error::new(blob, what));
    }
    let role = Role::Property {
        name,
        json: json.is_some(),
        encrypt: encrypt.is_some(),
        blob: blob.is_some(),
        with: with.map(|(path, _)| path),
        default,
        stored,
        exact: exact.is_some(),
    };
    Ok((role, marks))
}
