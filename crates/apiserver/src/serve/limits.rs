//! How much of the server one client may take. Every number says why; kube-apiserver's where it has one.

use std::time::Duration;

/// A part of something.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    of: usize,
    part: usize,
}

impl Share {
    /// That part of so many, at least one.
    pub fn of(self, all: usize) -> usize {
        (all * self.part / self.of).max(1)
    }
}

/// Largest request body: kube-apiserver's.
pub const BODY_BYTES_MAX: u64 = 3 * 1024 * 1024;

/// Reads of one user answered at once: kube-apiserver's for all. More wait outside, told to come back.
pub const USER_READS_MAX: usize = 400;
/// Writes of one user answered at once: kube-apiserver's for all.
pub const USER_WRITES_MAX: usize = 200;
/// Reads answered at once: nobody can fill it alone.
pub const READS_MAX: usize = 2 * USER_READS_MAX;
/// Writes answered at once: nobody can fill it alone.
pub const WRITES_MAX: usize = 2 * USER_WRITES_MAX;
/// Watches and connections to Pods of one user at the same time: an operator has one for each kind it watches, a node some dozen,
/// and a controller manager some hundred. An idle one costs some ten kilobytes.
pub const USER_WATCHES_MAX: usize = 1000;
/// Watches of all users at the same time. Administrators have room of their own, here and above.
pub const WATCHES_MAX: usize = 8 * USER_WATCHES_MAX;
/// When a refused request may come again.
pub const RETRY_AFTER_S: u32 = 1;

/// Bytes of request bodies of one user held at once: five of the largest, or two hundred writes of 80 kB. Who sends more is
/// told to come again.
pub const USER_BODIES_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of request bodies of all users held at once: nobody can fill it alone. Administrators have as much of their own.
pub const BODIES_BYTES_MAX: usize = 3 * USER_BODIES_BYTES_MAX;

/// Open connections. An idle one costs some 40 KB (TLS and HTTP buffers), so this many cost 160 MB at worst; for one more an
/// idle one is closed, and if there is none, the newest. Those being served notice nothing.
pub const CONNECTIONS_MAX: usize = 4096;
/// What part of all connections the users of one peer may have: many programs of one machine share its address, so it is a large
/// one; it only keeps a single machine from having all.
pub const PEER_SHARE: Share = Share { of: 4, part: 3 };
/// What part of all connections one user may have, or all service accounts of one namespace together.
pub const USER_SHARE: Share = Share { of: 2, part: 1 };
/// What part of all connections users may have together: the others are for administrators, and for those yet to say who
/// they are.
pub const USERS_SHARE: Share = Share { of: 8, part: 7 };
/// What part of all connections may be without an authenticated request, the handshake included. One more, and the oldest of
/// them is closed. A client that means it needs some milliseconds to say who it is.
pub const STRANGERS_SHARE: Share = Share { of: 4, part: 1 };
/// Connections that were told to leave and have not yet, at most; their descriptors are among those reserved.
pub const LEAVING_MAX: usize = 64;
/// From the handshake to the first request of somebody known. Clients connect to ask; an anonymous probe connects again.
pub const STRANGER_TIME: Duration = Duration::from_secs(10);
/// Refusals on a connection of nobody known that the client may leave unread; the stream of one more is reset. One costs some
/// 4 KB, and a client that is told its token is wrong reads it.
pub const STRANGER_REFUSALS_MAX: usize = 16;
/// Streams of such a connection that are reset before it is closed: a stream takes about a kilobyte until the client takes note.
pub const STRANGER_RESETS_MAX: usize = 64;
/// What a refusal takes until it is read: the stream it belongs to, its headers and its text. Those of known users are
/// counted among the answers that wait for them.
pub const REFUSAL_BYTES: usize = 4 * 1024;
/// File descriptors connections leave to the rest of the process: the store's files above all, which must open when a log
/// file is full.
pub const DESCRIPTORS_RESERVED: usize = 256;

/// To finish a TLS handshake: three round trips on the worst of networks. An unfinished one holds a connection.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// To send a request's headers, and to stay idle between two requests of HTTP/1.1: kube-apiserver's 32 s.
pub const HEADER_TIME: Duration = Duration::from_secs(32);
/// To send a request's body: kube-apiserver's request timeout. 3 MiB in it is 50 KB/s.
pub const BODY_TIME: Duration = Duration::from_mins(1);
/// After this a body is late: it goes on, but its request gives its seat up when others of its user find none. Most
/// bodies come with their headers.
pub const BODY_LATE_TIME: Duration = Duration::from_secs(2);
/// Of a body nobody wants, how much is still read so that the client gets to see the refusal: some more than any body
/// we would take, and the time for it.
pub const LEFTOVER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// See [`LEFTOVER_BYTES_MAX`].
pub const LEFTOVER_TIME: Duration = Duration::from_secs(2);
/// To answer a request that is not long-running: kube-apiserver's.
pub const ANSWER_TIME: Duration = Duration::from_mins(1);
/// How long a client may take less than [`STALL_BYTES`] of an answer before its connection is closed.
/// kube-apiserver ends a request after a minute, however much of it was read.
pub const STALL_TIME: Duration = Duration::from_mins(1);
/// What a client takes of an answer in [`STALL_TIME`] at the least, or all that is left of it: 1 KB/s, as slow as the slowest modem.
/// Progress counts, not speed, but a byte now and then is only meant to hold what the answer holds.
pub const STALL_BYTES: usize = 64 * 1024;
/// After this it is looked whether an unfinished list holds objects that were changed or deleted meanwhile, which nobody else
/// needs; then again whenever it is twice as old. A list of 50 000 objects takes half a second.
pub const LIST_CHECK_TIME: Duration = Duration::from_secs(1);
/// From the order to stop until connections are cut. Watches end at once; this is for answers under way.
pub const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Bytes of all headers of one request. Tokens and continue tokens are long, yet far below this. Their number is
/// limited to 100 by hyper, which keeps that many on the stack; a limit of our own would cost a heap block each.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Read and write buffer of one HTTP/1.1 connection: holds the headers above and two full TLS records of an answer.
pub const BUFFER_BYTES: usize = 64 * 1024;

/// Requests at once on one HTTP/2 connection. client-go sends all watches of a process over one, and opens a second
/// only when this is reached.
pub const STREAMS_MAX: u32 = 1000;
/// What a client may send on one stream, and on one connection, before we take it in: the largest body fits a
/// window of the connection; a stream's keeps one slow request from holding much.
pub const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// See [`STREAM_WINDOW_BYTES`].
pub const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
/// The largest HTTP/2 frame taken in; the same as one TLS record, so a frame never waits for a second record.
pub const FRAME_BYTES: u32 = 16 * 1024;
/// Buffered for one HTTP/2 stream that the client does not read.
pub const SEND_BUFFER_BYTES: usize = 256 * 1024;
/// Streams a client opened and reset that we have not looked at yet; more is the rapid-reset attack and ends the
/// connection.
pub const RESET_STREAMS_MAX: usize = 64;
/// How often an HTTP/2 connection is asked whether it is alive, and how long it may take to say so: client-go's
/// own figures are 30 s and 15 s.
pub const PING_INTERVAL: Duration = Duration::from_secs(30);
/// See [`PING_INTERVAL`].
pub const PING_TIME: Duration = Duration::from_secs(15);

/// Pause after the kernel refused a connection (usually: no file descriptor is free).
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections that wait to be accepted: 64 clients that start at once must not lose a packet.
pub const BACKLOG: u32 = 1024;

/// Bytes of answers and of events that wait for clients to read them, and of changed objects that unfinished lists still hold: a list
/// of 50 000 objects made whole (protobuf). One answer alone may be larger. Administrators have as much of their own.
/// Who comes when it is full is told to come again, and a list or watch that needs more is ended.
pub const HELD_BYTES_MAX: usize = 96 * 1024 * 1024;
/// … that wait for one user, or all service accounts of one namespace: nobody can fill the room alone.
pub const USER_HELD_BYTES_MAX: usize = HELD_BYTES_MAX / 2;
/// Answers made whole that are smaller than this are sent as they are; larger ones lose what their buffer has too much.
pub const HELD_BYTES_SMALL: usize = 64 * 1024;

/// Pieces smaller than this are joined before they are written.
pub const PIECE_BYTES_SMALL: usize = 8 * 1024;
/// … up to this many bytes: two TLS records. Larger joints only cost memory.
pub const JOINT_BYTES: usize = 32 * 1024;
