//! For programs with a loop of their own: SIGTERM and SIGINT end them in good order. The signals stay blocked except
//! while the program waits for its socket (ppoll with `open_mask`), so none is missed. Asynchronous runtimes have
//! their own way.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

static TERMINATED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_termination(_: libc::c_int) {
    TERMINATED.store(true, Ordering::Relaxed);
}

pub fn catch_termination() -> io::Result<()> {
    // SAFETY: the set is initialised by sigemptyset before use, and the handler only stores to an atomic.
    unsafe {
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [libc::SIGTERM, libc::SIGINT] {
            libc::sigaddset(set.as_mut_ptr(), signal);
            if libc::signal(signal, note_termination as *const () as libc::sighandler_t) == libc::SIG_ERR {
                return Err(io::Error::last_os_error());
            }
        }
        if libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The signal mask to wait with: nothing blocked.
pub fn open_mask() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the whole set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

pub fn terminated() -> bool {
    TERMINATED.load(Ordering::Relaxed)
}
