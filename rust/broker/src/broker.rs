//! The handle that starts, steers and stops an embedded broker.

use std::io;

use crate::options::BrokerOptions;

/// An embedded Kafka broker; dropped or shut down, it frees its ports.
#[derive(Debug)]
pub struct Broker {
    bootstrap: String,
}

fn not_yet() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "the embedded broker does not serve yet")
}

impl Broker {
    /// Binds the ports and serves on the current tokio runtime.
    pub async fn start(_options: BrokerOptions) -> io::Result<Broker> {
        Err(not_yet())
    }

    /// `host:port` of every node, comma separated, as `bootstrap.servers` takes it.
    pub fn bootstrap_servers(&self) -> String {
        self.bootstrap.clone()
    }

    /// Creates a topic; an existing one or a bad name or number is an error.
    pub fn create_topic(&self, _name: &str, _partitions: i32) -> io::Result<()> {
        Err(not_yet())
    }

    /// Closes a node's port and connections; its data stay and its leaderships move to nodes that are up.
    pub async fn stop_node(&self, _node: i32) -> io::Result<()> {
        Err(not_yet())
    }

    /// Opens a stopped node again on its old port.
    pub async fn start_node(&self, _node: i32) -> io::Result<()> {
        Err(not_yet())
    }

    /// Makes `node` the leader of a partition and raises the leader epoch.
    pub fn move_leader(&self, _topic: &str, _partition: i32, _node: i32) -> io::Result<()> {
        Err(not_yet())
    }

    /// Stops every node and waits until all of its tasks have ended.
    pub async fn shutdown(&self) {}
}
