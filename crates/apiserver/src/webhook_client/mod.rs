//! Calls users' servers: admission webhooks and conversion webhooks, by URL or by Service.
//!
//! **Invariant:** a webhook can only affect the requests that need it. A call is bounded in time and bytes, follows no
//! redirects and decompresses nothing; while it waits, its request gives up its slot, also among the expensive
//! requests, and each webhook has a limit on concurrent calls.

mod call;
mod connection;
mod target;

pub(crate) use call::{CallFailure, RESPONSE_MEMORY_MAX, TOO_MANY_PARTS, WebhookCall, WebhookClient};
