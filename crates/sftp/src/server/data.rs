//! READ and WRITE, which move file bytes without copying them.

use std::io::{self, IoSlice};

use lh_wire::{Output, Reader, Reservation};

use super::handles::OpenFile;
use super::requests::request_table;
use super::state::{Served, Server};
use crate::fs::status_of;
use crate::protocol::{DATA_HEADER, MAX_DATA, MAX_HANDLE};
use crate::reply::data_header;
use crate::{PacketType, Request, StatusCode};

impl Server {
    /// Serves READ: the kernel writes the file's bytes to the buffer in which they are encrypted.
    pub(super) fn serve_read(&mut self, len: usize, output: &mut dyn Output) -> Served {
        // Replies keep their order: waiting replies are sent first. The READ is not served while nothing can
        // be sent.
        self.replies.flush(output);
        if !self.replies.is_empty() || output.budget() == 0 {
            return Served::NeedOutput;
        }
        self.input.chunks.skip(4);
        let message = self.input.chunks.take_contiguous(len);
        let (id, handle, offset, want) = match Request::decode(&message) {
            Ok((id, Request::Read { handle, offset, len })) => (id, handle, offset, len),
            Ok((id, _)) | Err(crate::BadRequest { id: Some(id), .. }) => {
                self.reply_status(id, StatusCode::BAD_MESSAGE);
                return Served::Yes;
            }
            Err(_) => return Served::Yes,
        };
        let Some(info) = request_table().iter().find(|info| info.packet_type == PacketType::READ) else {
            return Served::Yes;
        };
        if !self.permitted(id, info) {
            return Served::Yes;
        }
        let Some(open) = self.handles.file(handle) else {
            self.reply_bad_handle(id);
            return Served::Yes;
        };
        let want = (want as usize).min(MAX_DATA);
        if want == 0 {
            self.replies.writer().data(id, &[]);
            return Served::Yes;
        }
        let whole = DATA_HEADER + want;
        let in_place = if output.window() >= whole { output.reserve(whole) } else { None };
        let outcome = match in_place.filter(|reservation| reservation.total() > DATA_HEADER) {
            Some(reservation) => send_data(reservation, open, id, offset),
            // The channel window is too small for the reply: read the data into memory and send them when the
            // window opens. A shorter reply would be legal, but costs the client a round trip for the rest.
            None => match self.replies.reserve(whole) {
                Some(reservation) => send_data(reservation, open, id, offset),
                None => Err(io::ErrorKind::OutOfMemory.into()),
            },
        };
        match outcome {
            Ok(0) => self.reply_status(id, StatusCode::EOF),
            Ok(n) => open.did_read(offset, n),
            Err(error) => {
                open.failed(status_of(&error));
                self.reply_error(id, &error);
            }
        }
        Served::Yes
    }

    /// Serves WRITE: passes the slices of the received packets to the kernel without a copy.
    pub(super) fn serve_write(&mut self, len: usize) {
        // Length, type, id, handle, offset, length of the data.
        let mut front = [0; 4 + 1 + 4 + 4 + MAX_HANDLE + 8 + 4];
        let front_len = front.len().min(4 + len);
        let front = front.get_mut(..front_len).unwrap_or_default();
        self.input.chunks.peek(front);
        let mut reader = Reader::new(front);
        let id = reader.bytes(5).and_then(|_| reader.u32()).unwrap_or_default();
        let parsed =
            (|| Ok::<_, lh_wire::WireError>((reader.string()?, reader.u64()?, reader.u32()? as usize)))();
        let header = front_len - reader.remaining();
        let (handle, offset, data_len) = match parsed {
            Ok(fields) if fields.2 <= 4 + len - header => fields,
            _ => {
                self.input.chunks.skip(4 + len);
                self.reply_status(id, StatusCode::BAD_MESSAGE);
                return;
            }
        };
        self.input.chunks.skip(header);
        let data = self.input.chunks.take(data_len);
        self.input.chunks.skip(4 + len - header - data_len);
        let Some(info) = request_table().iter().find(|info| info.packet_type == PacketType::WRITE) else {
            return;
        };
        if !self.permitted(id, info) {
            return;
        }
        let Some(open) = self.handles.file(handle) else {
            self.reply_bad_handle(id);
            return;
        };
        let mut slices: Vec<IoSlice<'_>> = data.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut slices = &mut slices[..];
        let mut done = 0;
        let mut outcome = Ok(());
        while done < data_len {
            match open.file.write_at(offset.saturating_add(done as u64), slices) {
                Ok(0) => outcome = Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    let n = n.min(data_len - done);
                    done += n;
                    IoSlice::advance_slices(&mut slices, n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => outcome = Err(error),
            }
            if outcome.is_err() {
                break;
            }
        }
        if done > 0 {
            open.did_write(offset, done);
            if outcome.is_ok() {
                open.sum_written(offset, &data, done);
            }
        }
        if let Err(error) = &outcome {
            open.failed(status_of(error));
        }
        self.reply_outcome(id, &outcome);
    }
}

/// Reads the file into `reservation`, after the header of DATA. Sends nothing at the end of the file.
fn send_data(
    mut reservation: Reservation<'_>,
    open: &mut OpenFile,
    id: u32,
    offset: u64,
) -> io::Result<usize> {
    let mut slices = reservation.slices();
    let mut data = slices.behind(DATA_HEADER);
    let n = open.file.read_at(offset, &mut data)?.min(data.total());
    if n > 0 {
        if let Some(sum) = &mut open.sum {
            sum.add_slices(offset, &data, n);
        }
        slices.put(&data_header(id, n));
        reservation.commit(DATA_HEADER + n);
    }
    Ok(n)
}
