//! DescribeLogDirs, v0–v5. Reports a single log directory, because logs are kept in memory.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DescribeLogDirsRequest;
use samsarrow_wire::messages::describe_log_dirs::{
    DescribeLogDirsPartition, DescribeLogDirsResponse, DescribeLogDirsResult, DescribeLogDirsTopic,
};

use super::{Call, Handler, Outcome};

/// Reported path of the log directory.
pub(crate) const PATH: &str = "/memory";

impl Handler for DescribeLogDirsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let is_requested = |topic: &str, index: i32| {
            self.topics.as_ref().is_none_or(|topics| {
                topics.iter().any(|requested| requested.topic == topic && requested.partitions.contains(&index))
            })
        };
        let mut topics = Vec::new();
        for topic in call.state.topics() {
            let mut description = DescribeLogDirsTopic { name: topic.name.to_string(), ..Default::default() };
            for (index, partition) in topic.partitions().filter(|(index, _)| is_requested(&topic.name, *index)) {
                let state = partition.state();
                if state.replicas.contains(&call.node) {
                    let bytes = state.log.bytes_between(state.log.start_offset(), i64::MAX);
                    description.partitions.push(DescribeLogDirsPartition {
                        partition_index: index,
                        partition_size: i64::try_from(bytes).unwrap_or(i64::MAX),
                        ..Default::default()
                    });
                }
            }
            if !description.partitions.is_empty() {
                topics.push(description);
            }
        }
        let result = DescribeLogDirsResult { log_dir: PATH.to_owned(), topics, ..Default::default() };
        call.reply::<Self>(&DescribeLogDirsResponse { results: vec![result], ..Default::default() })
    }

    fn error_response(&self, version: i16, code: ErrorCode) -> DescribeLogDirsResponse {
        let error_code = if version >= 3 { code.code() } else { 0 };
        let result = DescribeLogDirsResult { error_code: code.code(), log_dir: PATH.to_owned(), ..Default::default() };
        let results = if version >= 3 { Vec::new() } else { vec![result] };
        DescribeLogDirsResponse { error_code, results, ..Default::default() }
    }
}
