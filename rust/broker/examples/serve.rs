//! Serves until stdin closes: `cargo run -p samsarrow-broker --example serve -- [brokers] [port] [topic:partitions ...]`.

use std::io::Write;

use samsarrow_broker::{Broker, BrokerOptions};
use tokio::runtime::Runtime;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let brokers = arguments.next().and_then(|number| number.parse().ok()).unwrap_or(1);
    let port = arguments.next().and_then(|port| port.parse().ok()).unwrap_or(0);
    let topic = |argument: String| {
        let (name, partitions) = argument.split_once(':').unwrap_or((&argument, "1"));
        (name.to_owned(), partitions.parse().unwrap_or(1))
    };
    let options = BrokerOptions { brokers, port, topics: arguments.map(topic).collect(), ..BrokerOptions::default() };
    let runtime = Runtime::new()?;
    let broker = runtime.block_on(Broker::start(options))?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", broker.bootstrap_servers())?;
    out.flush()?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    runtime.block_on(broker.shutdown());
    Ok(())
}
