//! ListConfigResources, v0–v1.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ListConfigResourcesRequest;
use samsarrow_wire::messages::list_config_resources::{ConfigResource, ListConfigResourcesResponse};

use super::{Call, Handler, Outcome};
use crate::state::configs::{BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC};

impl Handler for ListConfigResourcesRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let kinds = match (call.version, self.resource_types.as_slice()) {
            (0, _) => vec![CLIENT_METRICS],
            (_, []) => vec![TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP],
            (_, some) => some.to_vec(),
        };
        let mut config_resources = Vec::new();
        for kind in kinds {
            let names: Vec<String> = match kind {
                TOPIC => call.state.topics().iter().map(|topic| topic.name.to_string()).collect(),
                BROKER | BROKER_LOGGER => call.state.live_nodes().map(|(id, _)| id.to_string()).collect(),
                kind => call.state.configured(kind),
            };
            config_resources.extend(names.into_iter().map(|resource_name| ConfigResource {
                resource_name,
                resource_type: kind,
                ..ConfigResource::default()
            }));
        }
        call.reply::<Self>(&ListConfigResourcesResponse { config_resources, ..Default::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> ListConfigResourcesResponse {
        ListConfigResourcesResponse { error_code: code.code(), ..Default::default() }
    }
}
