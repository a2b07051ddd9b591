//! ListTransactions, v0–v2: the transactional ids that this node coordinates.

use regex::Regex;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ListTransactionsRequest;
use samsarrow_wire::messages::list_transactions::{ListTransactionsResponse, TransactionState};

use super::{Call, Handler, Outcome};
use crate::clock::now_ms;
use crate::state::transactions::transaction::{Phase, Transaction};

/// Parses state filters. Returns the known states, and the names of unknown states.
fn phases(names: &[String]) -> (Vec<Phase>, Vec<String>) {
    let mut unknown = Vec::new();
    let mut known = Vec::new();
    for name in names {
        match Phase::ALL.into_iter().find(|phase| phase.name() == name) {
            Some(phase) => known.push(phase),
            None => unknown.push(name.clone()),
        }
    }
    (known, unknown)
}

impl Handler for ListTransactionsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let pattern = self.transactional_id_pattern.as_deref().filter(|pattern| !pattern.is_empty());
        // The pattern must match the whole transactional id.
        let Ok(pattern) = pattern.map(|pattern| Regex::new(&format!("^(?:{pattern})$"))).transpose() else {
            return call.reply::<Self>(&self.error_response(call.version, ErrorCode::INVALID_REGULAR_EXPRESSION));
        };
        let (phases, unknown_state_filters) = phases(&self.state_filters);
        let now = now_ms();
        let passes = |id: &str, transaction: &Transaction| {
            let runs_for = now - transaction.begun.map_or(-1, |begun| begun.ms);
            (self.state_filters.is_empty() || phases.contains(&transaction.phase))
                && (self.producer_id_filters.is_empty() || self.producer_id_filters.contains(&transaction.producer.id))
                && (self.duration_filter < 0 || runs_for > self.duration_filter)
                && pattern.as_ref().is_none_or(|pattern| pattern.is_match(id))
                && call.state.check_transaction_coordinator(call.node, id).is_ok()
        };
        let transactions = call.state.transactions();
        let listed = transactions.iter().filter(|(id, transaction)| passes(id, transaction));
        let state = |(id, transaction): (&str, &Transaction)| TransactionState {
            transactional_id: id.to_owned(),
            producer_id: transaction.producer.id,
            transaction_state: transaction.phase.name().to_owned(),
            ..TransactionState::default()
        };
        let transaction_states = listed.map(state).collect();
        call.reply::<Self>(&ListTransactionsResponse {
            unknown_state_filters,
            transaction_states,
            ..ListTransactionsResponse::default()
        })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> ListTransactionsResponse {
        ListTransactionsResponse { error_code: code.code(), ..ListTransactionsResponse::default() }
    }
}
