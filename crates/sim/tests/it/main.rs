//! Tests of the simulator: reconcilers with known bugs and their cured twins, determinism, and replay.

mod addresses;
mod call_faults;
mod conditions;
mod kinds;
mod oracles;
mod outside;
mod outside_faults;
mod pages;
mod planted;
mod repeat;
mod replicas;
mod rest;
mod restart;
mod shrinking;
mod surroundings;
mod torn;
mod user_faults;
mod watch;
mod watch_faults;
