//! Service properties: logging, metrics and CORS rules of a whole service.
//!
//! Reference: [Set Table Service Properties](https://learn.microsoft.com/rest/api/storageservices/set-table-service-properties).

use super::element::{Element, Writer, XmlError};

/// The most rules of a service.
const MAX_CORS_RULES: usize = 5;
/// The most origins in a rule.
const MAX_ORIGINS: usize = 64;
/// The most header names in a rule; prefixes (`x-ms-meta-*`) are counted separately.
const MAX_HEADERS: usize = 64;
const MAX_HEADER_PREFIXES: usize = 2;
/// The sections that a request may contain. The last three belong to the Blob service;
/// `DeleteRetentionPolicy` is accepted and ignored.
const SECTIONS: &[&str] = &[
    "Logging",
    "HourMetrics",
    "MinuteMetrics",
    "Cors",
    "DefaultServiceVersion",
    "DeleteRetentionPolicy",
    "StaticWebsite",
];
/// The most days for which logs and metrics may be kept.
const MAX_RETENTION_DAYS: u16 = 365;

/// The properties of a service. A section that is `None` is not sent, and remains unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceProperties {
    /// The requests that are logged.
    pub logging: Option<Logging>,
    /// Metrics by hour.
    pub hour_metrics: Option<Metrics>,
    /// Metrics by minute.
    pub minute_metrics: Option<Metrics>,
    /// The CORS rules, at most 5. If empty, cross-origin requests are not allowed.
    pub cors: Option<Vec<CorsRule>>,
    /// The default version of requests. Only for the Blob service; the others omit and ignore it.
    pub default_service_version: Option<String>,
    /// The static website of the account. Only for the Blob service, like the default version.
    pub static_website: Option<StaticWebsite>,
}

/// Whether the container `$web` is served as a website, and the blobs used as its pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaticWebsite {
    /// Whether it is enabled.
    pub enabled: bool,
    /// The name of the index page in each directory.
    pub index_document: Option<String>,
    /// The path of the index page of the root, instead of `index_document`.
    pub default_index_document_path: Option<String>,
    /// The path of the error page for paths that do not exist.
    pub error_document_404_path: Option<String>,
}

/// Which requests are logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    /// Log read requests.
    pub read: bool,
    /// Log write requests.
    pub write: bool,
    /// Log delete requests.
    pub delete: bool,
    /// For how many days logs are kept, 1 to 365; `None` keeps them forever.
    pub retention_days: Option<u16>,
}

/// Which metrics are collected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Whether metrics are collected.
    pub enabled: bool,
    /// Whether metrics are broken down by operation. Sent only when `enabled`.
    pub include_apis: bool,
    /// For how many days they are kept, 1 to 365; `None` keeps them forever.
    pub retention_days: Option<u16>,
}

/// A CORS rule: what scripts of other origins may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorsRule {
    /// Origins such as `https://example.com`, or a single `*`.
    pub allowed_origins: Vec<String>,
    /// HTTP methods such as `PUT`.
    pub allowed_methods: Vec<String>,
    /// Request headers; a name may end in `*`.
    pub allowed_headers: Vec<String>,
    /// Response headers that scripts can read; a name may end in `*`.
    pub exposed_headers: Vec<String>,
    /// For how many seconds a browser may cache the response to a preflight request.
    pub max_age_seconds: u32,
}

/// Renders the body of a request that sets the sections which are `Some`.
pub fn encode_properties(properties: &ServiceProperties) -> String {
    write(
        Writer::request(),
        properties,
        |on| [("Delete", on.delete), ("Read", on.read), ("Write", on.write)],
        |rule| {
            [
                ("AllowedOrigins", rule.allowed_origins.join(",")),
                ("AllowedMethods", rule.allowed_methods.join(",")),
                ("AllowedHeaders", rule.allowed_headers.join(",")),
                ("ExposedHeaders", rule.exposed_headers.join(",")),
            ]
        },
    )
}

/// Reads the body of a response. Unknown elements are ignored.
pub fn decode_properties(body: &[u8]) -> Result<ServiceProperties, XmlError> {
    let root = Element::read_root(body, "StorageServiceProperties")?;
    let days = |section: &Element| {
        let policy = section.child("RetentionPolicy");
        let days = policy.and_then(|policy| policy.text_of("Days"));
        days.map(|days| days.parse().map_err(|_| XmlError::Value("Days"))).transpose()
    };
    let on = |section: &Element, name: &'static str| {
        section.child(name).map_or(Ok(false), |e| boolean(e, name))
    };
    let metrics = |name| {
        let decode = |section| {
            Ok(Metrics {
                enabled: on(section, "Enabled")?,
                include_apis: on(section, "IncludeAPIs")?,
                retention_days: days(section)?,
            })
        };
        root.child(name).map(decode).transpose()
    };
    let logging = root.child("Logging").map(|section| {
        Ok(Logging {
            read: on(section, "Read")?,
            write: on(section, "Write")?,
            delete: on(section, "Delete")?,
            retention_days: days(section)?,
        })
    });
    let cors = root.child("Cors").map(|section| {
        let rules = section.children.iter().filter(|child| child.name == "CorsRule");
        rules
            .map(|rule| read_rule(rule, |name| Ok(rule.text_of(name).unwrap_or_default())))
            .collect()
    });
    Ok(ServiceProperties {
        logging: logging.transpose()?,
        hour_metrics: metrics("HourMetrics")?,
        minute_metrics: metrics("MinuteMetrics")?,
        cors: cors.transpose()?,
        default_service_version: root.text_of("DefaultServiceVersion").map(Into::into),
        static_website: read_static_website(&root)?,
    })
}

/// Reads the body of a request as strictly as the service: only known sections, at least one, each
/// complete; retention of 1 to 365 days exactly when it is enabled; at most 5 rules of at most 64
/// origins, 64 headers and 2 header prefixes.
pub fn parse_properties(body: &[u8]) -> Result<ServiceProperties, XmlError> {
    let root = Element::read_small(body, "StorageServiceProperties")?;
    root.holds_only("StorageServiceProperties", SECTIONS)?;
    if root.children.is_empty() {
        return Err(XmlError::Empty { at: root.end });
    }
    Ok(ServiceProperties {
        logging: root.child("Logging").map(parse_logging).transpose()?,
        hour_metrics: parse_metrics(&root, "HourMetrics")?,
        minute_metrics: parse_metrics(&root, "MinuteMetrics")?,
        cors: root.child("Cors").map(parse_cors).transpose()?,
        default_service_version: root.text_of("DefaultServiceVersion").map(Into::into),
        static_website: read_static_website(&root)?,
    })
}

/// Renders the body of a response. Sections that are `None` are left out; the service itself always
/// writes all four.
pub fn render_properties(properties: &ServiceProperties) -> String {
    write(
        Writer::response(),
        properties,
        |on| [("Read", on.read), ("Write", on.write), ("Delete", on.delete)],
        |rule| {
            [
                ("AllowedMethods", rule.allowed_methods.join(",")),
                ("AllowedOrigins", rule.allowed_origins.join(",")),
                ("AllowedHeaders", prefixes_last(&rule.allowed_headers)),
                ("ExposedHeaders", prefixes_last(&rule.exposed_headers)),
            ]
        },
    )
}

/// Writes the document. `logged` and `lists` return the elements of a section in the order of the
/// client's or the server's side.
fn write(
    mut writer: Writer,
    properties: &ServiceProperties,
    logged: impl Fn(&Logging) -> [(&'static str, bool); 3],
    lists: impl Fn(&CorsRule) -> [(&'static str, String); 4],
) -> String {
    writer.start("StorageServiceProperties");
    if let Some(logging) = &properties.logging {
        writer.start("Logging");
        writer.leaf("Version", "1.0");
        for (name, on) in logged(logging) {
            writer.leaf(name, flag(on));
        }
        write_retention(&mut writer, logging.retention_days);
        writer.end("Logging");
    }
    write_metrics(&mut writer, properties);
    match properties.cors.as_deref() {
        None => {}
        Some([]) => writer.empty("Cors"),
        Some(rules) => {
            writer.start("Cors");
            for rule in rules {
                writer.start("CorsRule");
                for (name, list) in lists(rule) {
                    writer.leaf(name, &list);
                }
                writer.leaf("MaxAgeInSeconds", &rule.max_age_seconds.to_string());
                writer.end("CorsRule");
            }
            writer.end("Cors");
        }
    }
    if let Some(version) = &properties.default_service_version {
        writer.leaf("DefaultServiceVersion", version);
    }
    write_static_website(&mut writer, properties);
    writer.end("StorageServiceProperties");
    writer.finish()
}

fn read_static_website(root: &Element) -> Result<Option<StaticWebsite>, XmlError> {
    let Some(section) = root.child("StaticWebsite") else { return Ok(None) };
    let text = |name| section.text_of(name).map(str::to_owned);
    Ok(Some(StaticWebsite {
        enabled: boolean(section.require("Enabled")?, "Enabled")?,
        index_document: text("IndexDocument"),
        default_index_document_path: text("DefaultIndexDocumentPath"),
        error_document_404_path: text("ErrorDocument404Path"),
    }))
}

fn write_static_website(writer: &mut Writer, properties: &ServiceProperties) {
    let Some(website) = &properties.static_website else { return };
    writer.start("StaticWebsite");
    writer.leaf("Enabled", flag(website.enabled));
    for (name, text) in [
        ("IndexDocument", &website.index_document),
        ("DefaultIndexDocumentPath", &website.default_index_document_path),
        ("ErrorDocument404Path", &website.error_document_404_path),
    ] {
        if let Some(text) = text {
            writer.leaf(name, text);
        }
    }
    writer.end("StaticWebsite");
}

fn parse_logging(section: &Element) -> Result<Logging, XmlError> {
    section.holds_only("Logging", &["Version", "Read", "Write", "Delete", "RetentionPolicy"])?;
    parse_version(section)?;
    let on = |name: &'static str| boolean(section.require(name)?, name);
    Ok(Logging {
        read: on("Read")?,
        write: on("Write")?,
        delete: on("Delete")?,
        retention_days: parse_retention(section)?,
    })
}

fn parse_metrics(root: &Element, name: &'static str) -> Result<Option<Metrics>, XmlError> {
    let Some(section) = root.child(name) else { return Ok(None) };
    section.holds_only(name, &["Version", "Enabled", "IncludeAPIs", "RetentionPolicy"])?;
    parse_version(section)?;
    let enabled = boolean(section.require("Enabled")?, "Enabled")?;
    let include_apis = match section.child("IncludeAPIs") {
        Some(element) => boolean(element, "IncludeAPIs")?,
        None if enabled => return Err(XmlError::Missing("IncludeAPIs")),
        None => false,
    };
    if include_apis && !enabled {
        return Err(XmlError::Value("IncludeAPIs"));
    }
    let retention_days = parse_retention(section)?;
    Ok(Some(Metrics { enabled, include_apis, retention_days }))
}

fn parse_version(section: &Element) -> Result<(), XmlError> {
    match section.require("Version")?.text.as_str() {
        "1.0" => Ok(()),
        _ => Err(XmlError::Value("Version")),
    }
}

fn parse_retention(section: &Element) -> Result<Option<u16>, XmlError> {
    let policy = section.require("RetentionPolicy")?;
    policy.holds_only("RetentionPolicy", &["Enabled", "Days"])?;
    match (boolean(policy.require("Enabled")?, "Enabled")?, policy.child("Days")) {
        (false, None) => Ok(None),
        (true, Some(days)) => {
            let days = days.text.parse().ok();
            days.filter(|days| (1..=MAX_RETENTION_DAYS).contains(days))
                .map(Some)
                .ok_or(XmlError::RetentionDays { at: policy.end })
        }
        _ => Err(XmlError::RetentionDays { at: policy.end }),
    }
}

fn parse_cors(section: &Element) -> Result<Vec<CorsRule>, XmlError> {
    const PARTS: &[&str] = &[
        "AllowedOrigins",
        "AllowedMethods",
        "AllowedHeaders",
        "ExposedHeaders",
        "MaxAgeInSeconds",
    ];
    const METHODS: [&str; 9] =
        ["CONNECT", "DELETE", "GET", "HEAD", "MERGE", "OPTIONS", "PATCH", "POST", "PUT"];
    if !section.text.trim_ascii().is_empty() {
        return Err(XmlError::Unexpected("Cors"));
    }
    if section.children.len() > MAX_CORS_RULES {
        return Err(XmlError::TooMany { element: "CorsRule", limit: MAX_CORS_RULES });
    }
    let parse = |element: &Element| {
        if element.name != "CorsRule" {
            return Err(XmlError::Unexpected("Cors"));
        }
        element.holds_only("CorsRule", PARTS)?;
        let rule = read_rule(element, |name| Ok(element.require(name)?.text.as_str()))?;
        if rule.allowed_origins.is_empty() {
            return Err(XmlError::Value("AllowedOrigins"));
        }
        if rule.allowed_origins.len() > MAX_ORIGINS {
            return Err(XmlError::TooMany { element: "AllowedOrigins", limit: MAX_ORIGINS });
        }
        let known = |method: &String| METHODS.contains(&method.as_str()) || method == "TRACE";
        if rule.allowed_methods.is_empty() || !rule.allowed_methods.iter().all(known) {
            return Err(XmlError::Value("AllowedMethods"));
        }
        check_headers(&rule.allowed_headers, "AllowedHeaders")?;
        check_headers(&rule.exposed_headers, "ExposedHeaders")?;
        Ok(rule)
    };
    section.children.iter().map(parse).collect()
}

fn check_headers(headers: &[String], element: &'static str) -> Result<(), XmlError> {
    let prefixes = headers.iter().filter(|name| name.ends_with('*')).count();
    if prefixes > MAX_HEADER_PREFIXES {
        return Err(XmlError::TooMany { element, limit: MAX_HEADER_PREFIXES });
    }
    if headers.len().saturating_sub(prefixes) > MAX_HEADERS {
        return Err(XmlError::TooMany { element, limit: MAX_HEADERS });
    }
    Ok(())
}

/// Reads a rule; `text` returns the text of one of its elements.
fn read_rule<'a>(
    element: &Element,
    text: impl Fn(&'static str) -> Result<&'a str, XmlError>,
) -> Result<CorsRule, XmlError> {
    let list = |name| {
        let items = text(name)?.split(',').map(str::trim).filter(|item| !item.is_empty());
        Ok(items.map(Into::into).collect())
    };
    let max_age = &element.require("MaxAgeInSeconds")?.text;
    Ok(CorsRule {
        allowed_origins: list("AllowedOrigins")?,
        allowed_methods: list("AllowedMethods")?,
        allowed_headers: list("AllowedHeaders")?,
        exposed_headers: list("ExposedHeaders")?,
        max_age_seconds: max_age.parse().map_err(|_| XmlError::Value("MaxAgeInSeconds"))?,
    })
}

/// `true` or `false`, and `True` or `False`, which older Python clients send.
fn boolean(element: &Element, name: &'static str) -> Result<bool, XmlError> {
    match element.text.as_str() {
        "true" | "True" => Ok(true),
        "false" | "False" => Ok(false),
        _ => Err(XmlError::Value(name)),
    }
}

fn write_metrics(writer: &mut Writer, properties: &ServiceProperties) {
    let sections =
        [("HourMetrics", &properties.hour_metrics), ("MinuteMetrics", &properties.minute_metrics)];
    for (name, metrics) in sections {
        let Some(metrics) = metrics else { continue };
        writer.start(name);
        writer.leaf("Version", "1.0");
        writer.leaf("Enabled", flag(metrics.enabled));
        if metrics.enabled {
            writer.leaf("IncludeAPIs", flag(metrics.include_apis));
        }
        write_retention(writer, metrics.retention_days);
        writer.end(name);
    }
}

fn write_retention(writer: &mut Writer, days: Option<u16>) {
    writer.start("RetentionPolicy");
    writer.leaf("Enabled", flag(days.is_some()));
    if let Some(days) = days {
        writer.leaf("Days", &days.to_string());
    }
    writer.end("RetentionPolicy");
}

/// The service returns headers with the prefixes after the full names.
fn prefixes_last(headers: &[String]) -> String {
    let (prefixes, full): (Vec<_>, Vec<_>) =
        headers.iter().map(String::as_str).partition(|name| name.ends_with('*'));
    [full, prefixes].concat().join(",")
}

const fn flag(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}
