//! Tests of the zoo: a few animals are hunted as by the program, with fewer schedules, and the output is as documented.
//! The whole zoo needs an optimized build: `cargo run --release -p homeostat-zoo`.

mod few;
mod list;
mod printed;
mod traces;
