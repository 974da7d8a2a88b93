//! The border between C and Rust: arguments in, results and failures out, panics held back.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Once, OnceLock};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};

use crate::error::{Failure, Kind, Outcome};

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::new(CString::default());
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs the body of an exported function. Its failure becomes the thread's last error, a panic
/// becomes an INTERNAL failure.
pub fn run(body: impl FnOnce() -> Outcome<()>) -> c_int {
    match hold_panics(body) {
        Ok(()) => 0,
        Err(failure) => {
            let text = CString::new(failure.message).unwrap_or_default();
            LAST_ERROR.with(|last| *last.borrow_mut() = text);
            failure.kind as c_int
        }
    }
}

/// The thread's last failure, owned by the thread.
pub fn last_error() -> *const c_char {
    LAST_ERROR.with(|last| last.borrow().as_ptr())
}

/// Calls `body` and turns a panic into a failure.
pub fn hold_panics<T>(body: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    quiet_panics();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(outcome) => outcome,
        Err(payload) => Err(panicked(payload.as_ref())),
    }
}

/// The failure that a caught panic amounts to.
pub fn panicked(payload: &(dyn Any + Send)) -> Failure {
    let what = LAST_PANIC
        .with(|last| last.borrow_mut().take())
        .or_else(|| {
            payload
                .downcast_ref::<&str>()
                .map(|text| (*text).to_string())
        })
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_string());
    Failure::new(
        Kind::Internal,
        format!("fault in the Lance library: {what}"),
    )
}

/// Panics are reported through the ABI, not on standard error. The hook is this library's own: a
/// cdylib carries its own copy of the standard library.
fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let text = info.payload_as_str().unwrap_or("no message");
            // Not in the form that messages are rid of.
            let message = match info.location() {
                Some(at) => format!("{text} ({} line {})", short(at.file()), at.line()),
                None => text.to_string(),
            };
            LAST_PANIC.with(|last| *last.borrow_mut() = Some(message));
        }));
    });
}

/// The last three parts of a path: enough to find a source file of a crate.
fn short(path: &str) -> String {
    let parts: Vec<&str> = path.rsplit('/').take(3).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}

/// The library's threads, made at first use.
pub fn runtime() -> Outcome<&'static Runtime> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    RUNTIME
        .get_or_init(|| {
            let threads = std::thread::available_parallelism().map_or(2, |n| n.get().max(2));
            Builder::new_multi_thread()
                .worker_threads(threads)
                // Lance's planners nest deep futures.
                .thread_stack_size(8 << 20)
                .thread_name("thalweg-lance")
                .enable_all()
                .build()
                .map_err(|error| error.to_string())
        })
        .as_ref()
        .map_err(|message| Failure::internal(format!("cannot start threads: {message}")))
}

/// Runs a future to its end on the calling thread, its tasks on the library's.
pub fn wait<T>(future: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    runtime()?.block_on(future)
}

/// A string argument. `what` names it in the failure.
///
/// # Safety
/// `text` is NULL or a NUL-terminated string that outlives the result.
pub unsafe fn text<'a>(text: *const c_char, what: &str) -> Outcome<&'a str> {
    if text.is_null() {
        return Err(Failure::invalid(format!("{what} is NULL")));
    }
    unsafe { CStr::from_ptr(text) }
        .to_str()
        .map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
}

/// A JSON argument.
///
/// # Safety
/// As for [`text`].
pub unsafe fn json<T: DeserializeOwned>(argument: *const c_char, what: &str) -> Outcome<T> {
    parse(unsafe { text(argument, what) }?, what)
}

/// Parses a request; `what` names it in the failure.
pub fn parse<T: DeserializeOwned>(text: &str, what: &str) -> Outcome<T> {
    serde_json::from_str(text).map_err(|error| Failure::invalid(format!("{what}: {error}")))
}

/// Hands a value to the caller as a JSON string that it owns.
///
/// # Safety
/// `out` is NULL or writable.
pub unsafe fn give_json(out: *mut *mut c_char, value: &impl Serialize) -> Outcome<()> {
    check_out(out)?;
    let text = serde_json::to_string(value)
        .map_err(|error| Failure::internal(format!("cannot write JSON: {error}")))?;
    let text = CString::new(text).map_err(|_| Failure::internal("JSON with a NUL byte"))?;
    unsafe { give(out, text.into_raw()) }
}

/// Writes an output.
///
/// # Safety
/// `out` is NULL or writable.
pub unsafe fn give<T>(out: *mut T, value: T) -> Outcome<()> {
    if out.is_null() {
        return Err(Failure::invalid("the output pointer is NULL"));
    }
    unsafe { out.write(value) };
    Ok(())
}

/// Refuses a NULL output before any work is done.
pub fn check_out<T>(out: *mut T) -> Outcome<()> {
    if out.is_null() {
        return Err(Failure::invalid("the output pointer is NULL"));
    }
    Ok(())
}
