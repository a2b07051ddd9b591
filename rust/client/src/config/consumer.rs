//! Options of a consumer and its group.

use samsarrow_arrow::decode::Projection;
use samsarrow_arrow::layout::Layout;

use super::values::Values;
use super::{ConsumerOptions, GroupOptions, GroupProtocol, IsolationLevel, OffsetReset, duration};
use crate::error::{Error, Result};

impl Values {
    fn group(&self) -> Result<GroupOptions> {
        let protocol = match self.text("group.protocol") {
            "consumer" => GroupProtocol::Consumer,
            _ => GroupProtocol::Classic,
        };
        if protocol == GroupProtocol::Consumer {
            // The coordinator has these settings for all members (KIP-848). Setting them has no effect, so it is an
            // error.
            for name in ["partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms"] {
                if self.is_set(name) {
                    return Err(Error::configuration(format!(
                        "option {name} has no effect with group.protocol=consumer, where the broker decides: leave it out"
                    )));
                }
            }
        } else if self.is_set("group.remote.assignor") {
            return Err(Error::configuration(
                "option group.remote.assignor needs group.protocol=consumer; with classic set partition.assignment.strategy",
            ));
        }
        let (session, heartbeat) = (self.millis("session.timeout.ms"), self.millis("heartbeat.interval.ms"));
        if heartbeat >= session {
            return Err(Error::configuration(format!(
                "heartbeat.interval.ms ({}) must be less than session.timeout.ms ({})",
                heartbeat.as_millis(),
                session.as_millis()
            )));
        }
        let strategies = self.text("partition.assignment.strategy");
        let assignors: Vec<String> =
            strategies.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if assignors.is_empty() {
            return Err(Error::configuration("option partition.assignment.strategy must name an assignor"));
        }
        let id = self.non_empty("group.id");
        Ok(GroupOptions {
            instance_id: self.non_empty("group.instance.id"),
            protocol,
            remote_assignor: self.non_empty("group.remote.assignor"),
            assignors,
            session_timeout: session,
            heartbeat_interval: heartbeat,
            max_poll_interval: self.millis("max.poll.interval.ms"),
            auto_commit: (id.is_some() && self.flag("enable.auto.commit"))
                .then(|| self.millis("auto.commit.interval.ms")),
            auto_store: self.flag("enable.auto.offset.store"),
            exclude_internal_topics: self.flag("exclude.internal.topics"),
            id,
        })
    }

    fn offset_reset(&self) -> Result<OffsetReset> {
        let text = self.text("auto.offset.reset").trim();
        match text.to_ascii_lowercase().as_str() {
            "earliest" => return Ok(OffsetReset::Earliest),
            "latest" => return Ok(OffsetReset::Latest),
            "none" => return Ok(OffsetReset::None),
            _ => {}
        }
        text.strip_prefix("by_duration:").and_then(duration::parse).map(OffsetReset::ByDuration).ok_or_else(|| {
            Error::configuration(format!(
                "option auto.offset.reset must be latest, earliest, none or by_duration: and an ISO 8601 duration \
                 (by_duration:PT24H), not {text:?}"
            ))
        })
    }

    /// Returns `fetch.max.bytes`, limited to 90% of `receive.message.max.bytes`. A larger response than
    /// `receive.message.max.bytes` would close the connection, again and again. The other 10% are reserved for the
    /// headers of topics and partitions.
    fn fetch_max_bytes(&self) -> i32 {
        let received: i32 = self.number("receive.message.max.bytes");
        self.number::<i32>("fetch.max.bytes").min(received - received / 10)
    }

    pub(super) fn consumer(&self) -> Result<ConsumerOptions> {
        Ok(ConsumerOptions {
            group: self.group()?,
            client_rack: self.text("client.rack").to_owned(),
            auto_offset_reset: self.offset_reset()?,
            isolation_level: match self.text("isolation.level") {
                "read_committed" => IsolationLevel::ReadCommitted,
                _ => IsolationLevel::ReadUncommitted,
            },
            fetch_min_bytes: self.number("fetch.min.bytes"),
            fetch_max_wait: self.millis("fetch.max.wait.ms"),
            fetch_max_bytes: self.fetch_max_bytes(),
            max_partition_fetch_bytes: self.number("max.partition.fetch.bytes"),
            queued_max_bytes: self.number("queued.max.bytes"),
            max_poll_records: self.number("max.poll.records"),
            check_crcs: self.flag("check.crcs"),
            max_decompressed_bytes: self.number("max.decompressed.bytes"),
            max_decompressed_ratio: self.number("max.decompressed.ratio"),
            layout: if self.text("layout") == "view" { Layout::View } else { Layout::Binary },
            include_headers: self.flag("include.headers"),
            include_leader_epoch: self.flag("include.leader.epoch"),
            projection: Projection::default(),
        })
    }
}
