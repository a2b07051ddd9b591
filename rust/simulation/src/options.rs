//! Construction of clients.

use samsarrow_client::admin::Admin;
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::consumer::Consumer;
use samsarrow_client::error::Result;
use samsarrow_client::producer::Producer;

fn parse(kind: ClientKind, servers: &str, options: &[(&str, String)]) -> Result<Options> {
    let servers = ("bootstrap.servers".to_owned(), OptionValue::Str(servers.to_owned()));
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), OptionValue::Str(value.clone())));
    Options::parse(kind, std::iter::once(servers).chain(options))
}

/// Creates a consumer.
pub(crate) fn consumer(servers: &str, options: &[(&str, String)]) -> Result<Consumer> {
    Consumer::new(&parse(ClientKind::Consumer, servers, options)?)
}

/// Creates a producer.
pub(crate) fn producer(servers: &str, options: &[(&str, String)]) -> Result<Producer> {
    Producer::new(&parse(ClientKind::Producer, servers, options)?)
}

/// Creates an admin client.
pub(crate) fn admin(servers: &str, options: &[(&str, String)]) -> Result<Admin> {
    Admin::new(&parse(ClientKind::Admin, servers, options)?)
}
