//! Benchmarks, ours and side by side with others.

fn main() {}
