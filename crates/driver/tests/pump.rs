//! [`FdPump`]: bytes between local descriptors and a channel, and the behaviour at their ends.

mod common;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use common::{Probe, Script, Watched, World, links};
use lh_connection::Config;
use lh_driver::{
    ChannelCx, ChannelEvent, ChannelOptions, Direction, Driver, FdPump, InputFilter, LocalFd, WindowPolicy,
};

fn owned(fd: impl Into<OwnedFd>) -> LocalFd {
    LocalFd::owned(fd.into()).unwrap()
}

fn pipe() -> (OwnedFd, OwnedFd) {
    lh_sys::fd::pipe().unwrap()
}

/// Bytes without repetition, so that a lost or doubled block is detected.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32 / 4).flat_map(|n| (n.wrapping_mul(2_654_435_761)).to_be_bytes()).collect()
}

/// Runs a loop in a thread of its own at each end, which sleeps when it has no work.
#[test]
fn a_large_stream_crosses_from_pipe_to_pipe() {
    let (client, server, key) = links();
    let data = pattern(64 << 20);
    let (source_end, source) = pipe();
    let (sink, sink_end) = pipe();
    let server_key = key.clone();
    let server = std::thread::spawn(move || {
        let mut script = Script::new(&server_key);
        let mut pump = Some(FdPump::new().output(owned(sink_end)));
        script.accept = Box::new(move |_| Some(Box::new(pump.take()?)));
        let mut driver = Driver::new(server, Config::default());
        let error = driver.run(&mut script).unwrap_err();
        // The client disconnects as soon as everything is sent; the reader here may be slow.
        assert!(driver.drain(&mut script, None));
        assert_eq!(script.gone.len(), 1);
        error.to_string()
    });
    let expected = data.clone();
    let writer = std::thread::spawn(move || std::fs::File::from(source).write_all(&data).unwrap());
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        std::fs::File::from(sink).read_to_end(&mut got).unwrap();
        got
    });
    let mut script = Script::new(&key);
    script.stop_when_gone = true;
    let mut driver = Driver::new(client, Config::default());
    driver.link().request_rekey();
    let pump = FdPump::new().input(owned(source_end)).close_when_done();
    driver.control().open("session", b"", &ChannelOptions::default(), Box::new(pump)).unwrap();
    assert_eq!(driver.run(&mut script).unwrap(), 0);
    driver.disconnect("done", Duration::from_secs(5));
    assert_eq!(server.join().unwrap(), "disconnected by peer: done");
    assert!(reader.join().unwrap() == expected, "received bytes differ from those sent");
    writer.join().unwrap();
    assert!(script.rekeys > 0);
}

#[test]
fn a_forwarded_connection_is_half_closed_and_closed() {
    let mut world = World::new();
    let (client_end, mut client) = UnixStream::pair().unwrap();
    let (server_end, mut server) = UnixStream::pair().unwrap();
    world.serve(vec![Box::new(FdPump::socket(owned(server_end)))]);
    world.open(FdPump::socket(owned(client_end)));
    for end in [&client, &server] {
        end.set_nonblocking(true).unwrap();
    }
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut got = Vec::new();
    world.until("question and its end", |_| server.read_to_end(&mut got).is_ok());
    assert_eq!(got, b"question");
    // The other direction is still open.
    server.write_all(b"answer").unwrap();
    drop(server);
    let mut got = Vec::new();
    world.until("answer and its end", |_| client.read_to_end(&mut got).is_ok());
    assert_eq!(got, b"answer");
    world.until("close", |world| world.client_script.gone.len() + world.server_script.gone.len() == 2);
}

#[test]
fn data_before_close_reaches_a_slow_sink() {
    let mut world = World::new();
    let (mut sink, sink_end) = std::io::pipe().unwrap();
    world.serve(vec![Box::new(FdPump::new().output(owned(sink_end)))]);
    let probe = Probe::default();
    let id = world.open(probe.clone());
    world.until("open", |_| !probe.0.borrow().events.is_empty());
    // Twice the size of the largest pipe.
    let data = pattern(2 << 20);
    let mut control = world.client.control();
    let mut cx = control.channel(id).unwrap();
    assert_eq!(cx.send(&data), data.len());
    cx.close();
    world.until("close", |world| !world.client_script.gone.is_empty());
    assert!(world.server_script.gone.is_empty(), "the handler still has data to write");
    let mut got = vec![0; data.len()];
    let mut filled = 0;
    lh_sys::fd::set_nonblocking(&sink, true).unwrap();
    world.until("all of it", |_| {
        while let Ok(n @ 1..) = sink.read(&mut got[filled..]) {
            filled += n;
        }
        filled == data.len()
    });
    assert!(got == data);
    world.until("the handler to go", |world| !world.server_script.gone.is_empty());
    assert_eq!(sink.read(&mut [0]).unwrap(), 0, "the sink is closed");
}

#[test]
fn stuck_sink_holds_at_most_its_window() {
    let mut world = World::new();
    let window = WindowPolicy::fixed(1 << 20);
    world.server_script.options = ChannelOptions { window, ..ChannelOptions::default() };
    let (stuck_end, mut stuck) = UnixStream::pair().unwrap();
    let (pump, state) = Watched::new(FdPump::new().output(owned(stuck_end)));
    let flowing = Probe::default();
    world.serve(vec![Box::new(pump), Box::new(flowing.clone())]);
    let data = pattern(8 << 20);
    let sources: Vec<(OwnedFd, OwnedFd)> = vec![pipe(), pipe()];
    let mut writers = Vec::new();
    for (read, write) in sources {
        world.open(FdPump::new().input(owned(read)));
        let data = data.clone();
        writers.push(std::thread::spawn(move || std::fs::File::from(write).write_all(&data).unwrap()));
    }
    world.until("the other channel to finish", |_| flowing.got() == data.len());
    for _ in 0..100 {
        world.turn().unwrap();
    }
    assert!(state.queued.get() <= 1 << 20, "{}", state.queued.get());
    assert!(state.queued.get() > 512 << 10, "{}", state.queued.get());
    // When its reader continues, all data arrives.
    let expected = data.clone();
    let reader = std::thread::spawn(move || {
        let mut got = vec![0; data.len()];
        stuck.read_exact(&mut got).unwrap();
        got
    });
    world.until("the reader", |_| reader.is_finished());
    assert!(reader.join().unwrap() == expected);
    for writer in writers {
        writer.join().unwrap();
    }
}

#[test]
fn broken_output_sends_eow_and_keeps_reading() {
    let mut world = World::new();
    let (read, write) = pipe();
    drop(read);
    let sent = Probe::default();
    world.serve(vec![Box::new(FdPump::new().output(owned(write)).tell_broken_output())]);
    let id = world.open(sent.clone());
    let mut left = 16 << 20;
    world.until("16 MiB", |world| {
        if let Some(mut cx) = world.client.control().channel(id) {
            left -= cx.send(&vec![0; left.min(1 << 20)]);
        }
        left == 0
    });
    let eow = |event: &ChannelEvent| matches!(event, ChannelEvent::Request { name, want_reply: false, .. } if name == "eow@openssh.com");
    assert_eq!(sent.0.borrow().events.iter().filter(|event| eow(event)).count(), 1);
}

#[test]
fn eow_request_stops_reading() {
    let mut world = World::new();
    let (read, write) = pipe();
    let (pump, state) = Watched::new(FdPump::new().input(owned(read)));
    world.serve(vec![Box::new(pump)]);
    let probe = Probe::default();
    let id = world.open(probe.clone());
    let mut source = std::fs::File::from(write);
    source.write_all(b"first").unwrap();
    world.until("first", |_| probe.got() == 5);
    world.client.control().channel(id).unwrap().request("eow@openssh.com", false, b"");
    world.until("EOF", |_| probe.saw(&ChannelEvent::Eof));
    // The program at the other end of the pipe gets an error.
    assert_eq!(source.write_all(b"second").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    assert_eq!(state.read.get(), 5);
}

#[test]
fn stderr_goes_to_its_own_output() {
    let mut world = World::new();
    let (out, err) = (pipe(), pipe());
    let (mut out_got, mut err_got) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    world.serve(vec![Box::new(FdPump::new().input(owned(out.0)).input_ext(1, owned(err.0)))]);
    let pump = FdPump::new().output(owned(out_got.0)).output_ext(owned(err_got.0));
    let (pump, state) = Watched::new(pump);
    world.open(pump);
    std::fs::File::from(out.1).write_all(b"to stdout").unwrap();
    let mut stderr = std::fs::File::from(err.1);
    stderr.write_all(b"to stderr").unwrap();
    world.until("both", |_| state.written.get() == 18);
    assert!(!state.events.borrow().contains(&ChannelEvent::Eof), "stderr has not ended");
    drop(stderr);
    world.until("the end", |_| state.events.borrow().contains(&ChannelEvent::Eof));
    let mut text = String::new();
    out_got.1.read_to_string(&mut text).unwrap();
    err_got.1.read_to_string(&mut text).unwrap();
    assert_eq!(text, "to stdoutto stderr");
}

#[test]
fn extended_data_of_unknown_types_is_dropped() {
    let mut world = World::new();
    let (out, other) = (pipe(), pipe());
    let (out_got, mut err_got) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    world.serve(vec![Box::new(FdPump::new().input(owned(out.0)).input_ext(2, owned(other.0)))]);
    let (pump, state) = Watched::new(FdPump::new().output(owned(out_got.0)).output_ext(owned(err_got.0)));
    world.open(pump);
    // More than the window: what is dropped gets credit.
    let writer =
        std::thread::spawn(move || std::fs::File::from(other.1).write_all(&pattern(8 << 20)).unwrap());
    std::fs::File::from(out.1).write_all(b"to stdout").unwrap();
    world.until("the end", |_| state.events.borrow().contains(&ChannelEvent::Eof));
    writer.join().unwrap();
    assert_eq!((state.written.get(), state.queued.get()), (9, 0));
    let mut text = Vec::new();
    err_got.1.read_to_end(&mut text).unwrap();
    assert!(text.is_empty(), "{} bytes on stderr", text.len());
}

/// rsync kills `ssh` at the end of its standard output.
#[test]
fn stdout_ends_after_stderr_is_written() {
    let mut world = World::new();
    let (out, err) = (pipe(), pipe());
    let (out_end, mut out_got) = UnixStream::pair().unwrap();
    let (err_end, mut err_got) = UnixStream::pair().unwrap();
    let mut filler = err_end.try_clone().unwrap();
    world.serve(vec![Box::new(FdPump::new().input(owned(out.0)).input_ext(1, owned(err.0)))]);
    let pump = FdPump::new().output(owned(out_end)).output_ext(owned(err_end));
    filler.set_nonblocking(true).unwrap();
    let mut filled = 0;
    while let Ok(n) = filler.write(&[b'-'; 4096]) {
        filled += n;
    }
    drop(filler);
    let (pump, state) = Watched::new(pump);
    world.open(pump);
    std::fs::File::from(out.1).write_all(b"out").unwrap();
    std::fs::File::from(err.1).write_all(b"err").unwrap();
    world.until("EOF", |_| state.events.borrow().contains(&ChannelEvent::Eof));
    assert_eq!((state.written.get(), state.queued.get()), (3, 3));
    out_got.set_nonblocking(true).unwrap();
    err_got.set_nonblocking(true).unwrap();
    let mut bytes = vec![0; 64 << 10];
    assert_eq!(out_got.read(&mut bytes).unwrap(), 3);
    let error = out_got.read(&mut bytes).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "stdout has ended before stderr is written");
    let mut got = 0;
    world.until("all of stderr", |_| {
        while let Ok(n @ 1..) = err_got.read(&mut bytes) {
            got += n;
        }
        got == filled + 3
    });
    world.until("the end of stdout", |_| matches!(out_got.read(&mut bytes), Ok(0)));
}

#[test]
fn nothing_is_read_before_the_start() {
    struct Late(FdPump);
    impl lh_driver::ChannelHandler for Late {
        fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
            let go = matches!(&event, ChannelEvent::RequestReply { ok: true, .. });
            self.0.on_event(event, cx);
            if go {
                self.0.start(cx);
            }
        }
        fn interests<'a>(&'a self, out: &mut lh_driver::Interests<'a>) {
            self.0.interests(out);
        }
        fn on_ready(&mut self, token: usize, ready: lh_driver::Ready, cx: &mut ChannelCx<'_>) {
            self.0.on_ready(token, ready, cx);
        }
    }
    let mut world = World::new();
    let (read, write) = pipe();
    std::fs::File::from(write).write_all(b"typed ahead").unwrap();
    let probe = Probe::default();
    world.serve(vec![Box::new(probe.clone())]);
    let id = world.open(Late(FdPump::new().input(owned(read)).start_by_hand()));
    world.until("open", |_| !probe.0.borrow().events.is_empty());
    for _ in 0..10 {
        world.turn().unwrap();
    }
    assert_eq!(probe.got(), 0);
    world.client.control().channel(id).unwrap().request("yes", true, b"");
    world.until("the typed text", |_| probe.got() == 11 && probe.saw(&ChannelEvent::Eof));
}

/// Test filter: `~.` stops the loop, `~~` is a tilde, other bytes pass.
struct Escapes {
    tilde: bool,
}

impl InputFilter for Escapes {
    fn filter(&mut self, input: &[u8], out: &mut Vec<u8>, cx: &mut ChannelCx<'_>) {
        for &byte in input {
            match (std::mem::take(&mut self.tilde), byte) {
                (true, b'.') => cx.stop(255),
                (false, b'~') => self.tilde = true,
                _ => out.push(byte),
            }
        }
    }
}

#[test]
fn filter_runs_while_the_window_is_shut() {
    let mut world = World::new();
    world.server_script.options =
        ChannelOptions { window: WindowPolicy::fixed(10), ..ChannelOptions::default() };
    let probe = Probe::default();
    probe.0.borrow_mut().hold = true;
    world.serve(vec![Box::new(probe.clone())]);
    let (mut person, terminal) = UnixStream::pair().unwrap();
    world.open(FdPump::new().input(owned(terminal)).filter(Box::new(Escapes { tilde: false })));
    person.write_all(b"a~~b and more than ten").unwrap();
    world.until("ten bytes", |_| probe.got() == 10);
    assert_eq!(probe.0.borrow().data, b"a~b and mo");
    person.write_all(b"~.").unwrap();
    let code = loop {
        if let Some(code) = world.client.run_once(&mut world.client_script, None).unwrap() {
            break code;
        }
    };
    assert_eq!(code, 255);
}

#[test]
fn inherited_descriptors_stay_as_they_are() {
    use rustix::fs::{OFlags, fcntl_getfl};
    let (read, write) = pipe();
    let ours = LocalFd::inherited(write.as_fd(), Direction::Write).unwrap();
    let mut world = World::new();
    world.serve(vec![Box::new(FdPump::new().output(ours))]);
    let probe = Probe::default();
    let id = world.open(probe.clone());
    // More than the pipe holds: a blocking write would block the test.
    let data = pattern(2 << 20);
    let mut sent = 0;
    world.until("the window to shut", |world| {
        if let Some(mut cx) = world.client.control().channel(id) {
            sent += cx.send(&data[sent..]);
        }
        sent == data.len()
    });
    for _ in 0..10 {
        world.turn().unwrap();
    }
    assert!(!fcntl_getfl(&write).unwrap().contains(OFlags::NONBLOCK));
    let reader = std::thread::spawn(move || {
        let mut got = vec![0; 2 << 20];
        std::fs::File::from(read).read_exact(&mut got).unwrap();
        got
    });
    world.until("the reader", |_| reader.is_finished());
    assert!(reader.join().unwrap() == data);
    world.server.finish(Duration::from_secs(1));
}
