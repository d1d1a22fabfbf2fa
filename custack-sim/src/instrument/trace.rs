//! A timeline in the format that Perfetto and Chrome open: every call by thread, and the work of streams.

use super::report::create;
use custack_sys::ffi::CUresult;
use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The rows of streams come behind those of threads.
const FIRST_STREAM: usize = 1 << 20;

pub(super) struct Trace {
    begun: Instant,
    file: Mutex<Lines>,
}

struct Lines {
    to: BufWriter<File>,
    /// Numbers of the streams' queues.
    streams: HashMap<usize, usize>,
    is_over: bool,
}

thread_local! {
    static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The name of this thread. It can no longer be asked for while the thread's local values are destroyed.
fn name_of_thread() -> Option<String> {
    struct Witness;
    impl Drop for Witness {
        fn drop(&mut self) {}
    }
    thread_local! {
        static WITNESS: Witness = const { Witness };
    }
    WITNESS.try_with(|_| std::thread::current().name().map(str::to_owned)).ok().flatten()
}

/// Text within quotes of JSON.
fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => " ".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

impl Lines {
    fn add(&mut self, line: &str) {
        // A timeline that cannot be written does not stop the program.
        if !self.is_over {
            let _ = write!(self.to, ",\n{line}");
        }
    }

    fn name(&mut self, row: usize, name: &str) {
        let process = std::process::id();
        self.add(&format!(
            r#"{{"name":"thread_name","ph":"M","pid":{process},"tid":{row},"args":{{"name":"{}"}}}}"#,
            escaped(name)
        ));
    }
}

impl Trace {
    pub(super) fn create(path: &Path) -> io::Result<Trace> {
        let mut to = BufWriter::new(create(path)?);
        let program = std::env::args_os().next().unwrap_or_default();
        write!(
            to,
            "[{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{},\"args\":{{\"name\":\"{}\"}}}}",
            std::process::id(),
            escaped(&program.to_string_lossy())
        )?;
        let file = Mutex::new(Lines { to, streams: HashMap::new(), is_over: false });
        Ok(Trace { begun: Instant::now(), file })
    }

    fn lines(&self, f: impl FnOnce(&mut Lines)) {
        f(&mut self.file.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn event(&self, name: &str, row: usize, more: &str, begun: Instant, ended: Instant) -> String {
        let at = |instant: Instant| instant.saturating_duration_since(self.begun).as_nanos() as f64 / 1000.0;
        format!(
            r#"{{"name":"{}","ph":"X","ts":{:.3},"dur":{:.3},"pid":{},"tid":{row}{more}}}"#,
            escaped(name),
            at(begun),
            at(ended) - at(begun),
            std::process::id()
        )
    }

    /// A call of this thread.
    pub(super) fn call(
        &self,
        function: &str,
        kernel: Option<&str>,
        status: CUresult,
        begun: Instant,
        ended: Instant,
    ) {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let known = THREAD.get();
        let thread = known.unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed));
        THREAD.set(Some(thread));
        let kernel = kernel.map_or(String::new(), |name| format!(r#","kernel":"{}""#, escaped(name)));
        let more = format!(r#","args":{{"status":{status}{kernel}}}"#);
        let event = self.event(function, thread, &more, begun, ended);
        self.lines(|lines| {
            if known.is_none() {
                let name = name_of_thread().map_or(String::new(), |name| format!(" ({name})"));
                lines.name(thread, &format!("thread {thread}{name}"));
            }
            lines.add(&event);
        });
    }

    /// What a stream has done.
    pub(super) fn work(&self, name: &str, queue: usize, begun: Instant, ended: Instant) {
        self.lines(|lines| {
            let next = FIRST_STREAM + lines.streams.len();
            let row = *lines.streams.entry(queue).or_insert(next);
            if row == next {
                lines.name(row, &format!("stream {}", row - FIRST_STREAM));
            }
            let event = self.event(name, row, "", begun, ended);
            lines.add(&event);
        });
    }

    pub(super) fn finish(&self) {
        self.lines(|lines| {
            let _ = lines.to.write_all(b"\n]\n").and_then(|()| lines.to.flush());
            lines.is_over = true;
        });
    }
}
