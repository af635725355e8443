//! A client for requests that the context does not cover, limited to the tenure of a run: reads are allowed, and every
//! request that may change something is refused once the tenure is over.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Method, Request, Response, header};
use kube::Client;
use kube::client::Body;

use super::tenure::TenureTerm;
use crate::error::Error;

/// Returns the client `whole`, limited to this tenure.
pub(super) fn fenced(whole: &Client, term: &Arc<TenureTerm>) -> Client {
    let namespace = whole.default_namespace().to_owned();
    Client::new(FencedService { whole: whole.clone(), term: term.clone() }, namespace)
}

#[derive(Clone)]
struct FencedService {
    whole: Client,
    term: Arc<TenureTerm>,
}

impl tower::Service<Request<Body>> for FencedService {
    type Response = Response<Body>;
    type Error = crate::error::BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { whole, term } = self.clone();
        Box::pin(async move {
            if may_change(&request) && !term.is_valid() {
                return Err(Error::FencedRequest { request: words_of(&request) }.into());
            }
            Ok(whole.send(request).await?)
        })
    }
}

/// Returns whether a request may change something. Reads do not, but a command in a container, which begins with a GET,
/// may.
fn may_change(request: &Request<Body>) -> bool {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    !is_read || request.headers().contains_key(header::UPGRADE)
}

fn words_of(request: &Request<Body>) -> String {
    format!("{} {}", request.method(), request.uri().path())
}
