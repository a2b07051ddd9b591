//! `samsarrow._core`: Python classes and functions of the Rust client.

mod admin;
mod assignor;
mod codec;
mod config;
mod consumer;
mod conversions;
mod encoder;
mod infer;
mod logging;
mod metrics;
mod producer;
mod rebalance;
mod registry;
mod segment;
mod share_consumer;
mod spark;
mod spark_replay;
mod spark_values;
mod testing;
mod text_writer;
mod token_provider;
mod value_options;
mod values;

use pyo3::prelude::*;

// The module is not tested on free-threaded Python, so importing it enables the GIL there.
#[pymodule(gil_used = true)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::admin::Admin;
    #[pymodule_export]
    use super::admin::access::{
        admin_alter_users, admin_create_acls, admin_create_delegation_token, admin_delete_acls, admin_describe_acls,
        admin_describe_delegation_tokens, admin_describe_users, admin_expire_delegation_token,
        admin_renew_delegation_token,
    };
    #[pymodule_export]
    use super::admin::cluster::{
        admin_add_raft_voter, admin_describe_cluster, admin_describe_features, admin_describe_quorum,
        admin_remove_raft_voter, admin_unregister_broker, admin_unregister_controller, admin_update_features,
    };
    #[pymodule_export]
    use super::admin::configs::{
        admin_alter_configs, admin_alter_quotas, admin_describe_configs, admin_describe_quotas,
        admin_list_config_resources,
    };
    #[pymodule_export]
    use super::admin::groups::{
        admin_delete_groups, admin_describe_groups, admin_find_coordinator, admin_list_groups, admin_remove_members,
    };
    #[pymodule_export]
    use super::admin::offsets::{
        admin_commit_offsets, admin_delete_offsets, admin_fetch_offsets, admin_group_lag, admin_list_offsets,
    };
    #[pymodule_export]
    use super::admin::replicas::{
        admin_alter_reassignments, admin_elect_leaders, admin_list_reassignments, admin_log_dirs, admin_move_replicas,
    };
    #[pymodule_export]
    use super::admin::share_groups::{
        admin_alter_share_offsets, admin_delete_share_offsets, admin_describe_share_groups, admin_list_share_offsets,
    };
    #[pymodule_export]
    use super::admin::streams_groups::admin_describe_streams_groups;
    #[pymodule_export]
    use super::admin::topics::{
        admin_create_partitions, admin_create_topics, admin_delete_records, admin_delete_topics, admin_describe_topics,
        admin_list_topics,
    };
    #[pymodule_export]
    use super::admin::transactions::{
        admin_abort_transaction, admin_describe_producers, admin_describe_transactions, admin_fence_producers,
        admin_find_hanging, admin_list_transactions,
    };
    #[pymodule_export]
    use super::assignor::Reply;
    #[pymodule_export]
    use super::codec::{decode_batches, digest_rows, empty_batch, encode_batches, write_values};
    #[pymodule_export]
    use super::config::{error_table, option_table, option_types, options_markdown, properties};
    #[pymodule_export]
    use super::consumer::Consumer;
    #[pymodule_export]
    use super::conversions::{ends_of, offsets_of};
    #[pymodule_export]
    use super::encoder::{ValueEncoder, avro_name, avro_schema, is_bytes, json_non_finite, with_schema_header};
    #[pymodule_export]
    use super::infer::infer_json;
    #[pymodule_export]
    use super::logging::{log_lines_written, loggers, set_log_levels};
    #[pymodule_export]
    use super::metrics::{Metrics, exposition, metric_table, opentelemetry_conventions};
    #[pymodule_export]
    use super::producer::{Batches, Begin, Producer, Reservation};
    #[pymodule_export]
    use super::rebalance::RebalanceEvent;
    #[pymodule_export]
    use super::registry::{Registry, glue_arguments, registry_framing, topic_subject};
    #[pymodule_export]
    use super::segment::{LogDump, SegmentReader, check_index};
    #[pymodule_export]
    use super::share_consumer::ShareConsumer;
    #[pymodule_export]
    use super::spark::{SparkDriver, spark_columns, spark_options, spark_write_options};
    #[pymodule_export]
    use super::spark_replay::SparkAttempt;
    #[pymodule_export]
    use super::spark_values::{SparkEncoder, SparkReadColumns, SparkWrittenColumns, spark_selected};
    #[pymodule_export]
    use super::testing::Broker;
    #[pymodule_export]
    use super::text_writer::{TextWriter, csv_lines};
    #[pymodule_export]
    use super::token_provider::TokenReply;
    #[pymodule_export]
    use super::values::{ValueDecoder, avro_incompatibility, dead_letters};
    #[pymodule_export]
    use samsarrow_bridge::aio::{Bridge, loop_wake_ups};
    #[pymodule_export]
    use samsarrow_bridge::call::Call;
    #[pymodule_export]
    use samsarrow_bridge::callback_threads::{Worker, unraisable};
    #[pymodule_export]
    use samsarrow_bridge::deadline::Deadline;
    #[pymodule_export]
    use samsarrow_bridge::delivery::{BatchDelivery, Delivery, callbacks_backlog};
    #[pymodule_export]
    use samsarrow_bridge::record_iter::RecordIter;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        samsarrow_bridge::runtime::register_hooks(module.py())
    }
}
