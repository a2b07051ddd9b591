//! Tests of the planner with invented log offsets.

use super::*;
use crate::error::Error;
use crate::options::Reading;

fn options(more: &[(&str, &str)]) -> ReadOptions {
    let base = [("kafka.bootstrap.servers", "localhost:1"), ("subscribe", "t"), ("failOnDataLoss", "false")];
    let options = base.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ReadOptions::parse(&options, Reading::Stream).unwrap()
}

fn at(offset: i64) -> Offsets {
    [(TopicPartition::new("t", 0), offset)].into()
}

fn id(number: u8) -> BTreeMap<String, Uuid> {
    [("t".to_owned(), Uuid([number; 16]))].into()
}

fn end(planner: &mut StreamPlanner, options: &ReadOptions, start: i64, latest: i64) -> i64 {
    let end = planner.end(options, &at(start), &at(latest), Limit::Options, Instant::now());
    let end = end.unwrap_or_else(|max| planner.limit_end(max, &at(start), &at(latest), &at(0)));
    end.into_values().next().unwrap()
}

fn spans(planner: &mut StreamPlanner, options: &ReadOptions, start: i64, end: i64) -> Result<Vec<(i64, i64)>> {
    let first: Offsets = planner.first_needed(&at(start), &at(end)).into_iter().map(|tp| (tp, 0)).collect();
    let ranges = planner.ranges(options, &at(start), &at(end), &first)?;
    Ok(ranges.iter().map(|range| (range.start, range.end)).collect())
}

/// After the restart the start is either the same (3) or later (8), because records were deleted or the options changed.
#[test]
fn first_batch_is_empty_for_every_start() {
    for start in ["earliest", r#"{"t":{"0":3}}"#, "latest"] {
        let options = options(&[("startingOffsets", start), ("failOnDataLoss", "true")]);
        let mut planner = StreamPlanner::new(&options);
        planner.start_at(at(3), StartCheckpoint::NotStored);
        assert_eq!(end(&mut planner, &options, 3, 9), 3, "{start}");
        assert_eq!(end(&mut planner, &options, 3, 9), 9, "{start}");
        for later in [3, 8] {
            let mut restarted = StreamPlanner::new(&options);
            restarted.start_at(at(later), StartCheckpoint::NotStored);
            assert_eq!(spans(&mut restarted, &options, later, 3).unwrap(), [], "{start}");
            assert_eq!(end(&mut restarted, &options, 3, 9), 9, "{start}");
            assert_eq!(spans(&mut restarted, &options, 3, 9).unwrap(), [(3, 9)], "the task reports lost records");
        }
    }
}

#[test]
fn empty_range_before_start_is_not_first_batch() {
    let options = options(&[("startingOffsets", "latest"), ("failOnDataLoss", "true")]);
    let mut planner = StreamPlanner::new(&options);
    assert_eq!(spans(&mut planner, &options, 26, 26).unwrap(), []);
    planner.start_at(at(27), StartCheckpoint::NotStored);
    assert_eq!(spans(&mut planner, &options, 27, 26).unwrap(), []);
    assert_eq!(spans(&mut planner, &options, 26, 27).unwrap(), [(26, 27)]);
    assert!(spans(&mut planner, &options, 27, 25).is_err(), "a later micro-batch");
}

#[test]
fn partition_added_after_first_batch_is_read() {
    let strict = options(&[("startingOffsets", "earliest"), ("failOnDataLoss", "true")]);
    let more = |offset| Offsets::from([(TopicPartition::new("t", 0), offset), (TopicPartition::new("t", 1), 0)]);
    for without_start in [false, true] {
        for checkpoint in [StartCheckpoint::NotStored, StartCheckpoint::New] {
            let mut planner = StreamPlanner::new(&strict);
            if without_start {
                planner.plan_without_start();
            }
            planner.start_at(more(0), checkpoint);
            let ranges = planner.ranges(&strict, &more(0), &at(5), &Offsets::new()).unwrap();
            assert_eq!(ranges, [OffsetRange { tp: TopicPartition::new("t", 0), start: 0, end: 5 }]);
            let new: Offsets = [(TopicPartition::new("t", 1), 0)].into();
            let ranges = planner.ranges(&strict, &at(5), &more(6), &new).unwrap();
            assert_eq!(ranges.len(), 1, "the new partition has no records");
            let error = planner.ranges(&strict, &more(6), &at(6), &Offsets::new()).unwrap_err().to_string();
            assert!(error.contains("partition t-1 was deleted"), "a later micro-batch: {error}");
        }
    }
    let mut continued = StreamPlanner::new(&strict);
    continued.start_at(more(0), StartCheckpoint::Stored(more(0)));
    assert!(
        continued.ranges(&strict, &more(0), &at(5), &Offsets::new()).is_err(),
        "the stored start is older than the end"
    );
}

#[test]
fn empty_first_batch_fixes_moving_start() {
    let options = options(&[("startingOffsets", "latest"), ("failOnDataLoss", "true")]);
    let mut planner = StreamPlanner::new(&options);
    planner.start_at(at(100), StartCheckpoint::NotStored);
    assert_eq!(end(&mut planner, &options, 100, 103), 100);
    assert_eq!(spans(&mut planner, &options, 100, 100).unwrap(), []);
    assert_eq!(end(&mut planner, &options, 100, 103), 103);
    // The query restarts after five more records, before the first micro-batch was finished.
    let mut restarted = StreamPlanner::new(&options);
    restarted.start_at(at(105), StartCheckpoint::NotStored);
    for _ in 0..2 {
        assert_eq!(
            spans(&mut restarted, &options, 105, 100).unwrap(),
            [],
            "Spark may plan a micro-batch more than once"
        );
    }
    assert_eq!(end(&mut restarted, &options, 100, 105), 105);
    assert_eq!(spans(&mut restarted, &options, 100, 105).unwrap(), [(100, 105)]);
    let error = spans(&mut restarted, &options, 105, 101).unwrap_err();
    assert!(matches!(&error, Error::DataLoss(_)) && error.name() == "DataLossError");
    assert!(error.to_string().contains("went from offset 105 back to 101"), "{error}");
}

#[test]
fn open_returns_start_of_each_partition() {
    let opened = |more: &[(&str, &str)], start: i64, latest: i64| {
        let options = options(more);
        let mut planner = StreamPlanner::new(&options);
        let first = planner.first_needed(&at(start), &at(latest)).into_iter().map(|tp| (tp, 0)).collect();
        planner.open(&options, &at(start), &at(latest), &first)
    };
    assert_eq!(opened(&[], 5, 9).unwrap(), at(5));
    assert_eq!(opened(&[], 9, 9).unwrap(), at(9), "also without new records");
    assert_eq!(opened(&[], 9, 7).unwrap(), at(7), "from the first offset on records could be repeated");
    let error = opened(&[("failOnDataLoss", "true")], 9, 7).unwrap_err();
    assert!(error.to_string().contains("went from offset 9 back to 7"), "{error}");
    let options = options(&[]);
    let mut planner = StreamPlanner::new(&options);
    assert_eq!(planner.first_needed(&Offsets::new(), &at(9)), [TopicPartition::new("t", 0)]);
    assert_eq!(
        planner.open(&options, &Offsets::new(), &at(9), &at(2)).unwrap(),
        at(2),
        "a new partition starts at its first offset"
    );
}

#[test]
fn stored_start_needs_no_empty_batch() {
    let options = options(&[("startingOffsets", "latest"), ("failOnDataLoss", "true")]);
    for checkpoint in [StartCheckpoint::New, StartCheckpoint::Stored(at(100))] {
        let mut planner = StreamPlanner::new(&options);
        planner.start_at(at(100), checkpoint);
        assert_eq!(end(&mut planner, &options, 100, 103), 103);
        assert_eq!(spans(&mut planner, &options, 100, 103).unwrap(), [(100, 103)]);
        assert!(spans(&mut planner, &options, 100, 99).is_err(), "not the first micro-batch of another process");
    }
}

#[test]
fn stored_start_cannot_move() {
    let options = options(&[("startingOffsets", "latest"), ("failOnDataLoss", "true")]);
    for (checkpoint, moved) in
        [(StartCheckpoint::NotStored, true), (StartCheckpoint::New, true), (StartCheckpoint::Stored(at(105)), false)]
    {
        let mut planner = StreamPlanner::new(&options);
        planner.start_at(at(105), checkpoint.clone());
        assert_eq!(spans(&mut planner, &options, 105, 100).is_ok(), moved, "{checkpoint:?}");
    }
}

#[test]
fn end_before_start_is_read_only_from_recreated_topic() {
    let unlimited = options(&[("startingOffsets", "earliest")]);
    let mut planner = StreamPlanner::new(&unlimited);
    planner.track_topic_ids(id(1));
    assert_eq!(spans(&mut planner, &unlimited, 0, 1_000).unwrap(), [(0, 1_000)]);
    planner.track_topic_ids(id(1));
    assert_eq!(spans(&mut planner, &unlimited, 1_000, 990).unwrap(), []);
    planner.track_topic_ids(id(2));
    assert!(planner.without_recreated(&at(990)).is_empty(), "the new topic may end before the offsets of the old one");
    for _ in 0..2 {
        assert_eq!(spans(&mut planner, &unlimited, 990, 7).unwrap(), [(0, 7)]);
    }
    // From here on, the recreated topic is read.
    planner.track_topic_ids(id(2));
    assert_eq!(spans(&mut planner, &unlimited, 7, 9).unwrap(), [(7, 9)]);
    planner.track_topic_ids(id(3));
    let limited = options(&[("startingOffsets", "earliest"), ("maxOffsetsPerTrigger", "20")]);
    assert_eq!(end(&mut planner, &limited, 9, 50), 20, "the limit counts from its first record");
    let strict = options(&[("startingOffsets", "earliest"), ("failOnDataLoss", "true")]);
    let error = spans(&mut planner, &strict, 9, 20).unwrap_err().to_string();
    assert!(error.contains("topic t was deleted and recreated"), "{error}");
    // Spark plans no micro-batch as long as the new topic ends at the offset up to which the old topic was read.
    let error = planner.check_topics(&strict, &at(9)).unwrap_err().to_string();
    assert!(error.contains("topic t was deleted and recreated"), "{error}");
    planner.check_topics(&unlimited, &at(9)).unwrap();
}

#[test]
fn available_now_ends_at_first_end() {
    let options = options(&[("startingOffsets", "earliest"), ("minOffsetsPerTrigger", "50")]);
    let mut planner = StreamPlanner::new(&options);
    planner.freeze(at(12));
    assert_eq!(planner.frozen(), Some(&at(12)));
    // The end is fixed, so waiting for `minOffsetsPerTrigger` would not bring more records.
    assert_eq!(end(&mut planner, &options, 0, 12), 12);
    assert_eq!(end(&mut planner, &options, 12, 12), 12);
}

#[test]
fn added_and_deleted_partitions_with_records_are_losses() {
    let strict = options(&[("startingOffsets", "earliest"), ("failOnDataLoss", "true")]);
    let mut planner = StreamPlanner::new(&strict);
    let mut both = at(5);
    both.insert(TopicPartition::new("t", 1), 8);
    let new: Offsets = [(TopicPartition::new("t", 1), 0)].into();
    assert_eq!(planner.ranges(&strict, &at(0), &both, &new).unwrap().len(), 2);
    let late: Offsets = [(TopicPartition::new("t", 1), 3)].into();
    for (start, end, first, text) in [
        (at(0), both.clone(), late, "the new partition t-1 starts at offset 3"),
        (at(0), both.clone(), Offsets::new(), "the new partition t-1 was already deleted"),
        (both, at(5), Offsets::new(), "partition t-1 was deleted: its records from offset 8 on"),
    ] {
        let error = planner.ranges(&strict, &start, &end, &first).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn is_start_compares_with_initial_offsets() {
    let mut planner = StreamPlanner::new(&options(&[]));
    assert!(!planner.is_start(&at(3)), "a continued query");
    planner.start_at(at(3), StartCheckpoint::Stored(at(3)));
    assert!(planner.is_start(&at(3)) && !planner.is_start(&at(5)));
}
