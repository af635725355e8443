//! `homeostat plan`: run as a process, and compared with what then happens.

mod cloud;
mod equality;
mod processes;
mod random_changes;
