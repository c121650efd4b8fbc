//! Random bytes from the kernel.

use crate::Result;

pub fn bytes<const N: usize>() -> Result<[u8; N]> {
    let mut buffer = [0; N];
    // SAFETY: the kernel writes at most N bytes to a buffer of N bytes.
    let filled = unsafe { libc::getrandom(buffer.as_mut_ptr().cast(), N, 0) };
    if usize::try_from(filled) != Ok(N) {
        return Err("the kernel gave no random bytes".into());
    }
    Ok(buffer)
}
