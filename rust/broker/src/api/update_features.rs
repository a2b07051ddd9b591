//! UpdateFeatures, v0–v2, for the only supported feature, `transaction.version`.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::UpdateFeaturesRequest;
use samsarrow_wire::messages::update_features::{FeatureUpdateKey, UpdatableFeatureResult, UpdateFeaturesResponse};

use super::api_versions::TRANSACTION_VERSION;
use super::{Call, Outcome, Serve};
use crate::broker::LAST_TRANSACTION_VERSION;
use crate::state::create::Refusal;

const UPGRADE: i8 = 1;
/// First version with one result for all updates, which are applied together or not at all.
const FIRST_WITH_ONE_OUTCOME: i16 = 2;

fn check(call: &Call<'_>, asked: &FeatureUpdateKey) -> Result<(), Refusal> {
    let (name, level) = (&asked.feature, asked.max_version_level);
    let refuse = |why: &str| {
        let text = format!("Invalid update version {level} for feature {name}. {why}");
        Err((ErrorCode::INVALID_UPDATE_VERSION, text))
    };
    if *name != TRANSACTION_VERSION {
        return refuse("The broker does not support this feature.");
    }
    if !(0..=LAST_TRANSACTION_VERSION).contains(&level) {
        return refuse(&format!("The broker only supports versions 0-{LAST_TRANSACTION_VERSION}"));
    }
    let may_go_down = asked.allow_downgrade || asked.upgrade_type != UPGRADE;
    if level < call.state.transactions().version() && !may_go_down {
        return refuse(
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe \
             downgrade.",
        );
    }
    Ok(())
}

impl Serve for UpdateFeaturesRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        if call.node != call.state.controller() {
            return call.reply::<Self>(&self.refuse(call.version, ErrorCode::NOT_CONTROLLER));
        }
        let checked: Vec<_> = self.feature_updates.iter().map(|asked| (asked, check(call, asked))).collect();
        let together = call.version >= FIRST_WITH_ONE_OUTCOME;
        let first = checked.iter().find_map(|(_, said)| said.clone().err()).filter(|_| together);
        if let Some((code, text)) = first {
            let refused = UpdateFeaturesResponse { error_message: Some(text), ..self.refuse(call.version, code) };
            return call.reply::<Self>(&refused);
        }
        for (asked, _) in checked.iter().filter(|(_, said)| said.is_ok() && !self.validate_only) {
            call.state.set_transaction_version(asked.max_version_level);
        }
        let one = |(asked, said): (&FeatureUpdateKey, Result<(), Refusal>)| {
            let (code, text) = said.err().map_or((ErrorCode::NONE, None), |(code, text)| (code, Some(text)));
            UpdatableFeatureResult {
                feature: asked.feature.clone(),
                error_code: code.code(),
                error_message: text,
                ..UpdatableFeatureResult::default()
            }
        };
        let results = if together { Vec::new() } else { checked.into_iter().map(one).collect() };
        call.reply::<Self>(&UpdateFeaturesResponse { results, ..UpdateFeaturesResponse::default() })
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> UpdateFeaturesResponse {
        UpdateFeaturesResponse { error_code: code.code(), ..UpdateFeaturesResponse::default() }
    }
}
