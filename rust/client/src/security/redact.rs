//! Redaction of secrets in texts from brokers and token issuers, because such a text may repeat what the client sent.

use crate::config::SaslOptions;
use crate::secret::Secret;

/// Maximum length of a redacted text, in characters.
const MAX_CHARS: usize = 300;
/// Minimum length of a secret that is also masked within words. Shorter secrets are masked only as whole words, because
/// a mask within a word would reveal the secret.
const MIN_SUBSTRING: usize = 4;

/// Returns `text` as a single line without these secrets and without tokens. Truncates it if it is too long.
pub fn redact(text: &str, secrets: impl IntoIterator<Item = Secret>) -> String {
    Redactor::from_secrets(secrets).redact(text)
}

/// Masks a set of secrets in texts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Redactor(Vec<Secret>);

impl Redactor {
    /// Creates a redactor for the secrets in these options.
    pub(crate) fn new(options: &SaslOptions) -> Self {
        let oauth = &options.oauth;
        let secrets = [
            &options.password,
            &oauth.client_secret,
            &oauth.config,
            &oauth.assertion_private_key_pem,
            &oauth.assertion_private_key_passphrase,
        ];
        let aws = options.aws.iter().filter(|(name, _)| name.contains("Secret") || name.contains("Token"));
        Self::from_secrets(secrets.into_iter().flatten().chain(aws.map(|(_, value)| value)).cloned())
    }

    /// Creates a redactor that masks these secrets.
    pub(crate) fn from_secrets(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let mut secrets: Vec<Secret> = secrets.into_iter().collect();
        // The longest secret is masked first, because a secret may be part of another secret.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.reveal().len()));
        secrets.retain(|secret| !secret.reveal().is_empty());
        Self(secrets)
    }

    /// Returns `text` as a single line without secrets and tokens. Truncates it if it is too long.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut text = mask_tokens(text);
        for secret in &self.0 {
            text = mask(&text, secret.reveal());
        }
        let mut redacted = String::new();
        for (index, char) in text.chars().enumerate() {
            if index == MAX_CHARS {
                redacted.push('…');
                break;
            }
            // Control and format characters are escaped. Some of them, for example direction marks, can change the
            // order in which the text around them is displayed.
            let is_format_char = matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
            if char.is_control() || is_format_char {
                redacted.extend(char.escape_default());
            } else {
                redacted.push(char);
            }
        }
        redacted
    }
}

fn mask(text: &str, secret: &str) -> String {
    if secret.len() >= MIN_SUBSTRING {
        return text.replace(secret, Secret::MASK);
    }
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    let is_word_char = |char: Option<char>| char.is_some_and(char::is_alphanumeric);
    while let Some((before, after)) = rest.split_once(secret) {
        masked.push_str(before);
        let alone = !is_word_char(masked.chars().next_back()) && !is_word_char(after.chars().next());
        masked.push_str(if alone { Secret::MASK } else { secret });
        rest = after;
    }
    masked + rest
}

/// Masks JSON Web Tokens, and any word after `Bearer`.
fn mask_tokens(text: &str) -> String {
    let is_token_char = |char: char| char.is_ascii_alphanumeric() || "-_.=~+/".contains(char);
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_token_char) {
        let (before, from) = rest.split_at(start);
        let (word, after) = from.split_at(from.find(|char| !is_token_char(char)).unwrap_or(from.len()));
        masked.push_str(before);
        let bearer = masked.trim_end().to_ascii_lowercase().ends_with("bearer") && !before.is_empty();
        // The header of a token begins with `{"`, which is `eyJ` in base64. A name may precede the token, as in
        // `token=eyJ…`.
        let start_of_token =
            word.find("eyJ").filter(|start| word.get(*start..).is_some_and(|token| token.contains('.')));
        match start_of_token {
            _ if bearer => masked.push_str(Secret::MASK),
            Some(start) => {
                masked.push_str(word.get(..start).unwrap_or_default());
                masked.push_str(Secret::MASK);
            }
            None => masked.push_str(word),
        }
        rest = after;
    }
    masked + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor(secrets: &[&str]) -> Redactor {
        Redactor(secrets.iter().map(|text| Secret::from((*text).to_owned())).collect())
    }

    #[test]
    fn masks_secrets_and_tokens() {
        let redactor = redactor(&["hunter2", "pw"]);
        let cases = [
            ("no such user", "no such user"),
            ("\0alice\0hunter2 is wrong", "\\u{0}alice\\u{0}[hidden] is wrong"),
            ("password=hunter2hunter2", "password=[hidden][hidden]"),
            ("the word pw, not pwd", "the word [hidden], not pwd"),
            ("token eyJhbGciOi.eyJzdWIi.c2ln expired", "token [hidden] expired"),
            ("{\"token\":\"eyJhbGciOi.eyJzdWIi.\"}", "{\"token\":\"[hidden]\"}"),
            ("token=eyJhbGciOi.eyJzdWIi.c2ln", "token=[hidden]"),
            ("auth=Bearer opaque/+token==\u{1}\u{1}", "auth=Bearer [hidden]\\u{1}\\u{1}"),
            ("eyJust a word", "eyJust a word"),
            ("two\r\nlines \u{1b}[31m \u{202e}back", "two\\r\\nlines \\u{1b}[31m \\u{202e}back"),
            ("Größe 数", "Größe 数"),
        ];
        for (text, expected) in cases {
            assert_eq!(redactor.redact(text), expected);
        }
        assert_eq!(redactor.redact(&"é".repeat(1000)).chars().count(), MAX_CHARS + 1);
        let late = format!("{}hunter2", "x".repeat(MAX_CHARS - 3));
        assert!(!redactor.redact(&late).contains("hun"), "masked before it is cut");
    }
}
