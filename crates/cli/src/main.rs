//! The `homeostat` binary.

fn main() {}
