//! The outside world: widgets kept equal to things in a yard that has nothing to do with Kubernetes. One file per
//! promise of the guide.

mod claims;
mod crashes;
mod fencing;
mod lag;
mod leaks;
mod one_way;
mod outages;
mod ownership;
mod panics;
mod sense;
mod takes;
mod two_way;
mod vandals;
mod yard;
