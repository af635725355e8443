//! Tests of the zoo: a few animals are hunted as the program does, with fewer schedules, and what is printed is what was
//! promised. The whole zoo takes an optimized build: `cargo run --release -p homeostat-zoo`.

mod few;
mod list;
mod printed;
mod traces;
