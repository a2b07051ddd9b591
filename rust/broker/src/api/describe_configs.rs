//! DescribeConfigs, v0–v4: configs set on topics, brokers, groups and client metrics, and the defaults of topics.

use std::collections::BTreeMap;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DescribeConfigsRequest;
use samsarrow_wire::messages::describe_configs::{
    DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult,
};

use super::{Call, Outcome, Serve};
use crate::state::configs::{Resource, TOPIC, source, topic_defaults};

/// Config source DEFAULT_CONFIG.
const DEFAULT: i8 = 5;

/// Returns the configs of a resource by name, each with its value and source.
fn entries(call: &Call<'_>, resource: &Resource) -> Result<BTreeMap<String, (String, i8)>, ErrorCode> {
    let mut all: BTreeMap<String, (String, i8)> = BTreeMap::new();
    if resource.0 == TOPIC {
        call.state.topic(&resource.1).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        let defaults = topic_defaults(&call.state.options).into_iter();
        all.extend(defaults.map(|(name, value)| (name.to_owned(), (value, DEFAULT))));
    }
    let given = call.state.given_configs(resource).into_iter();
    all.extend(given.map(|(name, value)| (name, (value, source(resource.0)))));
    Ok(all)
}

fn failed(asked: &DescribeConfigsResource, code: ErrorCode) -> DescribeConfigsResult {
    DescribeConfigsResult {
        error_code: code.code(),
        resource_type: asked.resource_type,
        resource_name: asked.resource_name.clone(),
        ..DescribeConfigsResult::default()
    }
}

impl Serve for DescribeConfigsRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        let one = |asked: &DescribeConfigsResource| {
            let resource = (asked.resource_type, asked.resource_name.clone());
            let found = match call.state.check_resource(call.node, &resource).and_then(|()| entries(call, &resource)) {
                Ok(found) => found,
                Err(code) => return failed(asked, code),
            };
            let wanted = |name: &String| asked.configuration_keys.as_ref().is_none_or(|keys| keys.contains(name));
            let configs = found.into_iter().filter(|(name, _)| wanted(name)).map(|(name, (value, from))| {
                DescribeConfigsResourceResult {
                    name,
                    value: Some(value),
                    is_default: from == DEFAULT,
                    config_source: from,
                    ..DescribeConfigsResourceResult::default()
                }
            });
            DescribeConfigsResult { configs: configs.collect(), ..failed(asked, ErrorCode::NONE) }
        };
        let results = self.resources.iter().map(one).collect();
        call.reply::<Self>(&DescribeConfigsResponse { results, ..DescribeConfigsResponse::default() })
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> DescribeConfigsResponse {
        let results = self.resources.iter().map(|asked| failed(asked, code)).collect();
        DescribeConfigsResponse { results, ..DescribeConfigsResponse::default() }
    }
}
