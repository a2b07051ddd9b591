//! Construction of clients.

use samsarrow_client::admin::Admin;
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::consumer::Consumer;
use samsarrow_client::error::Result;
use samsarrow_client::producer::Producer;
use samsarrow_client::share::{ShareConsumer, ShareOptions};

use crate::context::Context;

/// Name and password of the user in worlds with logins.
pub(crate) const USER: (&str, &str) = ("user", "password");

const LOGIN: [(&str, &str); 4] = [
    ("security.protocol", "SASL_PLAINTEXT"),
    ("sasl.mechanism", "PLAIN"),
    ("sasl.username", USER.0),
    ("sasl.password", USER.1),
];

fn parse(kind: ClientKind, context: &Context, options: &[(&str, String)]) -> Result<Options> {
    let login = LOGIN.iter().filter(|_| context.logins);
    let own = [("bootstrap.servers", &*context.servers)];
    let own = own.iter().chain(login).map(|(name, value)| (*name, (*value).to_owned()));
    let all = own.chain(options.iter().cloned());
    Options::parse(kind, all.map(|(name, value)| (name.to_owned(), OptionValue::Str(value))))
}

/// Creates a consumer.
pub(crate) fn consumer(context: &Context, options: &[(&str, String)]) -> Result<Consumer> {
    Consumer::new(&parse(ClientKind::Consumer, context, options)?)
}

/// Creates a share consumer.
pub(crate) fn share_consumer(context: &Context, options: &[(&str, String)], auto_renew: bool) -> Result<ShareConsumer> {
    let own = [("bootstrap.servers", context.servers.clone())];
    let all = own.iter().chain(options).map(|(name, value)| ((*name).to_owned(), OptionValue::Str(value.clone())));
    let (options, share) = ShareOptions::parse(all, auto_renew)?;
    ShareConsumer::new(&options, share)
}

/// Creates a producer.
pub(crate) fn producer(context: &Context, options: &[(&str, String)]) -> Result<Producer> {
    Producer::new(&parse(ClientKind::Producer, context, options)?)
}

/// Creates an admin client.
pub(crate) fn admin(context: &Context, options: &[(&str, String)]) -> Result<Admin> {
    Admin::new(&parse(ClientKind::Admin, context, options)?)
}
