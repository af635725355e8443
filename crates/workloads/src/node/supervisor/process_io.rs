//! Creates the input and output of a process: pipes, or a terminal.
//!
//! A terminal's other end is its master, which reads and writes for all three streams. When the master is closed, the
//! kernel hangs up: the process and its group get SIGHUP.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::termios::Winsize;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;

use super::system;

/// Which streams a process gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessStdio {
    /// Output and error output share one pipe, in the order in which they are written.
    Joined { has_input: bool },
    /// Each stream has its own pipe.
    Separate { has_input: bool },
    /// A terminal for all of them.
    Terminal,
}

/// The node's ends of a process's streams.
pub(super) struct ProcessIo {
    pub(super) input: Option<InputWriter>,
    pub(super) output: OutputReader,
    pub(super) errors: Option<OutputReader>,
    pub(super) terminal: Option<Arc<Terminal>>,
}

/// The process's ends, which the launcher gets.
pub(super) struct ProcessEnds {
    /// Opened by the launcher through the supervisor; the launcher's own input is its order.
    pub(super) input: Option<OwnedFd>,
    pub(super) output: OwnedFd,
    pub(super) errors: OwnedFd,
    pub(super) is_terminal: bool,
}

impl ProcessEnds {
    /// Returns the number of the input's descriptor in this process.
    pub(super) fn input_number(&self) -> Option<i32> {
        self.input.as_ref().map(AsRawFd::as_raw_fd)
    }
}

/// Creates the streams of a process.
pub(super) fn make_streams(stdio: ProcessStdio) -> io::Result<(ProcessIo, ProcessEnds)> {
    let has_input = match stdio {
        ProcessStdio::Terminal => return make_terminal(),
        ProcessStdio::Joined { has_input } | ProcessStdio::Separate { has_input } => has_input,
    };
    let (output, output_end) = io::pipe()?;
    let (errors, errors_end) = if matches!(stdio, ProcessStdio::Joined { .. }) {
        (None, output_end.try_clone()?)
    } else {
        let (errors, errors_end) = io::pipe()?;
        (Some(errors), errors_end)
    };
    let (input_end, input) = if has_input {
        let (input_end, input) = io::pipe()?;
        (Some(OwnedFd::from(input_end)), Some(InputWriter::Pipe(pipe::Sender::from_owned_fd(input.into())?)))
    } else {
        (None, None)
    };
    let reader = |pipe: io::PipeReader| {
        Ok::<_, io::Error>(OutputReader::Pipe(pipe::Receiver::from_owned_fd(pipe.into())?))
    };
    let ours =
        ProcessIo { input, output: reader(output)?, errors: errors.map(reader).transpose()?, terminal: None };
    let theirs = ProcessEnds {
        input: input_end,
        output: output_end.into(),
        errors: errors_end.into(),
        is_terminal: false,
    };
    Ok((ours, theirs))
}

#[expect(
    deprecated,
    reason = "its replacement is unsafe for the sake of types that do not own their descriptor"
)]
fn make_terminal() -> io::Result<(ProcessIo, ProcessEnds)> {
    let (master, end) = system::open_terminal()?;
    rustix::io::ioctl_fionbio(&master, true)?;
    let terminal = Arc::new(Terminal(AsyncFd::new(master)?));
    let ours = ProcessIo {
        input: Some(InputWriter::Terminal(Arc::clone(&terminal))),
        output: OutputReader::Terminal(Arc::clone(&terminal)),
        errors: None,
        terminal: Some(terminal),
    };
    let theirs = ProcessEnds { input: None, output: end.try_clone()?, errors: end, is_terminal: true };
    Ok((ours, theirs))
}

/// The master of a terminal.
pub(super) struct Terminal(AsyncFd<OwnedFd>);

impl Terminal {
    /// Sets its size in characters.
    pub(super) fn resize(&self, width: u16, height: u16) {
        let size = Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
        // A terminal that is gone has no size.
        let _ = rustix::termios::tcsetwinsize(self.0.get_ref(), size);
    }

    /// Reads into the buffer; returns 0 at the end. Dropping the future loses nothing.
    async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let read =
            self.0.async_io(tokio::io::Interest::READABLE, |fd| Ok(rustix::io::read(fd, &mut *buffer)?));
        match read.await {
            // The last process has closed the terminal.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(0),
            read => read,
        }
    }

    async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written =
                self.0.async_io(tokio::io::Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, bytes)?));
            bytes = &bytes[written.await?..];
        }
        Ok(())
    }
}

/// The end to which a process's input is written.
pub(super) enum InputWriter {
    Pipe(pipe::Sender),
    Terminal(Arc<Terminal>),
}

impl InputWriter {
    pub(super) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Pipe(pipe) => pipe.write_all(bytes).await,
            Self::Terminal(terminal) => terminal.write_all(bytes).await,
        }
    }
}

/// The end from which a process's output is read.
pub(super) enum OutputReader {
    Pipe(pipe::Receiver),
    Terminal(Arc<Terminal>),
}

impl OutputReader {
    /// Reads into the buffer; returns 0 at the end. Dropping the future loses nothing.
    pub(super) async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Pipe(pipe) => pipe.read(buffer).await,
            Self::Terminal(terminal) => terminal.read(buffer).await,
        }
    }
}
