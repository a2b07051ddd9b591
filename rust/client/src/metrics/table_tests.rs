//! Tests that the metrics table is consistent with the metric ids.

use std::collections::BTreeSet;

use super::super::client_name;
use super::*;

#[test]
fn ids_match_rows_and_names_are_unique() {
    let (mut java, mut prometheus, mut telemetry) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (row, spec) in METRICS.iter().enumerate() {
        assert_eq!(spec.id as usize, row);
        assert_eq!(spec.id.spec().name, spec.name);
        assert!(spec.doc.ends_with('.') && !spec.clients.is_empty(), "{}", spec.name);
        for client in spec.clients {
            assert!(
                java.insert((client_name(*client), spec.group_name(*client), spec.name, spec.labels)),
                "{}",
                spec.name
            );
            if let Some(name) = spec.prometheus_name(*client) {
                assert_eq!(name.ends_with("_total"), spec.kind == Kind::Counter, "{name}");
                assert!(prometheus.insert(name), "{}", spec.name);
            }
            if let Some(name) = spec.telemetry_name(*client) {
                telemetry.insert(name);
            }
        }
    }
    assert!(telemetry.contains("org.apache.kafka.consumer.fetch.manager.records.lag.max"));
    assert!(telemetry.contains("org.apache.kafka.admin.client.connection.creation.total"));
}
