//! Reconcilers: triggers, cache, queue, workers.
