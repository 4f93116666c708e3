//! What SIGTERM and SIGINT do here. The first process of a container has no default action for them, so without this
//! every stop would last the whole grace period.
#![expect(unsafe_code, reason = "installing a signal handler has no safe form without a larger dependency")]

/// Ends the process with code 0 at once, as a well-behaved service without state would.
pub fn exit_on_terminate() {
    install(exit_now as *const () as libc::sighandler_t);
}

/// Makes the process deaf to SIGTERM, so that only SIGKILL ends it.
pub fn ignore_terminate() {
    install(libc::SIG_IGN);
}

fn install(handler: libc::sighandler_t) {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: the handler is either SIG_IGN or `exit_now`, which calls only the async-signal-safe `_exit`.
        unsafe { libc::signal(signal, handler) };
    }
}

extern "C" fn exit_now(_signal: libc::c_int) {
    // SAFETY: `_exit` is async-signal-safe and does not return.
    unsafe { libc::_exit(0) }
}
