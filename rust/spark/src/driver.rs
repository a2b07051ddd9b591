//! Driver of a batch or streaming query, which handles the requests of a source or sink.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use crate::commit_markers::CommitMarkers;
use crate::commits::GroupCommits;
use crate::error::{Error, Result};
use crate::kafka_metadata::KafkaMetadata;
use crate::offsets::{Offsets, to_json};
use crate::options::{ReadOptions, Reading};
use crate::plan::plan;
use crate::planner::{Limit, StartCheckpoint, StreamPlanner};
use crate::rpc::{
    Request, Tasks, open_response, ranges_response, schema_response, write_response, write_schemas_response,
};
use crate::tokens;
use crate::typed::{self, Evolution};
use crate::write_options::WriteOptions;

/// State of one query: its options and, for a stream, its progress. The options are checked by the first request.
pub struct Driver {
    options: Arc<BTreeMap<String, String>>,
    metadata: Option<Arc<KafkaMetadata>>,
    markers: Arc<CommitMarkers>,
    stream: Option<Stream>,
}

impl fmt::Debug for Driver {
    /// Leaves out the options, because they may contain passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// State that only a streaming query has.
#[derive(Debug)]
struct Stream {
    options: Arc<ReadOptions>,
    planner: StreamPlanner,
    commits: GroupCommits,
    evolution: Evolution,
    /// Last known ends of the partitions. Used if Spark does not pass the query's current offsets.
    reported: Offsets,
}

impl Driver {
    /// Creates a driver that has its own clients, except for the admin client of `markers`, which is shared.
    pub fn new(options: Arc<BTreeMap<String, String>>, markers: Arc<CommitMarkers>) -> Driver {
        Driver { options, metadata: None, markers, stream: None }
    }

    /// Creates a driver with existing clients. `options` must not contain the options of delegation tokens.
    pub fn with_clients(options: Arc<BTreeMap<String, String>>, metadata: KafkaMetadata) -> Driver {
        Driver { options, metadata: Some(Arc::new(metadata)), markers: Arc::default(), stream: None }
    }

    /// Handles a request and returns the response, both as JSON.
    ///
    /// # Errors
    /// Fails if an option is invalid, if brokers cannot be reached, or if records are lost and `failOnDataLoss` is set.
    pub async fn handle(&mut self, request: &str) -> Result<String> {
        match Request::parse(request)? {
            Request::Schema { requested } => {
                let options = ReadOptions::parse(&self.options, Reading::Any)?;
                let (types, schemas) = typed::resolve_types(&options, &requested).await?;
                Ok(schema_response(&options.output, options.text, &types, &schemas))
            }
            Request::Batch(predicates) => {
                let options = ReadOptions::parse(&self.options, Reading::Batch)?;
                let metadata = connect(&mut self.metadata, &options)?;
                Ok(ranges_response(&plan(&options, metadata, &predicates).await?))
            }
            Request::Initial(checkpoint) => {
                let (Stream { options, planner, .. }, metadata) = self.stream()?;
                let initial = initial_offsets(options, planner, metadata, checkpoint).await?;
                Ok(format!(r#"{{"offsets":{}}}"#, to_json(&initial)))
            }
            Request::Latest { start, limit, freeze } => self.latest(start, limit, freeze).await,
            Request::Ranges { start, end } => {
                let (Stream { options, planner, .. }, metadata) = self.stream()?;
                let mut needed = planner.first_needed(&start, &end);
                if !needed.is_empty() {
                    let existing = metadata.partitions(options, false).await?.partitions;
                    needed.retain(|tp| existing.contains(tp));
                }
                let first = metadata.earliest(options, &needed).await?;
                Ok(ranges_response(&planner.ranges(options, &start, &end, &first)?))
            }
            Request::Open { start } => {
                let (Stream { options, planner, .. }, metadata) = self.stream()?;
                let latest = available(options, planner, metadata, &start).await?;
                let first = metadata.earliest(options, &planner.first_needed(&start, &latest)).await?;
                Ok(open_response(&planner.open(options, &start, &latest, &first)?))
            }
            Request::Evolution(schemas) => {
                let (stream, _) = self.stream()?;
                stream.evolution.check(&stream.options, &schemas).await?;
                Ok("{}".to_owned())
            }
            Request::Commit { end } => {
                let (stream, metadata) = self.stream()?;
                stream.finished(metadata, &end);
                if stream.planner.frozen().is_some() {
                    stream.commits.wait_idle().await;
                }
                Ok("{}".to_owned())
            }
            Request::Token => tokens::token_response(&self.options).await,
            Request::Write { fields, batch } => {
                let options = WriteOptions::parse(&self.options, &fields)?;
                if batch {
                    options.check_batch()?;
                }
                Ok(write_response(&options.columns, options.exactly_once))
            }
            Request::WriteSchemas { fields, earlier } => {
                let options = WriteOptions::parse(&self.options, &fields)?;
                let schemas = typed::resolve_schemas(&options.written, options.registry()?, &earlier).await?;
                Ok(write_schemas_response(&schemas))
            }
            Request::BeginWrite(Tasks { fields, batch, count }) => {
                let options = WriteOptions::parse(&self.options, &fields)?;
                let stored = batch.begin(&self.markers, &options, count).await?;
                Ok(format!(r#"{{"noted":{stored}}}"#))
            }
            Request::EndWrite(Tasks { fields, batch, count }) => {
                let options = WriteOptions::parse(&self.options, &fields)?;
                batch.end(&self.markers, &options, count).await?;
                Ok("{}".to_owned())
            }
            Request::WriteTask { .. } => {
                Err(Error::configuration("write_task is a request of a task and cannot be sent to the driver"))
            }
        }
    }

    /// Waits for a commit in flight, and then closes all connections.
    pub async fn close(&mut self) {
        if let Some(stream) = &mut self.stream {
            stream.commits.wait_idle().await;
            stream.evolution.close();
        }
        if let Some(metadata) = &self.metadata {
            metadata.close().await;
        }
    }

    async fn latest(&mut self, start: Option<Offsets>, limit: Limit, freeze: bool) -> Result<String> {
        let (stream, metadata) = self.stream()?;
        let Some(start) = start else {
            let Stream { options, planner, reported, .. } = stream;
            *reported = available(options, planner, metadata, reported).await?;
            planner.plan_without_start();
            let all = to_json(reported);
            return Ok(format!(r#"{{"offsets":{all},"latest":{all}}}"#));
        };
        // Spark plans a micro-batch only after the sink contains all records before the start of the micro-batch.
        stream.finished(metadata, &start);
        let Stream { options, planner, commits, .. } = stream;
        let latest = match planner.frozen() {
            Some(frozen) => frozen.clone(),
            None => available(options, planner, metadata, &start).await?,
        };
        if freeze {
            planner.freeze(latest.clone());
            // Waits for the commit, because the query and this process may end after this micro-batch.
            commits.wait_idle().await;
        }
        let end = match planner.end(options, &start, &latest, limit, Instant::now()) {
            Ok(end) => end,
            Err(max) => {
                let known = planner.without_recreated(&start);
                let new: Vec<_> = latest.keys().filter(|tp| !known.contains_key(tp)).cloned().collect();
                let new = metadata.earliest(options, &new).await?;
                planner.limit_end(max, &start, &latest, &new)
            }
        };
        Ok(format!(r#"{{"offsets":{},"latest":{}}}"#, to_json(&end), to_json(&latest)))
    }

    fn stream(&mut self) -> Result<(&mut Stream, &Arc<KafkaMetadata>)> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let options = ReadOptions::parse(&self.options, Reading::Stream)?;
                let planner = StreamPlanner::new(&options);
                none.insert(Stream {
                    options: Arc::new(options),
                    planner,
                    commits: GroupCommits::default(),
                    evolution: Evolution::default(),
                    reported: Offsets::new(),
                })
            }
        };
        let metadata = connect(&mut self.metadata, &stream.options)?;
        Ok((stream, metadata))
    }
}

impl Stream {
    /// Records that the sink contains all records before `offsets`. Commits the offsets to the group if `commitOffsets`
    /// is set.
    fn finished(&mut self, metadata: &Arc<KafkaMetadata>, offsets: &Offsets) {
        if self.options.commit_offsets && !self.planner.is_start(offsets) {
            self.commits.queue(&self.options, metadata, offsets);
        }
    }
}

fn connect<'a>(metadata: &'a mut Option<Arc<KafkaMetadata>>, options: &ReadOptions) -> Result<&'a Arc<KafkaMetadata>> {
    match metadata {
        Some(metadata) => Ok(metadata),
        none => Ok(none.insert(Arc::new(KafkaMetadata::new(options)?))),
    }
}

/// Returns the start offsets of a new query. Spark requests them twice and must get the same offsets both times.
async fn initial_offsets(
    options: &ReadOptions,
    planner: &mut StreamPlanner,
    metadata: &KafkaMetadata,
    checkpoint: StartCheckpoint,
) -> Result<Offsets> {
    if let Some(initial) = planner.initial() {
        return Ok(initial.clone());
    }
    let initial = match &checkpoint {
        StartCheckpoint::Stored(offsets) => offsets.clone(),
        StartCheckpoint::New | StartCheckpoint::NotStored => {
            let partitions = metadata.partitions(options, true).await?.partitions;
            metadata.resolve(options, &options.starting, &partitions).await?
        }
    };
    planner.start_at(initial.clone(), checkpoint);
    Ok(initial)
}

/// Returns the ends of all partitions. An end is never before the `known` offset unless the topic was recreated.
async fn available(
    options: &ReadOptions,
    planner: &mut StreamPlanner,
    metadata: &KafkaMetadata,
    known: &Offsets,
) -> Result<Offsets> {
    let (current, ahead) = metadata.partitions_and_ends(options, known).await?;
    planner.track_topic_ids(current.topic_ids);
    planner.check_topics(options, known)?;
    metadata.latest(options, &current.partitions, &planner.without_recreated(known), ahead).await
}
