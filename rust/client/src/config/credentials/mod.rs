//! What options cannot say about logins: credentials that a program's own code makes, while it runs.

mod aws;
pub(crate) mod jwt;
mod token;

pub use aws::{AwsCredentialSource, AwsCredentials, AwsProvider};
pub(crate) use token::check_extension;
pub use token::{Fetching, Provider, Token, TokenSource};
