//! Secrets in memory.

use std::fmt;

use zeroize::Zeroizing;

/// A password, key or token. It is formatted as `[hidden]`, and its memory is wiped on drop.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Text that replaces a secret in all output.
    pub const MASK: &'static str = "[hidden]";

    /// Returns the secret as plain text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_hidden_in_output() {
        let secret = Secret::from("hunter2".to_owned());
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "[hidden] [hidden] Some([hidden])");
        assert_eq!(secret.reveal(), "hunter2");
    }
}
