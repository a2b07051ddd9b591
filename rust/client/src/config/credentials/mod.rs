//! Credentials supplied at run time by the application.

mod aws;
pub(crate) mod jwt;
mod token;

pub(crate) use aws::region_of_environment;
pub use aws::{AwsCredentialSource, AwsCredentials, AwsProvider};
pub(crate) use token::check_extension;
pub use token::{Fetching, Provider, Token, TokenSource};
