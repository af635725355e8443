//! Limits how much the rules of a definition may cost, in Kubernetes' units and with its values. `check_rules` compares
//! estimates with the first two limits when a definition is written; `eval` counts towards the last one.

/// The maximum estimated cost of one rule, multiplied by how often its value can occur.
pub(super) const RULE_COST_MAX: u64 = 10_000_000;

/// The maximum estimated cost of all rules of a schema together.
pub(super) const SCHEMA_COST_MAX: u64 = 100_000_000;

/// The maximum cost of one evaluation.
pub(super) const EVALUATION_COST_MAX: u64 = 1_000_000;
