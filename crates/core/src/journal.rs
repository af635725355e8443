//! What happened: entries of the journal that joins runtime, simulator, metrics and explanations.
