//! Base64 decoding.

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::error::JsonError;
use crate::error::{Reason, Step};

const ANY_PADDING: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const PLAIN: GeneralPurpose = GeneralPurpose::new(&STANDARD, ANY_PADDING);
const FOR_URLS: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, ANY_PADDING);

/// Decodes base64 and appends the bytes to `out`. The text may use the standard or the URL-safe alphabet, with or
/// without padding.
pub(crate) fn decode_base64(text: &[u8], out: &mut Vec<u8>) -> Step {
    let start = out.len();
    for engine in [&PLAIN, &FOR_URLS] {
        out.truncate(start);
        if engine.decode_vec(text, out).is_ok() {
            return Ok(());
        }
    }
    Err(Reason::from(JsonError::Text("base64")).into())
}
