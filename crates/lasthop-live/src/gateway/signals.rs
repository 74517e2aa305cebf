//! Signals to a gateway: the end, and a question for its state.

#![allow(unsafe_code, reason = "handlers of signals, which the standard library does not have")]

use std::sync::atomic::{AtomicBool, Ordering};

static ENDED: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn end(_: libc::c_int) {
    ENDED.store(true, Ordering::Relaxed);
}

extern "C" fn ask(_: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// Takes SIGINT, SIGTERM, SIGHUP and SIGUSR1 for the rest of the process.
pub fn take() {
    let handlers: [(libc::c_int, extern "C" fn(libc::c_int)); 4] =
        [(libc::SIGINT, end), (libc::SIGTERM, end), (libc::SIGHUP, end), (libc::SIGUSR1, ask)];
    for (signal, handler) in handlers {
        // SAFETY: the handlers store into atomics, which is allowed in a handler.
        unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
    }
}

/// True once one of the first three has come.
pub fn ended() -> bool {
    ENDED.load(Ordering::Relaxed)
}

/// True once after each SIGUSR1.
pub fn asked() -> bool {
    ASKED.swap(false, Ordering::Relaxed)
}
