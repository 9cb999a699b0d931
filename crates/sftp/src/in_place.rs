//! Builds a message in the send buffer itself: a header of known size, followed by file bytes that are read
//! straight from the kernel.
//!
//! Both ends need it (the server for DATA, the client for WRITE), and both with the same twist: the header
//! says how many bytes follow, which is known only after the read.

use std::io::IoSliceMut;

/// Leaves the first `header_len` bytes of `slices` free, lets `read` write data after them, then writes
/// the header that `header` makes for the number of bytes read; it must be `header_len` long.
///
/// Returns how many bytes of `slices` are in use, from the start; 0, with nothing to be sent, when `read`
/// returned 0 or the slices hold no more than the header. Meant to be called inside the `fill` of
/// an [`crate::server::Output::send_in_place`].
pub fn lay_out<H: AsRef<[u8]>>(
    slices: &mut [IoSliceMut<'_>],
    header_len: usize,
    read: impl FnOnce(&mut [IoSliceMut<'_>]) -> usize,
    header: impl FnOnce(usize) -> H,
) -> usize {
    let mut behind = Vec::with_capacity(slices.len());
    let mut skip = header_len;
    let mut room = 0;
    for slice in slices.iter_mut() {
        let skipped = skip.min(slice.len());
        skip -= skipped;
        let (_, rest) = slice.split_at_mut(skipped);
        if !rest.is_empty() {
            room += rest.len();
            behind.push(IoSliceMut::new(rest));
        }
    }
    if room == 0 {
        return 0;
    }
    let filled = read(&mut behind).min(room);
    drop(behind);
    if filled == 0 {
        return 0;
    }
    scatter(header(filled).as_ref(), slices);
    header_len + filled
}

/// Copies `bytes` to the start of `slices`, over as many of them as it takes.
pub fn scatter(mut bytes: &[u8], slices: &mut [IoSliceMut<'_>]) {
    for slice in slices {
        let take = bytes.len().min(slice.len());
        let (head, tail) = bytes.split_at(take);
        if let Some(room) = slice.get_mut(..take) {
            room.copy_from_slice(head);
        }
        bytes = tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_data_span_slices_of_any_size() {
        for size in 1..=9 {
            let mut buffers = vec![vec![0_u8; size]; 40 / size + 1];
            let mut slices: Vec<_> = buffers.iter_mut().map(|b| IoSliceMut::new(b)).collect();
            let used = lay_out(
                &mut slices,
                5,
                |rest| {
                    scatter(b"file bytes", rest);
                    10
                },
                |n| format!("head{}", n % 10),
            );
            assert_eq!(used, 15);
            let flat: Vec<u8> = buffers.concat();
            assert_eq!(&flat[..15], b"head0file bytes", "slices of {size}");
        }
    }

    #[test]
    fn nothing_is_sent_without_data() {
        let mut buffer = [0_u8; 20];
        let mut slices = [IoSliceMut::new(&mut buffer)];
        assert_eq!(lay_out(&mut slices, 5, |_| 0, |_| [1_u8; 5]), 0);
        let mut small = [0_u8; 5];
        let mut slices = [IoSliceMut::new(&mut small)];
        assert_eq!(lay_out(&mut slices, 5, |_| unreachable!(), |_| [1_u8; 5]), 0);
    }
}
