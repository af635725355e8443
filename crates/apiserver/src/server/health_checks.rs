//! Runs the health checks and responds with their outcome: the probes, and `/metrics/slis`.

use http::Response;

use super::ApiServer;
use crate::body::Body;
use crate::health;
use crate::metrics;
use crate::request::Query;
use crate::verbs::Answer;

impl ApiServer {
    /// Responds to a probe, if the path is one.
    pub(super) fn probe(&self, path: &str, query: &Query) -> Option<health::ProbeAnswer> {
        health::probe(path, query, &health_checks(self.store_failure().as_deref()))
    }

    /// Serves `/metrics/slis`.
    pub(super) fn indicators(&self) -> Response<Body> {
        let text = health::indicators(&health_checks(self.store_failure().as_deref()));
        Answer::body(200, metrics::CONTENT_TYPE, text.into()).into_response()
    }

    fn store_failure(&self) -> Option<String> {
        self.shared.backend.store.check().err().map(|error| error.to_string())
    }
}

fn health_checks(store_failure: Option<&str>) -> [health::HealthCheck<'_>; 2] {
    [health::PING, health::HealthCheck { name: health::STORE, failure: store_failure }]
}
