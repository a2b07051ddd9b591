//! What others say about a login, made fit to be shown: brokers and issuers of tokens may repeat what they were sent.

use crate::config::SaslOptions;
use crate::secret::Secret;

/// The most characters of such a text.
const LONGEST: usize = 300;
/// Shorter secrets are masked as whole words only: letter by letter, the masks would spell them.
const SHORTEST: usize = 4;

/// A text of somebody else's as it may be shown: without these secrets and tokens, in one line, cut where it is too long.
pub fn shown(text: &str, secrets: impl IntoIterator<Item = Secret>) -> String {
    Veil::over(secrets).show(text)
}

/// The secrets that must not show.
#[derive(Debug, Clone, Default)]
pub(crate) struct Veil(Vec<Secret>);

impl Veil {
    /// For the secrets of these options.
    pub(crate) fn new(options: &SaslOptions) -> Self {
        let oauth = &options.oauth;
        let given = [
            &options.password,
            &oauth.client_secret,
            &oauth.config,
            &oauth.assertion_private_key_pem,
            &oauth.assertion_private_key_passphrase,
        ];
        let aws = options.aws.iter().filter(|(name, _)| name.contains("Secret") || name.contains("Token"));
        Self::over(given.into_iter().flatten().chain(aws.map(|(_, value)| value)).cloned())
    }

    /// For these.
    pub(crate) fn over(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let mut secrets: Vec<Secret> = secrets.into_iter().collect();
        // The longest first: one may be a part of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.reveal().len()));
        secrets.retain(|secret| !secret.reveal().is_empty());
        Self(secrets)
    }

    /// `text` without secrets and tokens, in one line, cut where it is too long.
    pub(crate) fn show(&self, text: &str) -> String {
        let mut text = mask_tokens(text);
        for secret in &self.0 {
            text = mask(&text, secret.reveal());
        }
        let mut shown = String::new();
        for (at, char) in text.chars().enumerate() {
            if at == LONGEST {
                shown.push('…');
                break;
            }
            // Direction marks and the like reorder what stands around them.
            let formats = matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
            if char.is_control() || formats {
                shown.extend(char.escape_default());
            } else {
                shown.push(char);
            }
        }
        shown
    }
}

fn mask(text: &str, secret: &str) -> String {
    if secret.len() >= SHORTEST {
        return text.replace(secret, Secret::MASK);
    }
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    let of_word = |char: Option<char>| char.is_some_and(char::is_alphanumeric);
    while let Some((before, after)) = rest.split_once(secret) {
        masked.push_str(before);
        let alone = !of_word(masked.chars().next_back()) && !of_word(after.chars().next());
        masked.push_str(if alone { Secret::MASK } else { secret });
        rest = after;
    }
    masked + rest
}

/// Masks what looks like a JSON web token, and what stands after `Bearer`.
fn mask_tokens(text: &str) -> String {
    let of_token = |char: char| char.is_ascii_alphanumeric() || "-_.=~+/".contains(char);
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(of_token) {
        let (before, from) = rest.split_at(start);
        let (word, after) = from.split_at(from.find(|char| !of_token(char)).unwrap_or(from.len()));
        masked.push_str(before);
        let bearer = masked.trim_end().to_ascii_lowercase().ends_with("bearer") && !before.is_empty();
        // A header in base64 begins with `{"`; tokens stand behind names too, as in `token=eyJ…`.
        let begin = word.find("eyJ").filter(|at| word.get(*at..).is_some_and(|token| token.contains('.')));
        match begin {
            _ if bearer => masked.push_str(Secret::MASK),
            Some(at) => {
                masked.push_str(word.get(..at).unwrap_or_default());
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

    fn veil(secrets: &[&str]) -> Veil {
        Veil(secrets.iter().map(|text| Secret::from((*text).to_owned())).collect())
    }

    #[test]
    fn secrets_and_tokens_do_not_show() {
        let veil = veil(&["hunter2", "pw"]);
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
        for (text, wanted) in cases {
            assert_eq!(veil.show(text), wanted);
        }
        assert_eq!(veil.show(&"é".repeat(1000)).chars().count(), LONGEST + 1);
        let late = format!("{}hunter2", "x".repeat(LONGEST - 3));
        assert!(!veil.show(&late).contains("hun"), "masked before it is cut");
    }
}
