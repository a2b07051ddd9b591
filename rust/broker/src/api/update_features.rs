//! UpdateFeatures, v0–v2, for the features `transaction.version` and `share.version`.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::UpdateFeaturesRequest;
use samsarrow_wire::messages::update_features::{FeatureUpdateKey, UpdatableFeatureResult, UpdateFeaturesResponse};

use super::api_versions::{SHARE_VERSION, features};
use super::{Call, Handler, Outcome};
use crate::state::topic_creation::Rejection;

const UPGRADE: i8 = 1;
/// First version that applies either all updates or none, and reports a single result instead of a result per feature.
const FIRST_WITH_ONE_OUTCOME: i16 = 2;

fn check(call: &Call<'_>, requested: &FeatureUpdateKey) -> Result<(), Rejection> {
    let (name, level) = (&requested.feature, requested.max_version_level);
    let reject = |why: &str| {
        let text = format!("Invalid update version {level} for feature {name}. {why}");
        Err((ErrorCode::INVALID_UPDATE_VERSION, text))
    };
    let Some(feature) = features(call).find(|feature| feature.name == name) else {
        return reject("The broker does not support this feature.");
    };
    if !(0..=feature.last).contains(&level) {
        return reject(&format!("The broker only supports versions 0-{}", feature.last));
    }
    let may_downgrade = requested.allow_downgrade || requested.upgrade_type != UPGRADE;
    if level < feature.level && !may_downgrade {
        return reject(
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe \
             downgrade.",
        );
    }
    Ok(())
}

impl Handler for UpdateFeaturesRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        if call.node != call.state.controller() {
            return call.reply::<Self>(&self.error_response(call.version, ErrorCode::NOT_CONTROLLER));
        }
        let checked: Vec<_> =
            self.feature_updates.iter().map(|requested| (requested, check(call, requested))).collect();
        let atomic = call.version >= FIRST_WITH_ONE_OUTCOME;
        let first = checked.iter().find_map(|(_, outcome)| outcome.clone().err()).filter(|_| atomic);
        if let Some((code, text)) = first {
            let response =
                UpdateFeaturesResponse { error_message: Some(text), ..self.error_response(call.version, code) };
            return call.reply::<Self>(&response);
        }
        for (requested, _) in checked.iter().filter(|(_, outcome)| outcome.is_ok() && !self.validate_only) {
            if requested.feature == SHARE_VERSION {
                call.state.set_share_version(requested.max_version_level);
            } else {
                call.state.set_transaction_version(requested.max_version_level);
            }
        }
        let result = |(requested, outcome): (&FeatureUpdateKey, Result<(), Rejection>)| {
            let (code, text) = outcome.err().map_or((ErrorCode::NONE, None), |(code, text)| (code, Some(text)));
            UpdatableFeatureResult {
                feature: requested.feature.clone(),
                error_code: code.code(),
                error_message: text,
                ..UpdatableFeatureResult::default()
            }
        };
        let results = if atomic { Vec::new() } else { checked.into_iter().map(result).collect() };
        call.reply::<Self>(&UpdateFeaturesResponse { results, ..UpdateFeaturesResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> UpdateFeaturesResponse {
        UpdateFeaturesResponse { error_code: code.code(), ..UpdateFeaturesResponse::default() }
    }
}
