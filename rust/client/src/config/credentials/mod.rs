//! Credentials supplied at run time by the application.

pub(crate) mod jwt;
mod token;

pub(crate) use token::check_extension;
pub use token::{Fetching, Provider, Token, TokenSource};
