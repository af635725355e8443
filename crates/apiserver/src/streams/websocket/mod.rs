//! Implements the server side of a WebSocket: messages in, messages out, pings both ways.
//!
//! **Invariant:** a frame is written as a whole or the connection is lost: no write is cancelled in the middle of a
//! frame while the connection is still in use. A peer that has vanished is detected by its unanswered pings.

pub(crate) mod frame;
pub(crate) mod handshake;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use self::frame::{CloseCode, FrameError, Message, MessageDecoder, Opcode, encode_close, encode_frame};
use super::upgrade::UpgradedConnection;
use crate::limits::{STREAM_CLOSE_TIME, STREAM_IDLE_TIME, STREAM_PING_INTERVAL, STREAM_SILENT_PINGS_MAX};

/// The maximum number of client pings that wait for a response; some of any further pings stay unanswered.
const PONGS_MAX: usize = 4;
/// How much is read at a time.
const READ_BYTES: usize = 32 * 1024;

/// The facts that both halves know about the peer.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    /// How many times anything arrived.
    heard: AtomicU64,
    /// How many times data moved in either direction.
    moved: AtomicU64,
    /// Whether reading is paused because the process does not take its input.
    is_paused: AtomicBool,
}

/// The reading half.
pub(crate) struct WebSocketReader {
    read: ReadHalf<UpgradedConnection>,
    decoder: MessageDecoder,
    pongs: mpsc::Sender<Vec<u8>>,
    liveness: Arc<Liveness>,
}

/// The writing half.
pub(crate) struct WebSocketWriter {
    write: WriteHalf<UpgradedConnection>,
    pongs: mpsc::Receiver<Vec<u8>>,
    liveness: Arc<Liveness>,
    ticks: Interval,
    heard: u64,
    silent_ticks: u32,
    moved: u64,
    idle: Duration,
}

/// A task that a writer must do between messages.
pub(crate) enum WriterDuty {
    /// Answer a ping.
    Pong(Vec<u8>),
    /// Send a ping.
    Ping,
    /// End the connection: the peer has vanished, or no data has moved for too long.
    GiveUp,
}

/// Splits an upgraded connection.
pub(crate) fn split(connection: UpgradedConnection) -> (WebSocketReader, WebSocketWriter) {
    let (read, write) = tokio::io::split(connection);
    let (sender, pongs) = mpsc::channel(PONGS_MAX);
    let liveness = Arc::new(Liveness::default());
    let mut ticks = interval(STREAM_PING_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    let reader = WebSocketReader {
        read,
        decoder: MessageDecoder::default(),
        pongs: sender,
        liveness: Arc::clone(&liveness),
    };
    let writer = WebSocketWriter {
        write,
        pongs,
        liveness,
        ticks,
        heard: 0,
        silent_ticks: 0,
        moved: 0,
        idle: Duration::ZERO,
    };
    (reader, writer)
}

impl WebSocketReader {
    /// Returns the next message with data; `None` when the client has closed the connection or is gone.
    pub(crate) async fn next_data(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        loop {
            while let Some(message) = self.decoder.next_message()? {
                match message {
                    Message::Binary(bytes) | Message::Text(bytes) => {
                        self.liveness.moved.fetch_add(1, Ordering::Relaxed);
                        return Ok(Some(bytes));
                    }
                    // A client with so many pings in flight already knows that we are here.
                    Message::Ping(payload) => drop(self.pongs.try_send(payload)),
                    Message::Pong => {}
                    Message::Close => return Ok(None),
                }
            }
            self.decoder.buffer().reserve(READ_BYTES);
            match self.read.read_buf(self.decoder.buffer()).await {
                Ok(0) | Err(_) => return Ok(None),
                Ok(_) => self.liveness.heard.fetch_add(1, Ordering::Relaxed),
            };
        }
    }

    /// Forwards a message. While this waits, the client is not expected to send anything.
    pub(crate) async fn hand_on(&mut self, handing: impl Future<Output = bool>) -> bool {
        self.liveness.is_paused.store(true, Ordering::Relaxed);
        let is_taken = handing.await;
        self.liveness.is_paused.store(false, Ordering::Relaxed);
        is_taken
    }

    /// Reads until the client closes the connection, so that the client receives the last messages.
    pub(crate) async fn wait_for_close(&mut self) {
        let closed = async { while let Ok(Some(_)) = self.next_data().await {} };
        let _ = timeout(STREAM_CLOSE_TIME, closed).await;
    }
}

impl WebSocketWriter {
    /// Waits for the next chore. Dropping the future loses nothing.
    pub(crate) async fn next_chore(&mut self) -> WriterDuty {
        tokio::select! {
            Some(payload) = self.pongs.recv() => WriterDuty::Pong(payload),
            _ = self.ticks.tick() => self.look_at_peer(),
        }
    }

    fn look_at_peer(&mut self) -> WriterDuty {
        let heard = self.liveness.heard.load(Ordering::Relaxed);
        let is_silent = heard == self.heard && !self.liveness.is_paused.load(Ordering::Relaxed);
        self.heard = heard;
        self.silent_ticks = if is_silent { self.silent_ticks + 1 } else { 0 };
        let moved = self.liveness.moved.load(Ordering::Relaxed);
        self.idle = if moved == self.moved { self.idle + STREAM_PING_INTERVAL } else { Duration::ZERO };
        self.moved = moved;
        if self.silent_ticks > STREAM_SILENT_PINGS_MAX || self.idle >= STREAM_IDLE_TIME {
            WriterDuty::GiveUp
        } else {
            WriterDuty::Ping
        }
    }

    /// Does a chore. An error means that the connection is closed.
    pub(crate) async fn do_chore(&mut self, chore: WriterDuty) -> io::Result<()> {
        match chore {
            WriterDuty::Pong(payload) => self.write_frame(Opcode::Pong, &[&payload]).await,
            WriterDuty::Ping => self.write_frame(Opcode::Ping, &[]).await,
            WriterDuty::GiveUp => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Sends a message with data.
    pub(crate) async fn send(&mut self, opcode: Opcode, parts: &[&[u8]]) -> io::Result<()> {
        self.write_frame(opcode, parts).await?;
        self.liveness.moved.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Sends a close frame with the reason.
    pub(crate) async fn close(&mut self, code: CloseCode) {
        // The client may already be gone.
        let closing = async {
            let _ = self.write.write_all(&encode_close(code)).await;
            let _ = self.write.shutdown().await;
        };
        let _ = timeout(STREAM_CLOSE_TIME, closing).await;
    }

    async fn write_frame(&mut self, opcode: Opcode, parts: &[&[u8]]) -> io::Result<()> {
        let written = async {
            self.write.write_all(&encode_frame(opcode, parts)).await?;
            self.write.flush().await
        };
        // A peer that does not read is given no more time than one that sends nothing.
        timeout(STREAM_IDLE_TIME, written).await.map_err(|_| io::ErrorKind::TimedOut)?
    }
}
