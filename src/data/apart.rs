//! Threads that read rows and end with it.
//!
//! `tokenizers` keeps, in each thread that ever tokenised, the words it met: some MiB that no one can give back while the
//! thread lives. The threads that compute live as long as the program, so rows are read by others.

use std::thread::{Builder, JoinHandle};

use rayon::{ThreadPool, ThreadPoolBuilder};

/// As many threads as the program computes with. Dropped, it has waited for each of them to end.
pub struct Apart {
    /// Gone first, which ends the threads. None where the system gave no more of them: those of the program read, and
    /// keep what they remember.
    pool: Option<ThreadPool>,
    threads: Vec<JoinHandle<()>>,
}

impl Apart {
    pub fn new() -> Apart {
        let mut threads = Vec::new();
        let pool = ThreadPoolBuilder::new()
            .num_threads(rayon::current_num_threads())
            .spawn_handler(|thread| {
                threads.push(Builder::new().name(format!("rows-{}", thread.index())).spawn(|| thread.run())?);
                Ok(())
            })
            .build();
        Apart { pool: pool.ok(), threads }
    }

    /// Runs `work`, and whatever it does in parallel, on these threads.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.pool = None;
        for thread in self.threads.drain(..) {
            // A panic of a row was handed on to who called `run`.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use rayon::prelude::*;

    use super::Apart;

    static ENDED: AtomicUsize = AtomicUsize::new(0);

    struct Kept;

    impl Drop for Kept {
        fn drop(&mut self) {
            ENDED.fetch_add(1, SeqCst);
        }
    }

    thread_local! {
        static WORDS: RefCell<Option<Kept>> = const { RefCell::new(None) };
    }

    #[test]
    fn what_a_thread_kept_is_gone_with_it() {
        let apart = Apart::new();
        let sum: usize = apart.run(|| {
            (0..1000usize)
                .into_par_iter()
                .map(|n| {
                    WORDS.with(|words| *words.borrow_mut() = Some(Kept));
                    n
                })
                .sum()
        });
        assert_eq!(sum, 499_500);
        // Each item but the last of a thread was replaced by the next; the last goes with the thread.
        assert!(ENDED.load(SeqCst) < 1000);
        drop(apart);
        assert_eq!(ENDED.load(SeqCst), 1000);
    }
}
