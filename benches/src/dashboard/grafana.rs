//! The panels as a dashboard of Grafana, with queries in `PromQL`.

use rowkey::telemetry::MetricKind;
use serde_json::{Value, json};

use super::{Panel, Query, Section, Show, Unit, underscored};

/// Columns of Grafana's grid, and the size of a panel in it.
const COLUMNS: usize = 24;
const WIDTH: usize = 8;
const HEIGHT: usize = 8;

/// The dashboard, as a file to import.
///
/// # Panics
///
/// Never: everything in it is JSON.
pub fn dashboard(sections: &[Section]) -> String {
    let (mut panels, mut y) = (Vec::new(), 0);
    for section in sections {
        panels.push(json!({
            "id": panels.len() + 1,
            "type": "row",
            "title": section.title,
            "collapsed": false,
            "gridPos": { "x": 0, "y": y, "w": COLUMNS, "h": 1 },
            "panels": [],
        }));
        y += 1;
        let per_row = COLUMNS / WIDTH;
        for (number, panel) in section.panels.iter().enumerate() {
            let at = (number % per_row * WIDTH, y + number / per_row * HEIGHT);
            panels.push(chart(panels.len() + 1, panel, at));
        }
        y += section.panels.len().div_ceil(per_row) * HEIGHT;
    }
    let dashboard = json!({
        "uid": "rowkey",
        "title": "rowkey",
        "description": "Requests, stores, workers and jobs of rowkey, from the metrics of rowkey-otel in Prometheus",
        "tags": ["azure", "rowkey"],
        "schemaVersion": 39,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": { "from": "now-1h", "to": "now" },
        "templating": { "list": [
            {
                "name": "datasource", "type": "datasource", "label": "Data source",
                "query": "prometheus", "current": {}, "hide": 0,
            },
            {
                "name": "job", "type": "query", "label": "Job", "datasource": source(),
                "query": {
                    "query": "label_values(http_client_request_duration_seconds_count, job)",
                    "refId": "job",
                },
                "refresh": 2, "includeAll": true, "multi": true, "allValue": ".*",
                "current": { "text": "All", "value": "$__all" },
            },
        ] },
        "annotations": { "list": [] },
        "panels": panels,
    });
    let mut text = serde_json::to_string_pretty(&dashboard).expect("it is JSON");
    text.push('\n');
    text
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

fn chart(id: usize, panel: &Panel, (x, y): (usize, usize)) -> Value {
    let unit = match panel.unit {
        Unit::Number => "short",
        Unit::PerSecond => "cps",
        Unit::Seconds => "s",
        Unit::BytesPerSecond => "Bps",
    };
    let targets = panel.queries.iter().zip('A'..).map(|(query, letter)| {
        json!({
            "refId": letter.to_string(),
            "datasource": source(),
            "expr": promql(query),
            "legendFormat": legend(query),
        })
    });
    json!({
        "id": id,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.note,
        "datasource": source(),
        "gridPos": { "x": x, "y": y, "w": WIDTH, "h": HEIGHT },
        "fieldConfig": {
            "defaults": {
                "unit": unit,
                "min": 0,
                "custom": { "lineWidth": 1, "fillOpacity": 6, "showPoints": "never" },
            },
            "overrides": [],
        },
        "options": {
            "legend": { "displayMode": "list", "placement": "bottom", "showLegend": true },
            "tooltip": { "mode": "multi", "sort": "desc" },
        },
        "targets": targets.collect::<Vec<_>>(),
    })
}

fn legend(query: &Query) -> String {
    let by = query.by.map(|by| format!("{{{{{}}}}}", underscored(by)));
    match (query.legend, by) {
        (legend, None) => legend.to_owned(),
        ("", Some(by)) => by,
        (legend, Some(by)) => format!("{legend} {by}"),
    }
}

fn promql(query: &Query) -> String {
    let family = query.family();
    let by = query.by.map(underscored);
    let having = query.having.map(|having| format!(",{}!=\"\"", underscored(having)));
    let select = format!("{{job=~\"$job\"{}}}", having.unwrap_or_default());
    let rate = |part: &str| format!("rate({family}{part}{select}[$__rate_interval])");
    let grouped = by.as_ref().map(|by| format!(" by ({by})")).unwrap_or_default();
    match query.show {
        Show::Rate if query.metric.kind == MetricKind::Histogram => {
            format!("sum{grouped} ({})", rate("_count"))
        }
        Show::Rate => format!("sum{grouped} ({})", rate("")),
        Show::SumRate => format!("sum{grouped} ({})", rate("_sum")),
        Show::Mean => {
            format!("sum{grouped} ({}) / sum{grouped} ({})", rate("_sum"), rate("_count"))
        }
        Show::Quantile(quantile) => {
            let grouped = by.map(|by| format!(", {by}")).unwrap_or_default();
            format!("histogram_quantile({quantile}, sum by (le{grouped}) ({}))", rate("_bucket"))
        }
        Show::Sum => format!("sum{grouped} ({family}{select})"),
        Show::Max => format!("max{grouped} ({family}{select})"),
    }
}
