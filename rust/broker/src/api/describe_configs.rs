//! DescribeConfigs, v0–v4. Returns the configs set on topics, brokers, groups and client metrics, and also the defaults
//! of topics.

use std::collections::BTreeMap;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DescribeConfigsRequest;
use samsarrow_wire::messages::describe_configs::{
    DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult,
};

use super::{Call, Handler, Outcome};
use crate::state::configs::{Resource, TOPIC, source, topic_defaults};

/// Config source DEFAULT_CONFIG.
const DEFAULT: i8 = 5;

/// Returns the value and source of each config of a resource, by config name.
fn entries(call: &Call<'_>, resource: &Resource) -> Result<BTreeMap<String, (String, i8)>, ErrorCode> {
    let mut all: BTreeMap<String, (String, i8)> = BTreeMap::new();
    if resource.0 == TOPIC {
        call.state.topic(&resource.1).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        let defaults = topic_defaults(&call.state.options).into_iter();
        all.extend(defaults.map(|(name, value)| (name.to_owned(), (value, DEFAULT))));
    }
    let explicit = call.state.explicit_configs(resource).into_iter();
    all.extend(explicit.map(|(name, value)| (name, (value, source(resource.0)))));
    Ok(all)
}

fn failed(requested: &DescribeConfigsResource, code: ErrorCode) -> DescribeConfigsResult {
    DescribeConfigsResult {
        error_code: code.code(),
        resource_type: requested.resource_type,
        resource_name: requested.resource_name.clone(),
        ..DescribeConfigsResult::default()
    }
}

impl Handler for DescribeConfigsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let describe = |requested: &DescribeConfigsResource| {
            let resource = (requested.resource_type, requested.resource_name.clone());
            let configs_by_name =
                match call.state.check_resource(call.node, &resource).and_then(|()| entries(call, &resource)) {
                    Ok(configs_by_name) => configs_by_name,
                    Err(code) => return failed(requested, code),
                };
            let is_requested =
                |name: &String| requested.configuration_keys.as_ref().is_none_or(|keys| keys.contains(name));
            let configs =
                configs_by_name.into_iter().filter(|(name, _)| is_requested(name)).map(|(name, (value, from))| {
                    DescribeConfigsResourceResult {
                        name,
                        value: Some(value),
                        is_default: from == DEFAULT,
                        config_source: from,
                        ..DescribeConfigsResourceResult::default()
                    }
                });
            DescribeConfigsResult { configs: configs.collect(), ..failed(requested, ErrorCode::NONE) }
        };
        let results = self.resources.iter().map(describe).collect();
        call.reply::<Self>(&DescribeConfigsResponse { results, ..DescribeConfigsResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> DescribeConfigsResponse {
        let results = self.resources.iter().map(|requested| failed(requested, code)).collect();
        DescribeConfigsResponse { results, ..DescribeConfigsResponse::default() }
    }
}
