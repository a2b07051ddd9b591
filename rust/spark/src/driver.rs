//! The driver's side: answers the questions about one batch or one streaming query.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use crate::brokers::Brokers;
use crate::commits::GroupCommits;
use crate::error::{Error, Result};
use crate::notes::Notes;
use crate::offsets::{Offsets, to_json};
use crate::options::{ReadOptions, Reading};
use crate::plan::plan;
use crate::planner::{Keeping, Limit, StreamPlanner};
use crate::question::{Question, Tasks, columns_answer, open_answer, ranges_answer, sent_answer};
use crate::tokens;
use crate::typed;
use crate::write_options::WriteOptions;

/// Options as they were given, and what is known of the query. Nothing is checked or asked before the first question.
pub struct Driver {
    given: Arc<BTreeMap<String, String>>,
    brokers: Option<Arc<Brokers>>,
    notes: Arc<Notes>,
    stream: Option<Stream>,
}

impl fmt::Debug for Driver {
    /// Without what was given, which may hold passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// A streaming query.
#[derive(Debug)]
struct Stream {
    options: Arc<ReadOptions>,
    planner: StreamPlanner,
    commits: GroupCommits,
    /// Where partitions ended when that was last asked for, where Spark does not say where the query is.
    reported: Offsets,
}

impl Driver {
    /// For one query, with clients of its own but for that of `notes`.
    pub fn new(given: Arc<BTreeMap<String, String>>, notes: Arc<Notes>) -> Driver {
        Driver { given, brokers: None, notes, stream: None }
    }

    /// The same with clients that the caller has made. A caller whose tasks get tokens leaves the options of those out.
    pub fn over(given: Arc<BTreeMap<String, String>>, brokers: Brokers) -> Driver {
        Driver { given, brokers: Some(Arc::new(brokers)), notes: Arc::default(), stream: None }
    }

    /// The answer to a question, both as JSON.
    ///
    /// # Errors
    /// An option cannot be, brokers cannot be asked, or records are gone with `failOnDataLoss`.
    pub async fn answer(&mut self, question: &str) -> Result<String> {
        match Question::parse(question)? {
            Question::Schema { chosen } => {
                let options = ReadOptions::parse(&self.given, Reading::Any)?;
                let (types, found) = typed::asked(&options, &chosen).await?;
                Ok(columns_answer(&options.served, options.text, &types, &found))
            }
            Question::Batch(wanted) => {
                let options = ReadOptions::parse(&self.given, Reading::Batch)?;
                let brokers = asked(&mut self.brokers, &options)?;
                Ok(ranges_answer(&plan(&options, brokers, &wanted).await?))
            }
            Question::Initial(keeping) => {
                let (Stream { options, planner, .. }, brokers) = self.stream()?;
                let initial = known_initial(options, planner, brokers, keeping).await?;
                Ok(format!(r#"{{"offsets":{}}}"#, to_json(&initial)))
            }
            Question::Latest { start, limit, freeze } => self.latest(start, limit, freeze).await,
            Question::Ranges { start, end } => {
                let (Stream { options, planner, .. }, brokers) = self.stream()?;
                let mut needed = planner.first_needed(&start, &end);
                if !needed.is_empty() {
                    let there = brokers.partitions(options, false).await?.partitions;
                    needed.retain(|tp| there.contains(tp));
                }
                let first = brokers.earliest(options, &needed).await?;
                Ok(ranges_answer(&planner.ranges(options, &start, &end, &first)?))
            }
            Question::Open { start } => {
                let (Stream { options, planner, .. }, brokers) = self.stream()?;
                let latest = available(options, planner, brokers, &start).await?;
                let first = brokers.earliest(options, &planner.first_needed(&start, &latest)).await?;
                Ok(open_answer(&planner.open(options, &start, &latest, &first)?))
            }
            Question::Commit { end } => {
                let (stream, brokers) = self.stream()?;
                stream.finished(brokers, &end);
                if stream.planner.frozen().is_some() {
                    stream.commits.settle().await;
                }
                Ok("{}".to_owned())
            }
            Question::Token => tokens::answer(&self.given).await,
            Question::Write { fields, batch } => {
                let options = WriteOptions::parse(&self.given, &fields)?;
                if batch {
                    options.check_batch()?;
                }
                Ok(sent_answer(&options.columns, options.exactly_once))
            }
            Question::BeginWrite(Tasks { fields, batch, count }) => {
                let options = WriteOptions::parse(&self.given, &fields)?;
                let noted = batch.begin(&self.notes, &options, count).await?;
                Ok(format!(r#"{{"noted":{noted}}}"#))
            }
            Question::EndWrite(Tasks { fields, batch, count }) => {
                let options = WriteOptions::parse(&self.given, &fields)?;
                batch.end(&self.notes, &options, count).await?;
                Ok("{}".to_owned())
            }
            Question::WriteTask { .. } => Err(Error::configuration("the source asks its driver to write")),
        }
    }

    /// Ends all connections, when a commit that is under way has ended.
    pub async fn close(&mut self) {
        if let Some(stream) = &mut self.stream {
            stream.commits.settle().await;
        }
        if let Some(brokers) = &self.brokers {
            brokers.close().await;
        }
    }

    async fn latest(&mut self, start: Option<Offsets>, limit: Limit, freeze: bool) -> Result<String> {
        let (stream, brokers) = self.stream()?;
        let Some(start) = start else {
            let Stream { options, planner, reported, .. } = stream;
            *reported = available(options, planner, brokers, reported).await?;
            planner.plan_without_start();
            let all = to_json(reported);
            return Ok(format!(r#"{{"offsets":{all},"latest":{all}}}"#));
        };
        // Everything before the start of a micro-batch is in the sink.
        stream.finished(brokers, &start);
        let Stream { options, planner, commits, .. } = stream;
        let latest = match planner.frozen() {
            Some(frozen) => frozen.clone(),
            None => available(options, planner, brokers, &start).await?,
        };
        if freeze {
            planner.freeze(latest.clone());
            // The query may end with this micro-batch, and this process with it.
            commits.settle().await;
        }
        let end = match planner.end(options, &start, &latest, limit, Instant::now()) {
            Ok(end) => end,
            Err(most) => {
                let known = planner.known(&start);
                let new: Vec<_> = latest.keys().filter(|tp| !known.contains_key(tp)).cloned().collect();
                let new = brokers.earliest(options, &new).await?;
                planner.share(most, &start, &latest, &new)
            }
        };
        Ok(format!(r#"{{"offsets":{},"latest":{}}}"#, to_json(&end), to_json(&latest)))
    }

    fn stream(&mut self) -> Result<(&mut Stream, &Arc<Brokers>)> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let options = ReadOptions::parse(&self.given, Reading::Stream)?;
                let planner = StreamPlanner::new(&options);
                none.insert(Stream {
                    options: Arc::new(options),
                    planner,
                    commits: GroupCommits::default(),
                    reported: Offsets::new(),
                })
            }
        };
        let brokers = asked(&mut self.brokers, &stream.options)?;
        Ok((stream, brokers))
    }
}

impl Stream {
    /// Everything before `offsets` is in the sink. Has them committed to the group, if that is asked for.
    fn finished(&mut self, brokers: &Arc<Brokers>, offsets: &Offsets) {
        if self.options.commit && !self.planner.is_start(offsets) {
            self.commits.put(&self.options, brokers, offsets);
        }
    }
}

fn asked<'a>(brokers: &'a mut Option<Arc<Brokers>>, options: &ReadOptions) -> Result<&'a Arc<Brokers>> {
    match brokers {
        Some(brokers) => Ok(brokers),
        none => Ok(none.insert(Arc::new(Brokers::new(options)?))),
    }
}

/// Where a new query starts; asked twice, and the same both times.
async fn known_initial(
    options: &ReadOptions,
    planner: &mut StreamPlanner,
    brokers: &Brokers,
    keeping: Keeping,
) -> Result<Offsets> {
    if let Some(initial) = planner.initial() {
        return Ok(initial.clone());
    }
    let initial = match &keeping {
        Keeping::Kept(kept) => kept.clone(),
        Keeping::New | Keeping::Never => {
            let partitions = brokers.partitions(options, true).await?.partitions;
            brokers.resolve(options, &options.starting, &partitions).await?
        }
    };
    planner.start_at(initial.clone(), keeping);
    Ok(initial)
}

/// The end of all partitions, which is not before what is `known`.
async fn available(
    options: &ReadOptions,
    planner: &mut StreamPlanner,
    brokers: &Brokers,
    known: &Offsets,
) -> Result<Offsets> {
    let (found, ahead) = brokers.look(options, known).await?;
    planner.compare(found.topic_ids);
    planner.check_topics(options, known)?;
    brokers.latest(options, &found.partitions, &planner.known(known), ahead).await
}
