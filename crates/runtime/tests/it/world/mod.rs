//! Tests worlds: widgets are kept in sync with the resources of an external API that has nothing to do with Kubernetes.
//! There is one file per promise in the guide.

mod claims;
mod crashes;
mod fake_api;
mod fencing;
mod ineffective_updates;
mod invalid_specs;
mod lag;
mod leaks;
mod one_way;
mod outages;
mod ownership;
mod panics;
mod two_way;
mod vandals;
