//! The memory store fulfils the contract.

use std::sync::Arc;

use homeostat_core::Clock;
use homeostat_store::{Limits, Memory, SharedStore};

use crate::contract;

struct Plain;

impl contract::Subject for Plain {
    fn open(&self, limits: Limits) -> SharedStore {
        Arc::new(Memory::with(Clock::system(), limits))
    }
}

contract::suite!(Plain);
