//! Options of a producer.

use samsarrow_wire::compression::Codec;

use super::values::Values;
use super::{Partitioner, ProducerOptions, message_format};
use crate::error::{Error, Result};

/// Default `batch.size` with `acks=0`, that of Java's producer. A broker does not report that a batch is larger than the
/// topic allows, so the producer cannot split the batch, and all its records are lost.
const UNACKNOWLEDGED_BATCH_SIZE: usize = 16 * 1024;

impl Values {
    /// Builds the producer options. `produce_version` is the version of Produce, if the user set one.
    pub(super) fn producer(&self, produce_version: Option<i16>) -> Result<ProducerOptions> {
        let acks: i16 = match self.text("acks") {
            "0" => 0,
            "1" => 1,
            _ => -1,
        };
        let transactional_id = self.non_empty("transactional.id");
        if transactional_id.is_none() && self.is_set("transactional.id") {
            let name = self.spelling("transactional.id");
            return Err(Error::configuration(format!(
                "option {name} must not be empty: leave it out for a producer without transactions"
            )));
        }
        if transactional_id.is_some() {
            self.check_transactional(acks)?;
        }
        // Transactions require idempotence.
        let is_required = self.is_set("enable.idempotence") || transactional_id.is_some();
        let mut idempotence = self.flag("enable.idempotence");
        if idempotence && acks != -1 {
            if is_required {
                return Err(Error::configuration(format!(
                    "enable.idempotence=true needs acks=all, not acks={acks}: change one of them"
                )));
            }
            idempotence = false;
        }
        let magic = message_format::magic(self.text("message.format.version"), produce_version)?;
        if magic < 2 && idempotence {
            if is_required {
                let option = if transactional_id.is_some() { "transactional.id" } else { "enable.idempotence=true" };
                return Err(Error::configuration(format!(
                    "{option} needs message format v2, and message.format.version or api.version.produce \
                     asks for v{magic}: change one of them"
                )));
            }
            idempotence = false;
        }
        let compression = match self.text("compression.type") {
            "gzip" => Codec::Gzip,
            "snappy" => Codec::Snappy,
            "lz4" => Codec::Lz4,
            "zstd" => Codec::Zstd,
            _ => Codec::None,
        };
        let compression_level = match compression {
            Codec::Gzip => Some(self.number("compression.gzip.level")).filter(|level| *level != -1),
            Codec::Zstd => Some(self.number("compression.zstd.level")),
            _ => None,
        };
        if compression == Codec::Gzip && compression_level == Some(0) {
            return Err(Error::configuration("option compression.gzip.level must be from 1 to 9, or -1, not 0"));
        }
        if magic < 2 && compression == Codec::Zstd {
            return Err(Error::configuration(format!(
                "compression.type=zstd needs message format v2, and message.format.version or api.version.produce asks \
                 for v{magic}: choose another codec"
            )));
        }
        let (linger, request) = (self.millis("linger.ms"), self.millis("request.timeout.ms"));
        let delivery_timeout = self.millis("delivery.timeout.ms");
        if self.is_set("delivery.timeout.ms") && delivery_timeout < linger + request {
            return Err(Error::configuration(format!(
                "delivery.timeout.ms ({}) must be at least linger.ms ({}) + request.timeout.ms ({})",
                delivery_timeout.as_millis(),
                linger.as_millis(),
                request.as_millis()
            )));
        }
        let rack = self.text("client.rack");
        let rack_aware = self.flag("partitioner.rack.aware");
        if rack_aware && rack.is_empty() {
            return Err(Error::configuration(
                "partitioner.rack.aware=true needs the rack of this client: set client.rack to the broker.rack of the \
                 brokers that are close to it",
            ));
        }
        Ok(ProducerOptions {
            acks,
            enable_idempotence: idempotence,
            require_idempotence: is_required,
            transactional_id,
            transaction_timeout: self.millis("transaction.timeout.ms"),
            max_in_flight: self.number("max.in.flight.requests.per.connection"),
            linger,
            adaptive_linger: !self.is_set("linger.ms"),
            retries: self.number("retries"),
            delivery_timeout: delivery_timeout.max(linger + request),
            batch_size: if acks == 0 && !self.is_set("batch.size") {
                UNACKNOWLEDGED_BATCH_SIZE
            } else {
                self.number("batch.size")
            },
            max_request_size: self.number("max.request.size"),
            compression,
            compression_level,
            magic,
            max_block: self.millis("max.block.ms"),
            buffer_memory: self.number("buffer.memory"),
            partitioner: match self.text("partitioner") {
                "round_robin" => Partitioner::RoundRobin,
                "consistent" => Partitioner::Consistent,
                "consistent_random" => Partitioner::ConsistentRandom,
                "fnv1a" => Partitioner::Fnv1a,
                "fnv1a_random" => Partitioner::Fnv1aRandom,
                _ => Partitioner::Murmur2,
            },
            partitioner_ignore_keys: self.flag("partitioner.ignore.keys"),
            partitioner_adaptive: self.flag("partitioner.adaptive.partitioning.enable"),
            partitioner_patience: Some(self.millis("partitioner.availability.timeout.ms"))
                .filter(|timeout| !timeout.is_zero()),
            partitioner_rack: rack_aware.then(|| rack.to_owned()),
        })
    }

    /// Checks that no option conflicts with `transactional.id`.
    fn check_transactional(&self, acks: i16) -> Result<()> {
        let contradiction = if acks != -1 {
            format!("acks={acks}")
        } else if !self.flag("enable.idempotence") {
            "enable.idempotence=false".to_owned()
        } else if self.number::<u32>("retries") == 0 {
            "retries=0".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::configuration(format!(
            "transactional.id needs acks=all, enable.idempotence=true and retries, not {contradiction}: change one of them"
        )))
    }
}
