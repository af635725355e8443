//! Connects the node's containers to the server's `pods/exec` and `pods/attach`, because the two crates do not know
//! each other.

use futures::future::BoxFuture;
use homeostat_apiserver::streams::{ByteStream, ContainerStream, ForwardAnswer, StreamAnswer, StreamSource};
use homeostat_core::container_stream::StreamRequest;
use homeostat_workloads::node::Streams;

/// A node's containers, for all Node objects it is registered as.
pub(super) struct NodeStreams {
    pub(super) nodes: Vec<String>,
    pub(super) streams: Streams,
}

impl StreamSource for NodeStreams {
    fn is_of(&self, node: &str) -> bool {
        self.nodes.iter().any(|name| name == node)
    }

    fn open(&self, request: StreamRequest) -> BoxFuture<'static, StreamAnswer> {
        let streams = self.streams.clone();
        Box::pin(async move {
            let connection = streams.open(request).await?;
            Ok(ContainerStream { input: connection.input, output: connection.output })
        })
    }

    fn forward(&self, pod: String, port: u16) -> BoxFuture<'static, ForwardAnswer> {
        let streams = self.streams.clone();
        Box::pin(async move {
            let connection = streams.forward(pod, port).await?;
            Ok(Box::new(connection) as Box<dyn ByteStream>)
        })
    }
}
