//! Limits how much of the server one client may use. Every number has a reason; where kube-apiserver has a limit, ours
//! is the same.

use std::time::Duration;

/// A share of a total.
#[derive(Clone, Copy, Debug)]
pub struct Fraction {
    of: usize,
    part: usize,
}

impl Fraction {
    /// Returns this fraction of the total, at least one.
    pub fn of(self, all: usize) -> usize {
        (all * self.part / self.of).max(1)
    }
}

/// The maximum size of a request body, the same as in kube-apiserver.
pub const BODY_BYTES_MAX: u64 = 3 * 1024 * 1024;

/// The maximum number of concurrent reads by one user: kube-apiserver's limit for all users. A user who sends more is
/// asked to try again later.
pub const USER_READS_MAX: usize = 400;
/// The maximum number of concurrent writes by one user: kube-apiserver's limit for all users.
pub const USER_WRITES_MAX: usize = 200;
/// The maximum number of concurrent reads by all users: no user can use them all.
pub const READS_MAX: usize = 2 * USER_READS_MAX;
/// The maximum number of concurrent writes by all users: no user can use them all.
pub const WRITES_MAX: usize = 2 * USER_WRITES_MAX;
/// Health probes that are answered at the same time, with slots of their own: strangers share the slots of reads, and must
/// not make the server look dead by leaving answers unread. A probe takes microseconds and gives its slot back before
/// its answer is sent, so a few are enough for every monitor.
pub const PROBES_MAX: usize = 32;
/// The longest path and query of a request that counts as a probe. Its answer may repeat them, and must stay as small
/// as a refusal.
pub const PROBE_URI_BYTES_MAX: usize = 512;
/// Open watches and followed logs of one user: an operator has one for each kind that it watches, a node a few dozen,
/// and a controller manager about a hundred. An idle one costs about ten kilobytes.
pub const USER_WATCHES_MAX: usize = 1000;
/// The maximum number of open watches of all users. Administrators have separate limits, here and above.
pub const WATCHES_MAX: usize = 8 * USER_WATCHES_MAX;
/// The maximum number of connections to containers (exec, attach, port-forward) per user: each costs a process or
/// another connection on the node, a dozen descriptors, and about a hundred kilobytes while its peer does not read.
pub const USER_STREAMS_MAX: usize = 100;
/// The maximum number of connections to containers of all users: no user can take all of them. Administrators have
/// separate limits.
pub const STREAMS_TOTAL_MAX: usize = 4 * USER_STREAMS_MAX;
/// The time from the response that switches the protocol of a connection until the client has received it.
pub const UPGRADE_TIME: Duration = Duration::from_secs(30);
/// How often the peer of such a connection is pinged.
pub const STREAM_PING_INTERVAL: Duration = Duration::from_secs(30);
/// How many pings in a row may go by without a sign of life from the peer. Data is read from the peer only while there
/// is room for it.
pub const STREAM_SILENT_PINGS_MAX: u32 = 3;
/// The time without data in either direction after which such a connection is closed: the kubelet's
/// `streamingConnectionIdleTimeout`.
pub const STREAM_IDLE_TIME: Duration = Duration::from_hours(4);
/// How long the server waits for the peer to close such a connection after its own last message.
pub const STREAM_CLOSE_TIME: Duration = Duration::from_secs(5);
/// The number of seconds after which a refused request may be retried.
pub const RETRY_AFTER_S: u32 = 1;

/// The maximum number of bytes of one user's request bodies held at the same time: five of the largest bodies, or two
/// hundred writes of 80 kB. A user who sends more is asked to try again later.
pub const USER_BODIES_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The maximum number of bytes of all users' request bodies held at the same time: no user can fill it alone.
/// Administrators have the same amount to themselves.
pub const BODIES_BYTES_MAX: usize = 3 * USER_BODIES_BYTES_MAX;

/// The maximum number of open connections. An idle connection costs about 40 KB (TLS and HTTP buffers), so this many
/// cost 160 MB at worst. To admit another connection, an idle one is closed; if there is none, the new one is closed.
/// Busy connections are not affected.
pub const CONNECTIONS_MAX: usize = 4096;
/// The fraction of all connections that the users of one peer may have. It is large because many programs on one
/// machine share its address; it only prevents a single machine from taking all connections.
pub const PEER_SHARE: Fraction = Fraction { of: 4, part: 3 };
/// The fraction of all connections that one user may have, or all service accounts of one namespace together.
pub const USER_SHARE: Fraction = Fraction { of: 2, part: 1 };
/// The fraction of all connections that users may have together: the rest is for administrators, and for clients that
/// are not authenticated yet.
pub const USERS_SHARE: Fraction = Fraction { of: 8, part: 7 };
/// The fraction of all connections that may have no authenticated request yet, including those in the handshake. To
/// admit another one, the oldest of them is closed. An honest client authenticates within a few milliseconds.
pub const UNAUTHENTICATED_SHARE: Fraction = Fraction { of: 4, part: 1 };
/// The maximum number of connections that were asked to close but have not yet; their file descriptors are among the
/// reserved ones.
pub const CLOSING_MAX: usize = 64;
/// The time from the handshake to the first authenticated request. Clients connect to send a request; an anonymous
/// probe connects again.
pub const UNAUTHENTICATED_TIME: Duration = Duration::from_secs(10);
/// Refusals and answers to probes that the client of an unauthenticated connection may leave unread; after that, streams
/// are reset. A refusal costs about 4 KB, and an honest client reads that its token is wrong.
pub const UNAUTHENTICATED_REFUSALS_MAX: usize = 16;
/// The number of streams on such a connection that are reset before it is closed: a stream takes about a kilobyte until
/// the client notices.
pub const UNAUTHENTICATED_RESETS_MAX: usize = 64;
/// The memory that a refusal takes until it is read: its stream, headers and text. Refusals to authenticated users
/// count as unsent responses.
pub const REFUSAL_BYTES: usize = 4 * 1024;
/// The number of file descriptors that connections leave to the rest of the process: above all the store's files, which
/// must open when a log file is full.
pub const DESCRIPTORS_RESERVED: usize = 256;

/// The time to finish a TLS handshake: three round trips on the worst networks. An unfinished handshake takes up a
/// connection.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// The time to send a request's headers, and to stay idle between two HTTP/1.1 requests: kube-apiserver's 32 s.
pub const HEADER_TIME: Duration = Duration::from_secs(32);
/// The time to send a request's body: kube-apiserver's request timeout. For 3 MiB that is 50 KB/s.
pub const BODY_TIME: Duration = Duration::from_mins(1);
/// The time after which a body is late. It may continue, but its request loses its slot if other requests by the same
/// user find none. Most bodies arrive together with their headers.
pub const BODY_LATE_TIME: Duration = Duration::from_secs(2);
/// How much of a refused body is still read so that the client sees the refusal: more than twice the
/// largest body that we accept.
pub const UNREAD_BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The maximum time for that; see [`UNREAD_BODY_BYTES_MAX`].
pub const UNREAD_BODY_TIME: Duration = Duration::from_secs(2);
/// The maximum time to respond to a request that is not long-running, as in kube-apiserver.
pub const ANSWER_TIME: Duration = Duration::from_mins(1);
/// How long a client may read less than [`STALL_BYTES`] of a response before its connection is closed. kube-apiserver
/// ends a request after a minute, no matter how much of it was read.
pub const STALL_TIME: Duration = Duration::from_mins(1);
/// The minimum that a client must read of a response in [`STALL_TIME`], unless less is left: 1 KB/s, as slow as the
/// slowest modem. Progress matters rather than speed, but a client that reads a byte now and then only wants to occupy
/// memory.
pub const STALL_BYTES: usize = 64 * 1024;
/// The time after which an unfinished list is checked for objects that were changed or deleted in the meantime, and
/// that only the list still holds; the check is repeated each time the age of the list doubles. For 50 000 objects, a
/// check takes half a second.
pub const LIST_CHECK_TIME: Duration = Duration::from_secs(1);
/// The time from the request to stop until connections are cut. Watches end immediately; this time is for responses in
/// progress.
pub const DRAIN_TIME: Duration = Duration::from_secs(5);

/// The maximum size of all headers of one request in bytes. Bearer and continue tokens are long, yet far below this.
/// hyper limits the number of headers to 100 and keeps that many on the stack; a limit of our own would cost a heap
/// allocation per request.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;
/// The read and write buffer of one HTTP/1.1 connection: it holds the headers above, and two full TLS records of a
/// response.
pub const BUFFER_BYTES: usize = 64 * 1024;

/// The maximum number of concurrent requests on one HTTP/2 connection. client-go sends all watches of a process over
/// one connection, and opens a second only when this limit is reached.
pub const STREAMS_MAX: u32 = 1000;
/// How much a client may send on one stream before we read it; see [`CONNECTION_WINDOW_BYTES`] for the whole
/// connection. The largest body fits into the window of the connection; the window of a stream limits the memory that
/// one slow request takes.
pub const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// How much a client may send on one connection before we read it; see [`STREAM_WINDOW_BYTES`].
pub const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
/// The largest accepted HTTP/2 frame; the same as one TLS record, so a frame never waits for a second record.
pub const FRAME_BYTES: u32 = 16 * 1024;
/// The buffer for one HTTP/2 stream that the client does not read.
pub const SEND_BUFFER_BYTES: usize = 256 * 1024;
/// The maximum number of streams that a client may open and reset before we process them. More than this is the
/// rapid-reset attack and ends the connection.
pub const RESET_STREAMS_MAX: usize = 64;
/// How often an HTTP/2 connection is pinged; client-go pings every 30 s.
pub const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long the response to a ping may take; client-go waits 15 s.
pub const PING_TIME: Duration = Duration::from_secs(15);

/// The pause after the kernel refused a connection (usually because no file descriptor is free).
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The maximum number of connections that wait to be accepted: 64 clients that start at the same time must not lose a
/// packet.
pub const BACKLOG: u32 = 1024;

/// The maximum number of bytes of responses and events that wait for clients to read them, and of changed objects that
/// unfinished lists still hold: enough for a list of 50 000 objects built as a whole (protobuf). A single response may
/// be larger. Administrators have the same amount to themselves. When it is full, new requests are asked to try again
/// later, and a list or watch that needs more is ended.
pub const UNSENT_BYTES_MAX: usize = 96 * 1024 * 1024;
/// The part of [`UNSENT_BYTES_MAX`] for one user, or for all service accounts of one namespace: no user can fill it
/// alone.
pub const USER_UNSENT_BYTES_MAX: usize = UNSENT_BYTES_MAX / 2;
/// Responses built as a whole that are smaller than this are sent unchanged; the excess capacity of larger ones is
/// freed.
pub const UNSENT_BYTES_SMALL: usize = 64 * 1024;

/// Pieces smaller than this are joined before they are written.
pub const PIECE_BYTES_SMALL: usize = 8 * 1024;
/// The size up to which pieces are joined: two TLS records. Larger ones only cost memory.
pub const JOINED_BYTES: usize = 32 * 1024;
