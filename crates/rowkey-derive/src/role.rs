//! The role of a field: determined by its attributes, some of which exclude each other.

use proc_macro2::Span;
use syn::{Error, Ident, LitInt, LitStr, Path, Result, Type};

use crate::attrs::{DefaultValue, Field as Attrs, System};
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
        /// The largest value in bytes that stays in the row nevertheless; 0 for none.
        threshold: usize,
        /// Whether the blob is compressed.
        compress: bool,
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

/// What the names of a reference's properties have after the name of its field.
const OF_REFERENCE: [&str; 4] = ["", "_Length", "_Sha256", "_ContentType"];

/// The role that a field's attributes determine. Refuses an attribute that would have no effect.
pub(crate) fn role(
    (ident, ty): (&Ident, &Type),
    attrs: Attrs,
    (is_key, is_projection): (bool, bool),
    rename_all: Option<Case>,
) -> Result<Role> {
    let Attrs {
        rename,
        default,
        skip,
        json,
        encrypt,
        blob,
        threshold,
        compress,
        rest,
        stored,
        exact,
        flatten,
        prefix,
        with,
        expiry,
        system,
    } = attrs;
    let converted = with.as_ref().map(|(_, span)| *span);
    let (renamed, defaulted) =
        (rename.as_ref().map(LitStr::span), default.as_ref().map(|d| d.span));
    if let Some(prefix) = prefix.as_ref().filter(|_| flatten.is_none()) {
        let what = "`prefix` requires `flatten`: `flatten, prefix = \"..\"`";
        return Err(Error::new(prefix.span(), what));
    }
    let types = stored.as_ref().map(Ident::span).or(exact);
    let refuse = |span, why: &str| Error::new(span, format!("no effect: `{}` {why}", plain(ident)));
    // Refuses the first attribute given, except those named in `but`.
    let alone = |but: &[&str], why: &str| {
        let given = [
            ("as", types),
            ("rename", renamed),
            ("default", defaulted),
            ("skip", skip),
            ("json", json),
            ("encrypt", encrypt),
            ("blob", blob),
            ("threshold", threshold.as_ref().map(LitInt::span)),
            ("compress", compress),
            ("rest", rest),
            ("flatten", flatten),
            ("with", converted),
        ];
        let mut others = given.into_iter().filter(|(name, _)| !but.contains(name));
        others.find_map(|(_, span)| span).map_or(Ok(()), |span| Err(refuse(span, why)))
    };
    if expiry.is_some() {
        alone(&["rename"], "is the expiry, which a store compares as it is stored by default")?;
    }
    if let Some(span) = expiry.filter(|_| is_key) {
        return Err(refuse(span, "is part of a key, not a property"));
    }
    if is_key {
        alone(&[], "is part of a key, not a property")?;
        return Ok(Role::Key);
    }
    if let Some((system, _)) = system {
        alone(&[], "receives a property that is never absent")?;
        return Ok(Role::System(system));
    }
    if skip.is_some() {
        alone(&["skip", "default"], "is skipped")?;
        return Ok(Role::Skipped(default));
    }
    if rest.is_some() {
        alone(&["rest"], "is not a property: its entries are properties with their own names")?;
        return Ok(Role::Rest);
    }
    if flatten.is_some() {
        alone(&["flatten"], "is not a property: its fields are properties with their own names")?;
        let prefix = prefix.map(|prefix| {
            let text = prefix.value();
            let checked = check_property(&text).map_err(|what| Error::new(prefix.span(), what));
            checked.map(|()| text)
        });
        return Ok(Role::Flatten(prefix.transpose()?.unwrap_or_default()));
    }
    let name = match (&rename, rename_all) {
        (Some(name), _) => name.value(),
        (None, Some(case)) => case.apply(&plain(ident)),
        (None, None) => plain(ident),
    };
    let span = renamed.unwrap_or_else(|| ident.span());
    check_property(&name).map_err(|what| Error::new(span, what))?;
    if is_reference(ty) {
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
        alone(&["blob", "rename"], "is a reference to a blob, whose properties are fixed")?;
        if blob.is_none() {
            let what = format!("`{}` is a reference to a blob: add #[entity(blob)]", plain(ident));
            return Err(Error::new(ident.span(), what));
        }
        let names = OF_REFERENCE.map(|end| format!("{name}{end}"));
        let longest = check_property(&names[3]);
        longest.map_err(|what| Error::new(span, what))?;
        return Ok(Role::Reference(names));
    }
    let threshold = options(blob, encrypt, threshold.as_ref(), compress)?;
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
            return Err(refuse(span, why));
        }
    }
    if let Some(span) = converted {
        if let Some(span) = json.or(blob) {
            return Err(refuse(span, "is converted by the functions of `with`"));
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
    Ok(Role::Property {
        name,
        json: json.is_some(),
        encrypt: encrypt.is_some(),
        blob: blob.is_some(),
        threshold,
        compress: compress.is_some(),
        with: with.map(|(path, _)| path),
        default,
        stored,
        exact: exact.is_some(),
    })
}

/// The largest property that the service stores, in bytes.
const MAX_PROPERTY: usize = 64 << 10;

/// Checks the options of a field in a blob. Returns its threshold.
fn options(
    blob: Option<Span>,
    encrypt: Option<Span>,
    threshold: Option<&LitInt>,
    compress: Option<Span>,
) -> Result<usize> {
    let of_key = "the property of an encrypted field has the key of its blob";
    let of_length = "the length of compressed content tells about the content";
    let given = [
        ("threshold", " = ..", threshold.map(LitInt::span), of_key),
        ("compress", "", compress, of_length),
    ];
    for (name, value, span, why) in given {
        let Some(span) = span else { continue };
        if blob.is_none() {
            let what = format!("`{name}` requires `blob`: #[entity(blob, {name}{value})]");
            return Err(Error::new(span, what));
        }
        if encrypt.is_some() {
            let what = format!("`{name}` cannot be combined with `encrypt`: {why}");
            return Err(Error::new(span, what));
        }
    }
    let Some(literal) = threshold else { return Ok(0) };
    literal.base10_parse().ok().filter(|bytes| (1..=MAX_PROPERTY).contains(bytes)).ok_or_else(|| {
        let what = format!(
            "`threshold` must be between 1 and {MAX_PROPERTY} bytes, the largest property: larger values are in \
             blobs"
        );
        Error::new(literal.span(), what)
    })
}
