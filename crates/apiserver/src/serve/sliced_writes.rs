//! Passes the writes of a connection to TLS in small slices.
//!
//! TLS copies the data that it encrypts, record by record. glibc copies large blocks with a single instruction (`rep
//! movsb`), which takes several times as long as its vector loop on some processors (AMD's Zen 3 and 4), depending on
//! the alignment of the blocks; it always copies small ones with the loop. For a list of 10 MB that copy took a quarter
//! of the server's time.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Smaller than the size that glibc considers large on any processor (at least 2 112 bytes).
const SLICE_BYTES: usize = 2048;
/// The maximum number of slices per write: twice what TLS accepts in one call.
const SLICES_MAX: usize = 64;

/// A stream that passes its writes on in small slices.
pub(super) struct SlicedWrites<S>(pub(super) S);

impl<S: AsyncWrite + Unpin> AsyncWrite for SlicedWrites<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        let all = buffers.iter().flat_map(|buffer| buffer.chunks(SLICE_BYTES));
        for (slice, bytes) in slices.iter_mut().zip(all) {
            *slice = IoSlice::new(bytes);
            count += 1;
        }
        Pin::new(&mut self.0).poll_write_vectored(cx, &slices[..count])
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SlicedWrites<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn data_arrives_complete_and_in_order() {
        let (one, mut other) = tokio::io::duplex(5000);
        let mut sliced = SlicedWrites(one);
        let written = (0..SLICES_MAX * SLICE_BYTES * 2 + 77)
            .map(|at| u8::try_from(at % 251).unwrap())
            .collect::<Vec<_>>();
        let expected = written.clone();
        let writing = tokio::spawn(async move {
            sliced.write_all(&written[..10]).await.unwrap();
            sliced.write_all(&written[10..]).await.unwrap();
            sliced.shutdown().await.unwrap();
        });
        let mut arrived = Vec::new();
        other.read_to_end(&mut arrived).await.unwrap();
        writing.await.unwrap();
        assert!(arrived == expected);
    }
}
