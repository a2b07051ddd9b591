//! Options of share consumers.

use crate::config::share::{ACKNOWLEDGEMENT_MODE, ACQUIRE_MODE, rejection};
use crate::config::{ClientKind, OptionValue, Options};
use crate::error::{Error, Result};

/// Decision about rows that the application does not acknowledge itself (`share.acknowledgement.mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcknowledgementMode {
    /// The next poll accepts the rows of the last one.
    Implicit,
    /// The application acknowledges each row before the next poll.
    Explicit,
}

/// Meaning of `max.poll.records` (`share.acquire.mode`, KIP-1206).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcquireMode {
    /// Whole record batches are acquired, so a poll may return more rows.
    BatchOptimized,
    /// A poll never returns more rows.
    RecordLimit,
}

/// Options of a share consumer in addition to those of all consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareOptions {
    pub acknowledgement_mode: AcknowledgementMode,
    pub acquire_mode: AcquireMode,
    /// True if locks of returned rows are renewed until they are acknowledged.
    pub auto_renew: bool,
}

const MAX_POLL_RECORDS: &str = "max.poll.records";

impl ShareOptions {
    /// Parses the options of a share consumer, and those that it has in common with consumers.
    ///
    /// # Errors
    /// Fails with [`Error::Configuration`] if an option is unknown or invalid, if share groups do not have it, or if
    /// `group.id` is missing.
    pub fn parse(
        pairs: impl IntoIterator<Item = (String, OptionValue)>,
        auto_renew: bool,
    ) -> Result<(Options, ShareOptions)> {
        let mut share = ShareOptions {
            acknowledgement_mode: AcknowledgementMode::Implicit,
            acquire_mode: AcquireMode::BatchOptimized,
            auto_renew,
        };
        let (mut rest, mut has_max_poll_records) = (Vec::new(), false);
        for (name, value) in pairs {
            let dotted = name.replace('_', ".");
            if let Some(reason) = rejection(&dotted) {
                return Err(Error::configuration(format!("option {dotted} is not one of a share consumer: {reason}")));
            }
            match &*dotted {
                ACKNOWLEDGEMENT_MODE => {
                    let explicit = choice(ACKNOWLEDGEMENT_MODE, &value, "implicit", "explicit")?;
                    share.acknowledgement_mode =
                        if explicit { AcknowledgementMode::Explicit } else { AcknowledgementMode::Implicit };
                }
                ACQUIRE_MODE => {
                    let strict = choice(ACQUIRE_MODE, &value, "batch_optimized", "record_limit")?;
                    share.acquire_mode = if strict { AcquireMode::RecordLimit } else { AcquireMode::BatchOptimized };
                }
                _ => {
                    has_max_poll_records |= dotted == MAX_POLL_RECORDS && value != OptionValue::Default;
                    rest.push((name, value));
                }
            }
        }
        if !has_max_poll_records {
            rest.retain(|(name, _)| name.replace('_', ".") != MAX_POLL_RECORDS);
            rest.push((MAX_POLL_RECORDS.to_owned(), OptionValue::Int(2000)));
        }
        if auto_renew && share.acknowledgement_mode == AcknowledgementMode::Implicit {
            return Err(Error::configuration(
                "auto_renew needs explicit acknowledgement: pass acknowledgement=\"explicit\"",
            ));
        }
        let options = Options::parse(ClientKind::Consumer, rest)?;
        if options.consumer.group.id.is_none() {
            return Err(Error::configuration("a share consumer is a member of a group: set option group.id"));
        }
        Ok((options, share))
    }
}

/// Returns true for the second of two words. As in Java, case does not matter.
fn choice(name: &str, value: &OptionValue, first: &str, second: &str) -> Result<bool> {
    let OptionValue::Str(text) = value else {
        return if *value == OptionValue::Default { Ok(false) } else { Err(invalid(name, value, first, second)) };
    };
    match text.to_ascii_lowercase() {
        word if word == first => Ok(false),
        word if word == second => Ok(true),
        _ => Err(invalid(name, value, first, second)),
    }
}

fn invalid(name: &str, value: &OptionValue, first: &str, second: &str) -> Error {
    Error::configuration(format!("option {name} must be {first} or {second}, not {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::share::{REJECTED, SHARE_OPTIONS};
    use crate::config::{Kind, OPTIONS, options_markdown};

    fn parse(pairs: &[(&str, &str)]) -> Result<(Options, ShareOptions)> {
        let required = [("bootstrap.servers", "h:1"), ("group.id", "g")];
        let pairs = required
            .iter()
            .chain(pairs)
            .map(|(name, value)| ((*name).to_owned(), OptionValue::Str((*value).to_owned())));
        ShareOptions::parse(pairs, false)
    }

    #[test]
    fn parses_modes_and_defaults() {
        let (options, share) = parse(&[]).unwrap();
        assert_eq!(share.acknowledgement_mode, AcknowledgementMode::Implicit);
        assert_eq!(options.consumer.max_poll_records, 2000);
        let (options, share) = parse(&[
            ("share_acknowledgement_mode", "EXPLICIT"),
            ("share.acquire.mode", "record_limit"),
            ("max_poll_records", "7"),
        ])
        .unwrap();
        assert_eq!(share.acknowledgement_mode, AcknowledgementMode::Explicit);
        assert_eq!(share.acquire_mode, AcquireMode::RecordLimit);
        assert_eq!(options.consumer.max_poll_records, 7);
    }

    #[test]
    fn rejects_options_of_other_groups_with_a_hint() {
        for (name, _) in REJECTED {
            let text = parse(&[(name, "1")]).unwrap_err().to_string();
            assert!(text.contains(name) && text.contains(": "), "{text}");
        }
        let text = parse(&[("share.session.timeout.ms", "1")]).unwrap_err().to_string();
        assert!(text.contains("samsarrow configs set group:NAME share.session.timeout.ms=VALUE"), "{text}");
        let text = parse(&[("share.acquire.mode", "strict")]).unwrap_err().to_string();
        assert_eq!(text, "option share.acquire.mode must be batch_optimized or record_limit, not \"strict\"");
        let text = ShareOptions::parse([("bootstrap.servers".to_owned(), OptionValue::Str("h:1".into()))], false);
        assert!(text.unwrap_err().to_string().contains("group.id"));
    }

    #[test]
    fn the_table_has_the_options_of_share_consumers() {
        let page = options_markdown();
        let row = |name: &str| page.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap().to_owned();
        for spec in SHARE_OPTIONS {
            let Kind::Choice(words) = spec.kind else { panic!("{}", spec.name) };
            assert!(words.contains(&spec.default) && words.iter().all(|word| parse(&[(spec.name, word)]).is_ok()));
            assert!(row(spec.name).contains("| share consumer |"), "{}", row(spec.name));
        }
        for (name, reason) in REJECTED {
            assert!(OPTIONS.iter().any(|spec| spec.name == *name), "{name}");
            assert!(row(name).contains("| consumer |") && row(name).contains(reason), "{}", row(name));
        }
        assert!(row("fetch.max.wait.ms").contains("| consumer, share consumer |"));
    }

    #[test]
    fn consumers_do_not_have_the_options_of_share_consumers() {
        let pairs = [("share.acquire.mode".to_owned(), OptionValue::Str("record_limit".to_owned()))];
        let text = Options::parse(ClientKind::Consumer, pairs).unwrap_err().to_string();
        assert_eq!(text, "option share.acquire.mode belongs to a share consumer, not to this client (Consumer)");
    }
}
