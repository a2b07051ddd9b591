//! Micro-batches of a log that does what the test says.

use super::*;
use crate::error::Error;
use crate::options::Reading;

fn options(more: &[(&str, &str)]) -> ReadOptions {
    let base = [("kafka.bootstrap.servers", "localhost:1"), ("subscribe", "t"), ("failOnDataLoss", "false")];
    let given = base.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ReadOptions::parse(&given, Reading::Stream).unwrap()
}

fn at(offset: i64) -> Offsets {
    [(TopicPartition::new("t", 0), offset)].into()
}

fn id(number: u8) -> BTreeMap<String, Uuid> {
    [("t".to_owned(), Uuid([number; 16]))].into()
}

fn end(planner: &mut StreamPlanner, options: &ReadOptions, start: i64, latest: i64) -> i64 {
    let end = planner.end(options, &at(start), &at(latest), Limit::Options, Instant::now());
    let end = end.unwrap_or_else(|most| planner.share(most, &at(start), &at(latest), &at(0)));
    end.into_values().next().unwrap()
}

fn spans(planner: &mut StreamPlanner, options: &ReadOptions, start: i64, end: i64) -> Result<Vec<(i64, i64)>> {
    let first: Offsets = planner.first_needed(&at(start), &at(end)).into_iter().map(|tp| (tp, 0)).collect();
    let ranges = planner.ranges(options, &at(start), &at(end), &first)?;
    Ok(ranges.iter().map(|range| (range.start, range.end)).collect())
}

/// The third row: the start is later, as records were deleted or the options changed.
#[test]
fn every_start_is_stored_by_an_empty_first_batch() {
    for start in ["earliest", r#"{"t":{"0":3}}"#, "latest"] {
        let options = options(&[("startingOffsets", start), ("failOnDataLoss", "true")]);
        let mut planner = StreamPlanner::new(&options);
        planner.start_at(at(3), Keeping::Never);
        assert_eq!(end(&mut planner, &options, 3, 9), 3, "{start}");
        assert_eq!(end(&mut planner, &options, 3, 9), 9, "{start}");
        for later in [3, 8] {
            let mut again = StreamPlanner::new(&options);
            again.start_at(at(later), Keeping::Never);
            assert_eq!(spans(&mut again, &options, later, 3).unwrap(), [], "{start}");
            assert_eq!(end(&mut again, &options, 3, 9), 9, "{start}");
            assert_eq!(spans(&mut again, &options, 3, 9).unwrap(), [(3, 9)], "the task reports what is gone");
        }
    }
}

#[test]
fn an_empty_range_that_is_planned_before_the_start_is_no_first_micro_batch() {
    let options = options(&[("startingOffsets", "latest"), ("failOnDataLoss", "true")]);
    let mut planner = StreamPlanner::new(&options);
    assert_eq!(spans(&mut planner, &options, 26, 26).unwrap(), []);
    planner.start_at(at(27), Keeping::Never);
    assert_eq!(spans(&mut planner, &options, 27, 26).unwrap(), []);
    assert_eq!(spans(&mut planner, &options, 26, 27).unwrap(), [(26, 27)]);
    assert!(spans(&mut planner, &options, 27, 25).is_err(), "a later micro-batch");
}

#[test]
fn a_partition_added_since_the_first_micro_batch_was_planned_is_not_lost() {
    let strict = options(&[("startingOffsets", "earliest"), ("failOnDataLoss", "true")]);
    let more = |offset| Offsets::from([(TopicPartition::new("t", 0), offset), (TopicPartition::new("t", 1), 0)]);
    for without_start in [false, true] {
        for keeping in [Keeping::Never, Keeping::New] {
            let mut planner = StreamPlanner::new(&strict);
            if without_start {
                planner.plan_without_start();
            }
            planner.start_at(more(0), keeping);
            let ranges = planner.ranges(&strict, &more(0), &at(5), &Offsets::new()).unwrap();
            assert_eq!(ranges, [OffsetRange { tp: TopicPartition::new("t", 0), start: 0, end: 5 }]);
            let new: Offsets = [(TopicPartition::new("t", 1), 0)].into();
            let ranges = planner.ranges(&strict, &at(5), &more(6), &new).unwrap();
            assert_eq!(ranges.len(), 1, "the new one from its first record, which there is none of");
            let error = planner.ranges(&strict, &more(6), &at(6), &Offsets::new()).unwrap_err().to_string();
            assert!(error.contains("partition t-1 is gone"), "a later micro-batch: {error}");
        }
    }
    let mut kept = StreamPlanner::new(&strict);
    kept.start_at(more(0), Keeping::Kept(more(0)));
    assert!(kept.ranges(&strict, &more(0), &at(5), &Offsets::new()).is_err(), "this start is older than the end");
}

#[test]
fn a_start_that_moves_is_fixed_by_an_empty_first_batch() {
    let options = options(&[("startingOffsets", "latest"), ("failOnDataLoss", "true")]);
    let mut planner = StreamPlanner::new(&options);
    planner.start_at(at(100), Keeping::Never);
    assert_eq!(end(&mut planner, &options, 100, 103), 100);
    assert_eq!(spans(&mut planner, &options, 100, 100).unwrap(), []);
    assert_eq!(end(&mut planner, &options, 100, 103), 103);
    // Restarted before the first micro-batch was finished, after five more records.
    let mut again = StreamPlanner::new(&options);
    again.start_at(at(105), Keeping::Never);
    for _ in 0..2 {
        assert_eq!(spans(&mut again, &options, 105, 100).unwrap(), [], "Spark may plan a micro-batch more than once");
    }
    assert_eq!(end(&mut again, &options, 100, 105), 105);
    assert_eq!(spans(&mut again, &options, 100, 105).unwrap(), [(100, 105)]);
    let error = spans(&mut again, &options, 105, 101).unwrap_err();
    assert!(matches!(&error, Error::DataLoss(_)) && error.name() == "DataLossError");
    assert!(error.to_string().contains("went from offset 105 back to 101"), "{error}");
}

#[test]
fn real_time_mode_reads_each_partition_from_where_it_is() {
    let opened = |more: &[(&str, &str)], start: i64, latest: i64| {
        let options = options(more);
        let mut planner = StreamPlanner::new(&options);
        let first = planner.first_needed(&at(start), &at(latest)).into_iter().map(|tp| (tp, 0)).collect();
        planner.open(&options, &at(start), &at(latest), &first)
    };
    assert_eq!(opened(&[], 5, 9).unwrap(), at(5));
    assert_eq!(opened(&[], 9, 9).unwrap(), at(9), "one without records too");
    assert_eq!(opened(&[], 9, 7).unwrap(), at(7), "from the first offset on records could be repeated");
    let error = opened(&[("failOnDataLoss", "true")], 9, 7).unwrap_err();
    assert!(error.to_string().contains("went from offset 9 back to 7"), "{error}");
    let options = options(&[]);
    let mut planner = StreamPlanner::new(&options);
    assert_eq!(planner.first_needed(&Offsets::new(), &at(9)), [TopicPartition::new("t", 0)]);
    assert_eq!(planner.open(&options, &Offsets::new(), &at(9), &at(2)).unwrap(), at(2), "a new one from its first");
}

#[test]
fn a_start_that_is_kept_needs_no_empty_batch() {
    let options = options(&[("startingOffsets", "latest"), ("failOnDataLoss", "true")]);
    for keeping in [Keeping::New, Keeping::Kept(at(100))] {
        let mut planner = StreamPlanner::new(&options);
        planner.start_at(at(100), keeping);
        assert_eq!(end(&mut planner, &options, 100, 103), 103);
        assert_eq!(spans(&mut planner, &options, 100, 103).unwrap(), [(100, 103)]);
        assert!(spans(&mut planner, &options, 100, 99).is_err(), "that was no first micro-batch of another process");
    }
}

#[test]
fn only_a_start_that_was_not_kept_can_have_moved() {
    let options = options(&[("startingOffsets", "latest"), ("failOnDataLoss", "true")]);
    for (keeping, moved) in [(Keeping::Never, true), (Keeping::New, true), (Keeping::Kept(at(105)), false)] {
        let mut planner = StreamPlanner::new(&options);
        planner.start_at(at(105), keeping.clone());
        assert_eq!(spans(&mut planner, &options, 105, 100).is_ok(), moved, "{keeping:?}");
    }
}

#[test]
fn an_end_before_its_start_is_read_again_only_from_another_topic() {
    let unlimited = options(&[("startingOffsets", "earliest")]);
    let mut planner = StreamPlanner::new(&unlimited);
    planner.compare(id(1));
    assert_eq!(spans(&mut planner, &unlimited, 0, 1_000).unwrap(), [(0, 1_000)]);
    planner.compare(id(1));
    assert_eq!(spans(&mut planner, &unlimited, 1_000, 990).unwrap(), []);
    planner.compare(id(2));
    assert!(planner.known(&at(990)).is_empty(), "its end may be before what was read of the old one");
    for _ in 0..2 {
        assert_eq!(spans(&mut planner, &unlimited, 990, 7).unwrap(), [(0, 7)]);
    }
    // From now on it is the topic that is read.
    planner.compare(id(2));
    assert_eq!(spans(&mut planner, &unlimited, 7, 9).unwrap(), [(7, 9)]);
    planner.compare(id(3));
    let limited = options(&[("startingOffsets", "earliest"), ("maxOffsetsPerTrigger", "20")]);
    assert_eq!(end(&mut planner, &limited, 9, 50), 20, "the limit counts from its first record");
    let strict = options(&[("startingOffsets", "earliest"), ("failOnDataLoss", "true")]);
    let error = spans(&mut planner, &strict, 9, 20).unwrap_err().to_string();
    assert!(error.contains("topic t was deleted and recreated"), "{error}");
    // Spark plans no micro-batch while the new topic ends where the old one was read to.
    let error = planner.check_topics(&strict, &at(9)).unwrap_err().to_string();
    assert!(error.contains("topic t was deleted and recreated"), "{error}");
    planner.check_topics(&unlimited, &at(9)).unwrap();
}

#[test]
fn available_now_ends_where_the_log_ended_at_first() {
    let options = options(&[("startingOffsets", "earliest"), ("minOffsetsPerTrigger", "50")]);
    let mut planner = StreamPlanner::new(&options);
    planner.freeze(at(12));
    assert_eq!(planner.frozen(), Some(&at(12)));
    // Nothing more will come to wait for.
    assert_eq!(end(&mut planner, &options, 0, 12), 12);
    assert_eq!(end(&mut planner, &options, 12, 12), 12);
}

#[test]
fn partitions_that_come_and_go_are_losses_if_they_had_records() {
    let strict = options(&[("startingOffsets", "earliest"), ("failOnDataLoss", "true")]);
    let mut planner = StreamPlanner::new(&strict);
    let mut both = at(5);
    both.insert(TopicPartition::new("t", 1), 8);
    let new: Offsets = [(TopicPartition::new("t", 1), 0)].into();
    assert_eq!(planner.ranges(&strict, &at(0), &both, &new).unwrap().len(), 2);
    let late: Offsets = [(TopicPartition::new("t", 1), 3)].into();
    for (start, end, first, text) in [
        (at(0), both.clone(), late, "the new partition t-1 starts at 3"),
        (at(0), both.clone(), Offsets::new(), "the new partition t-1 is gone already"),
        (both, at(5), Offsets::new(), "partition t-1 is gone: what it had from offset 8 on"),
    ] {
        let error = planner.ranges(&strict, &start, &end, &first).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn a_start_is_known_as_such() {
    let mut planner = StreamPlanner::new(&options(&[]));
    assert!(!planner.is_start(&at(3)), "a query that goes on");
    planner.start_at(at(3), Keeping::Kept(at(3)));
    assert!(planner.is_start(&at(3)) && !planner.is_start(&at(5)));
}
