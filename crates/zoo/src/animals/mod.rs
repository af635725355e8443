//! All animals, one per file, in the order of the table in `docs/why/zoo.md`.

mod batch_over_the_limit;
mod clock_in_the_status;
mod counter_by_cache;
mod early_return_no_prune;
mod edge_only_deletion;
mod generate_name_twin;
mod guard_destroyed_first;
mod immutable_storm;
mod late_finalizer;
mod late_leader;
mod late_reference;
mod namesake;
mod no_way_back;
mod orphan_outside;
mod shrink_and_grow;
mod skipped_step;
mod stale_ready;
mod stuck_lock;
mod toggled_child;
mod torn_pair;
mod tug_of_war;
mod two_way_ratchet;
mod undying;
mod unwatched_child;

use crate::animal::Animal;

macro_rules! animals {
    ($($name:ident),* $(,)?) => {
        &[$(Animal { name: stringify!($name), broken: $name::broken, cured: $name::cured }),*]
    };
}

/// All animals. The name of each is the name of its file.
pub const ANIMALS: &[Animal] = animals![
    namesake,
    shrink_and_grow,
    two_way_ratchet,
    toggled_child,
    counter_by_cache,
    generate_name_twin,
    batch_over_the_limit,
    skipped_step,
    unwatched_child,
    late_reference,
    edge_only_deletion,
    torn_pair,
    guard_destroyed_first,
    orphan_outside,
    stuck_lock,
    late_finalizer,
    undying,
    early_return_no_prune,
    clock_in_the_status,
    tug_of_war,
    stale_ready,
    no_way_back,
    immutable_storm,
    late_leader,
];
