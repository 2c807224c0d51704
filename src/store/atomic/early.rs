//! A large file goes to the disk while it is being made, not all at once at the end.
//!
//! Systems hold written pages back until there are many, so a file of some hundred megabytes would wait for its last
//! sync, and the disk would stand idle while the next tensor is computed.

use std::fs::File;
use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};

/// A thread that syncs one file whenever it is told that enough was written.
#[derive(Debug)]
pub(super) struct EarlySync {
    /// None once it is told to end.
    tell: Option<SyncSender<()>>,
    thread: Option<JoinHandle<io::Result<()>>>,
    /// Bytes written when it was last told.
    told: u64,
}

impl EarlySync {
    /// Bytes between one sync and the next.
    pub const EVERY: u64 = 32 << 20;

    /// None where the system gives no second handle or no thread: the file is then synced at its end alone.
    pub fn start(file: &File) -> Option<Self> {
        let file = file.try_clone().ok()?;
        let (tell, told) = sync_channel(1);
        let work = move || told.iter().try_for_each(|()| file.sync_data());
        let thread = Builder::new().name("early-sync".into()).stack_size(64 << 10).spawn(work).ok()?;
        Some(EarlySync { tell: Some(tell), thread: Some(thread), told: 0 })
    }

    /// The file has so many bytes now. Never waits: while a sync goes on, the next is taken note of once.
    pub fn written(&mut self, bytes: u64) {
        if bytes.saturating_sub(self.told) < Self::EVERY {
            return;
        }
        if let Some(tell) = &self.tell
            && let Ok(()) | Err(TrySendError::Full(())) = tell.try_send(())
        {
            self.told = bytes;
        }
    }

    /// Ends the thread. A failure that the system reported to it would not be reported again, so it has to be heard.
    pub fn finish(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        self.tell = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(io::Error::other("the thread that syncs the file ended early")),
            None => Ok(()),
        }
    }
}

impl Drop for EarlySync {
    /// The file was given up: what its sync came to is of no interest, only that it is over.
    fn drop(&mut self) {
        let _ = self.end();
    }
}
