//! Control and inspection of group and transaction coordinators.

use std::io;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::sync::lock;

use super::{Broker, invalid};
use crate::state::groups::Members;
use crate::state::transactions::Now;

impl Broker {
    /// Returns the offset that a group has committed for a partition.
    pub fn committed_offset(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let topic = self.state.topic(topic)?;
        let committed = lock(&self.state.groups).committed(group, &topic.name, topic.id.0, partition)?;
        Some(committed.offset)
    }

    /// Returns the state of a group by Kafka's name, such as `Stable`; `None` if the group is unknown.
    pub fn group_state(&self, group: &str) -> Option<&'static str> {
        lock(&self.state.groups).members(group).map(Members::state)
    }

    /// Ends all acquisition locks of a share group, as if their time had passed: its records become available to other
    /// members, or are archived at the delivery limit.
    ///
    /// # Errors
    /// Fails if no share group with this id has acquired records.
    pub fn expire_locks(&self, group: &str) -> io::Result<()> {
        if self.state.expire_share_locks(group) {
            return Ok(());
        }
        Err(invalid(format!("there is no share group '{group}' that has acquired records")))
    }

    /// Returns the number of records of a partition that a share group has not finished; `None` before its first
    /// acknowledgement.
    pub fn share_lag(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let topic = self.state.topic(topic)?.id;
        self.state.share_offset(group, (topic.0, partition)).map(|offset| offset.lag)
    }

    /// Returns the node that coordinates a group and stores its offsets.
    pub fn coordinator(&self, group: &str) -> Option<i32> {
        self.state.coordinator(group).map(|(id, _)| id)
    }

    /// Makes `node` the coordinator of a group while `node` is up. Members are redirected to `node`. An unfinished
    /// rebalance starts again, as after the failure of a coordinator.
    pub fn move_coordinator(&self, group: &str, node: i32) -> io::Result<()> {
        if self.state.node(node).is_none() {
            return Err(invalid(format!("there is no node {node}")));
        }
        if !self.state.is_up(node) {
            return Err(invalid(format!("node {node} is stopped: it cannot coordinate group '{group}'")));
        }
        self.state.move_coordinator(group, node);
        Ok(())
    }

    /// Returns the node that coordinates a transactional id.
    pub fn transaction_coordinator(&self, transactional_id: &str) -> Option<i32> {
        self.state.transaction_coordinator(transactional_id).map(|(id, _)| id)
    }

    /// Makes `node` the coordinator of a transactional id while `node` is up. Open transactions stay open.
    pub fn move_transaction_coordinator(&self, transactional_id: &str, node: i32) -> io::Result<()> {
        if self.state.node(node).is_none() {
            return Err(invalid(format!("there is no node {node}")));
        }
        if !self.state.is_up(node) {
            let reason = format!("node {node} is stopped: it cannot coordinate transactional id '{transactional_id}'");
            return Err(invalid(reason));
        }
        self.state.move_transaction_coordinator(transactional_id, node);
        Ok(())
    }

    /// Returns the transaction state of a transactional id by Kafka's name, such as `Ongoing`; `None` if the id is
    /// unknown.
    pub fn transaction_state(&self, transactional_id: &str) -> Option<&'static str> {
        self.state.transactions().get(transactional_id).map(|transaction| transaction.phase.name())
    }

    /// Aborts the open transaction of a transactional id, if any, and bumps its producer epoch. This fences the
    /// producer, as an administrator or a second producer would.
    pub fn fence(&self, transactional_id: &str) -> io::Result<()> {
        let new_id = || self.state.new_producer_id();
        let fenced = self.state.transactions().fence(Now::read(), transactional_id, &new_id);
        self.state.complete_transactions();
        match fenced {
            Ok(()) => Ok(()),
            Err(ErrorCode::TRANSACTIONAL_ID_NOT_FOUND) => {
                Err(invalid(format!("transactional id '{transactional_id}' is not known")))
            }
            Err(code) => Err(io::Error::other(format!("transactional id '{transactional_id}': {code}"))),
        }
    }
}
