//! Waiting in tokio to the microsecond. Its own timers wake in steps of 1 ms, up to two of them late.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Instant;

use tokio::io::unix::AsyncFd;

use crate::Result;

/// Until then; at once if that is past.
pub async fn until(then: Instant) -> Result<()> {
    let left = then.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Ok(());
    }
    // SAFETY: the call takes no pointer.
    let descriptor = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error().into());
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    let timer = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let value = libc::timespec { tv_sec: left.as_secs().try_into()?, tv_nsec: left.subsec_nanos().into() };
    let wanted = libc::itimerspec { it_interval: once, it_value: value };
    // SAFETY: the kernel reads the structure that it is given, and writes none.
    if unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const wanted, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error().into());
    }
    // SAFETY: the timer keeps its descriptor as long as it lives.
    let timer = unsafe { AsyncFd::register(timer) }.map_err(|error| error.to_string())?;
    drop(timer.readable().await?);
    Ok(())
}
