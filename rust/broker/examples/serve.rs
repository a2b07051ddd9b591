//! Runs a broker until stdin closes: `cargo run -p samsarrow-broker --example serve -- [brokers] [port]
//! [topic:partitions ...]`. Prints the bootstrap servers; reads the commands `stop NODE`, `start NODE` and `move TOPIC
//! PARTITION NODE`, one per line.

use std::io::{self, BufRead, Write};

use samsarrow_broker::{Broker, BrokerOptions};
use tokio::runtime::Runtime;

async fn run_command(broker: &Broker, line: &str) -> io::Result<()> {
    let unknown = || io::Error::new(io::ErrorKind::InvalidInput, format!("unknown command '{line}'"));
    let number = |word: &str| word.parse().map_err(|_| unknown());
    match *line.split_whitespace().collect::<Vec<_>>() {
        ["stop", node] => broker.stop_node(number(node)?).await,
        ["start", node] => broker.start_node(number(node)?).await,
        ["move", topic, partition, node] => broker.move_leader(topic, number(partition)?, number(node)?),
        _ => Err(unknown()),
    }
}

fn main() -> io::Result<()> {
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
    let mut out = io::stdout();
    writeln!(out, "{}", broker.bootstrap_servers())?;
    for line in io::stdin().lock().lines() {
        match runtime.block_on(run_command(&broker, &line?)) {
            Ok(()) => writeln!(out, "done")?,
            Err(error) => writeln!(out, "{error}")?,
        }
    }
    runtime.block_on(broker.shutdown());
    Ok(())
}
