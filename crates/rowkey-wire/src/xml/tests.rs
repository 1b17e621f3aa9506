//! Compares service properties with the recordings of azure-data-tables (Python), module
//! `test_table_service_properties` unless stated otherwise.

use super::XmlError;
use super::properties::*;

/// A request's document with these sections.
fn request(sections: &str) -> String {
    format!(
        "<?xml version='1.0' encoding='utf-8'?>\n<StorageServiceProperties>{sections}</StorageServiceProperties>"
    )
}

fn parse(sections: &str) -> Result<ServiceProperties, XmlError> {
    parse_properties(request(sections).as_bytes())
}

fn list(text: &str) -> Vec<String> {
    text.split_terminator(',').map(Into::into).collect()
}

/// `test_set_cors`.
const CORS_REQUEST: &str = "<Cors><CorsRule><AllowedOrigins>www.xyz.com</AllowedOrigins><AllowedMethods>GET</AllowedMethods><AllowedHeaders /><ExposedHeaders /><MaxAgeInSeconds>0</MaxAgeInSeconds></CorsRule><CorsRule><AllowedOrigins>www.xyz.com,www.ab.com,www.bc.com</AllowedOrigins><AllowedMethods>GET,PUT</AllowedMethods><AllowedHeaders>x-ms-meta-data*,x-ms-meta-target*,x-ms-meta-xyz,x-ms-meta-foo</AllowedHeaders><ExposedHeaders>x-ms-meta-data*,x-ms-meta-source*,x-ms-meta-abc,x-ms-meta-bcd</ExposedHeaders><MaxAgeInSeconds>500</MaxAgeInSeconds></CorsRule></Cors>";

/// The response to the GET that follows.
const CORS_RESPONSE: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceProperties><Logging><Version>1.0</Version><Read>false</Read><Write>false</Write><Delete>false</Delete><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging><HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></HourMetrics><MinuteMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></MinuteMetrics><Cors><CorsRule><AllowedMethods>GET</AllowedMethods><AllowedOrigins>www.xyz.com</AllowedOrigins><AllowedHeaders /><ExposedHeaders /><MaxAgeInSeconds>0</MaxAgeInSeconds></CorsRule><CorsRule><AllowedMethods>GET,PUT</AllowedMethods><AllowedOrigins>www.xyz.com,www.ab.com,www.bc.com</AllowedOrigins><AllowedHeaders>x-ms-meta-xyz,x-ms-meta-foo,x-ms-meta-data*,x-ms-meta-target*</AllowedHeaders><ExposedHeaders>x-ms-meta-abc,x-ms-meta-bcd,x-ms-meta-data*,x-ms-meta-source*</ExposedHeaders><MaxAgeInSeconds>500</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>";

/// `test_table_aad.test_aad_service_properties`.
const LOGGING_RESPONSE: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceProperties><Logging><Version>1.0</Version><Read>false</Read><Write>true</Write><Delete>false</Delete><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging><HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></HourMetrics><MinuteMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy></MinuteMetrics><Cors /></StorageServiceProperties>";

/// `test_table_service_properties`: everything off.
const OFF_REQUEST: &str = "<Logging><Version>1.0</Version><Delete>false</Delete><Read>false</Read><Write>false</Write><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging><HourMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics><MinuteMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></MinuteMetrics><Cors />";

/// `test_set_logging`, `test_set_minute_metrics`.
const LOGGING_REQUEST: &str = "<Logging><Version>1.0</Version><Delete>true</Delete><Read>true</Read><Write>true</Write><RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy></Logging>";
const MINUTE_REQUEST: &str = "<MinuteMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy></MinuteMetrics>";

fn metrics(days: u16) -> Metrics {
    Metrics { enabled: true, include_apis: true, retention_days: Some(days) }
}

fn off() -> ServiceProperties {
    ServiceProperties {
        logging: Some(Logging::default()),
        hour_metrics: Some(Metrics::default()),
        minute_metrics: Some(Metrics::default()),
        cors: Some(vec![]),
        ..ServiceProperties::default()
    }
}

/// The properties in [`CORS_REQUEST`].
fn cors() -> ServiceProperties {
    let first = CorsRule {
        allowed_origins: list("www.xyz.com"),
        allowed_methods: list("GET"),
        ..CorsRule::default()
    };
    let second = CorsRule {
        allowed_origins: list("www.xyz.com,www.ab.com,www.bc.com"),
        allowed_methods: list("GET,PUT"),
        allowed_headers: list("x-ms-meta-data*,x-ms-meta-target*,x-ms-meta-xyz,x-ms-meta-foo"),
        exposed_headers: list("x-ms-meta-data*,x-ms-meta-source*,x-ms-meta-abc,x-ms-meta-bcd"),
        max_age_seconds: 500,
    };
    ServiceProperties { cors: Some(vec![first, second]), ..ServiceProperties::default() }
}

fn logging() -> ServiceProperties {
    let logging = Logging { read: true, write: true, delete: true, retention_days: Some(5) };
    ServiceProperties { logging: Some(logging), ..ServiceProperties::default() }
}

fn minute() -> ServiceProperties {
    ServiceProperties { minute_metrics: Some(metrics(5)), ..ServiceProperties::default() }
}

#[test]
fn the_client_writes_the_recorded_requests() {
    assert_eq!(encode_properties(&off()), request(OFF_REQUEST));
    assert_eq!(encode_properties(&cors()), request(CORS_REQUEST));
    assert_eq!(encode_properties(&logging()), request(LOGGING_REQUEST));
    assert_eq!(encode_properties(&minute()), request(MINUTE_REQUEST));
}

#[test]
fn the_server_reads_the_recorded_requests() {
    assert_eq!(parse(OFF_REQUEST), Ok(off()));
    assert_eq!(parse(CORS_REQUEST), Ok(cors()));
    assert_eq!(parse(LOGGING_REQUEST), Ok(logging()));
    assert_eq!(parse(MINUTE_REQUEST), Ok(minute()));
    // azure-storage-python, test_service_properties.test_table_service_properties: 202.
    assert_eq!(parse(&OFF_REQUEST.replace("false", "False")), Ok(off()));
}

#[test]
fn sections_of_the_blob_service_are_taken_and_not_read() {
    // azure-storage-blob, test_blob_service_properties.test_set_disabled_delete_retention_policy: 202.
    let section = "<DeleteRetentionPolicy><Enabled>false</Enabled></DeleteRetentionPolicy>";
    assert_eq!(parse(section), Ok(ServiceProperties::default()));
}

#[test]
fn the_client_reads_the_recorded_responses() {
    let read = decode_properties(CORS_RESPONSE.as_bytes()).unwrap();
    assert_eq!((read.logging, read.minute_metrics), (off().logging, off().minute_metrics));
    assert_eq!(read.hour_metrics, Some(metrics(7)));
    let rules = read.cors.unwrap();
    assert_eq!(rules[0], cors().cors.unwrap()[0]);
    assert_eq!(
        rules[1].allowed_headers,
        list("x-ms-meta-xyz,x-ms-meta-foo,x-ms-meta-data*,x-ms-meta-target*")
    );
    assert_eq!((rules.len(), rules[1].max_age_seconds), (2, 500));

    let read = decode_properties(LOGGING_RESPONSE.as_bytes()).unwrap();
    let logging = Logging { write: true, ..Logging::default() };
    let expected = ServiceProperties {
        logging: Some(logging),
        hour_metrics: Some(metrics(7)),
        minute_metrics: Some(metrics(5)),
        cors: Some(vec![]),
        ..ServiceProperties::default()
    };
    assert_eq!(read, expected);
}

#[test]
fn the_server_writes_the_recorded_responses() {
    let state = ServiceProperties { hour_metrics: Some(metrics(7)), cors: cors().cors, ..off() };
    assert_eq!(render_properties(&state), CORS_RESPONSE);
    let state = ServiceProperties {
        logging: Some(Logging { write: true, ..Logging::default() }),
        hour_metrics: Some(metrics(7)),
        minute_metrics: Some(metrics(5)),
        cors: Some(vec![]),
        ..ServiceProperties::default()
    };
    assert_eq!(render_properties(&state), LOGGING_RESPONSE);
}

#[test]
fn the_server_refuses_what_the_service_refused() {
    // test_retention_too_long: 400 InvalidXmlDocument.
    let error = parse(&MINUTE_REQUEST.replace(">5<", ">366<")).unwrap_err();
    let is_retention = |error: &XmlError| matches!(error, XmlError::RetentionDays { .. });
    assert!(is_retention(&error), "{error}");
    // test_too_many_cors_rules: six of these.
    let rule = "<CorsRule><AllowedOrigins>www.xyz.com</AllowedOrigins><AllowedMethods>GET</AllowedMethods><AllowedHeaders /><ExposedHeaders /><MaxAgeInSeconds>0</MaxAgeInSeconds></CorsRule>";
    assert!(parse(&format!("<Cors>{}</Cors>", rule.repeat(5))).is_ok());
    assert_eq!(
        parse(&format!("<Cors>{}</Cors>", rule.repeat(6))),
        Err(XmlError::TooMany { element: "CorsRule", limit: 5 })
    );
    // azure-storage-queue, test_queue_service_properties_async.test_retention_too_long.
    let nothing = b"<?xml version='1.0' encoding='utf-8'?>\n<StorageServiceProperties />";
    assert_eq!(parse_properties(nothing), Err(XmlError::Empty { at: 67 }));
    // aztables (Go), service properties with days missing, or given for a disabled policy.
    let missing = parse(&MINUTE_REQUEST.replace("<Days>5</Days>", "")).unwrap_err();
    assert!(is_retention(&missing), "{missing}");
    let disabled =
        MINUTE_REQUEST.replace("<RetentionPolicy><Enabled>true", "<RetentionPolicy><Enabled>false");
    let disabled = parse(&disabled).unwrap_err();
    assert!(is_retention(&disabled), "{disabled}");
}

#[test]
fn the_server_refuses_what_the_documentation_forbids() {
    for days in ["0", "x"] {
        let error = parse(&MINUTE_REQUEST.replace("<Days>5", &format!("<Days>{days}")));
        assert!(matches!(error, Err(XmlError::RetentionDays { .. })), "{days}");
    }
    for (from, to, error) in [
        ("<Version>1.0</Version>", "", XmlError::Missing("Version")),
        ("1.0", "3.0", XmlError::Value("Version")),
        ("<IncludeAPIs>true</IncludeAPIs>", "", XmlError::Missing("IncludeAPIs")),
        ("<IncludeAPIs>true", "<IncludeAPIs>yes", XmlError::Value("IncludeAPIs")),
        ("<IncludeAPIs>", "<Other/><IncludeAPIs>", XmlError::Unexpected("MinuteMetrics")),
        ("MinuteMetrics", "SecondMetrics", XmlError::Unexpected("StorageServiceProperties")),
    ] {
        assert_eq!(parse(&MINUTE_REQUEST.replace(from, to)), Err(error), "{from} -> {to}");
    }
    for (from, to, error) in [
        ("GET,PUT", "GET,FETCH", XmlError::Value("AllowedMethods")),
        (">GET<", "><", XmlError::Value("AllowedMethods")),
        (">500<", ">-1<", XmlError::Value("MaxAgeInSeconds")),
        ("<AllowedHeaders />", "", XmlError::Missing("AllowedHeaders")),
        (
            "x-ms-meta-xyz",
            "x-ms-meta-third*",
            XmlError::TooMany { element: "AllowedHeaders", limit: 2 },
        ),
        ("CorsRule", "Rule", XmlError::Unexpected("Cors")),
    ] {
        assert_eq!(parse(&CORS_REQUEST.replace(from, to)), Err(error), "{from} -> {to}");
    }
}

#[test]
fn a_response_of_a_later_version_is_still_read() {
    let body = "<StorageServiceProperties><Logging><Version>2.0</Version><Read>true</Read><New/></Logging><Other/></StorageServiceProperties>";
    let read = decode_properties(body.as_bytes()).unwrap();
    assert!(read.logging.unwrap().read);
    assert_eq!((read.cors, read.hour_metrics), (None, None));
}
