//! Random bytes, always from the kernel, so that a lab kernel can make them repeat.

use crate::Result;

pub fn fill(buffer: &mut [u8]) -> Result<()> {
    // SAFETY: the kernel writes at most as many bytes as the buffer has.
    let filled = unsafe { libc::getrandom(buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    if usize::try_from(filled) != Ok(buffer.len()) {
        return Err("the kernel gave no random bytes".into());
    }
    Ok(())
}

pub fn bytes<const N: usize>() -> Result<[u8; N]> {
    let mut buffer = [0; N];
    fill(&mut buffer)?;
    Ok(buffer)
}
