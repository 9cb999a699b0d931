//! Cost of the whole data path, from descriptor to descriptor, over loopback TCP between two threads.
//!
//! `cargo run --release -p lh-driver --example throughput [MiB] [cipher] [KiB per packet, 64 at most]
//! [rounds]` pumps a file into a channel at one end and into `/dev/null` at the other. Each round does so
//! twice: without and with `resume@longhaul`, whose messages are kept until they are acknowledged. The CPU
//! time is that of each end's thread, user and system. The last line has the median of the rounds' ratios.

use std::error::Error;
use std::fs::File;
use std::io::{Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use lh_connection::Config;
use lh_crypto::{KeyType, PrivateKey, SystemRandom};
use lh_driver::{
    ChannelOptions, Control, ControlCx, ControlEvent, Driver, FdPump, Link, LocalFd, Stream, Workers,
};
use lh_resume::message::Session;
use lh_resume::{BUDGET, Handle};
use lh_transport::{AcceptedHostKey, Event, HostKey, Transport};

type Result<T> = core::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Accepts one channel, and stops when the channel is gone.
struct End;

impl Control for End {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        match event {
            ControlEvent::OpenRequested { id, .. } => {
                let null = File::options()
                    .write(true)
                    .open("/dev/null")
                    .and_then(|file| LocalFd::owned(file.into()));
                let Ok(null) = null else { return cx.stop(1) };
                let pump = FdPump::new().output(null);
                cx.accept(id, &options(), b"", Box::new(pump));
            }
            ControlEvent::ChannelGone { .. } => cx.stop(0),
            _ => {}
        }
    }
}

/// Channel options with the data per packet of the third argument, KiB. More than 64 is never announced to a
/// peer (`lh_wire::peer`).
fn options() -> ChannelOptions {
    let mut options = ChannelOptions::default();
    if let Some(kib) = std::env::args().nth(3).and_then(|arg| arg.parse::<u32>().ok()) {
        options.max_packet = kib << 10;
    }
    options
}

fn main() -> Result<()> {
    let arg = |number| std::env::args().nth(number);
    let mib: u64 = arg(1).and_then(|arg| arg.parse().ok()).unwrap_or(1024);
    let cipher = arg(2).unwrap_or_else(|| "aes128-gcm@openssh.com".to_owned());
    let rounds: usize = arg(4).and_then(|arg| arg.parse().ok()).unwrap_or(1).max(1);
    let path = std::env::temp_dir().join(format!("lh-throughput-{}", std::process::id()));
    let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    // Written, not sparse: reading a hole costs less than reading cached data.
    let block: Vec<u8> = (0..1u32 << 18).flat_map(u32::to_be_bytes).collect();
    for _ in 0..mib {
        file.write_all(&block)?;
    }
    let mut ratios = Vec::new();
    for _ in 0..rounds {
        let mut both = [0.0; 2];
        for (keeps, both) in [false, true].into_iter().zip(&mut both) {
            file.rewind()?;
            let run = pump(file.try_clone()?, &cipher, keeps)?;
            let per_mib = |time: Duration| time.as_secs_f64() * 1e3 / mib as f64;
            let (sender, receiver) = (per_mib(run.sender), per_mib(run.receiver));
            *both = sender + receiver;
            println!(
                "{cipher}, {}: {:.0} MiB/s, CPU-ms/MiB: sender {sender:.3}, receiver {receiver:.3}",
                if keeps { "kept" } else { "not kept" },
                mib as f64 / run.elapsed.as_secs_f64(),
            );
        }
        ratios.push(both[1] / both[0]);
    }
    ratios.sort_by(f64::total_cmp);
    println!("CPU time with kept messages: {:.3} of that without", ratios[rounds / 2]);
    Ok(())
}

/// Duration of a run, and the CPU time of each end's thread.
struct Run {
    elapsed: Duration,
    sender: Duration,
    receiver: Duration,
}

/// Pumps a file over a new connection. `keeps`: both ends keep messages until they are acknowledged.
fn pump(file: File, cipher: &str, keeps: bool) -> Result<Run> {
    let key = PrivateKey::generate(KeyType::Ed25519, None)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let server_key = key.clone();
    let server = std::thread::spawn(move || -> Result<Duration> {
        let (socket, _) = listener.accept()?;
        let host_key =
            HostKey { algorithms: vec!["ssh-ed25519".to_owned()], blob: server_key.public().blob().to_vec() };
        let mut link = shake(lh_transport::Config::server(vec![host_key]), socket, Some(&server_key))?;
        let session = Session { handle: Handle([0; 16]), grace: 10 };
        if keeps {
            link.retain_messages(BUDGET)?;
            link.send(&session.to_payload());
        }
        let cpu = thread_cpu();
        let mut driver = Driver::new(link, Config::default());
        if keeps {
            driver.control().survive_breaks(Some(session));
        }
        driver.set_workers(Workers::configured(false));
        // The client disconnects when it is done.
        let _ = driver.run(&mut End);
        Ok(thread_cpu().saturating_sub(cpu))
    });

    let mut config = lh_transport::Config::client();
    config.algorithms.cipher_c2s = vec![cipher.to_owned()];
    config.algorithms.cipher_s2c = vec![cipher.to_owned()];
    let mut link = shake(config, TcpStream::connect(address)?, None)?;
    if keeps {
        link.retain_messages(BUDGET)?;
    }
    let (start, cpu) = (Instant::now(), thread_cpu());
    let mut driver = Driver::new(link, Config::default());
    if keeps {
        driver.control().survive_breaks(None);
    }
    driver.set_workers(Workers::configured(false));
    let pump = FdPump::new().input(LocalFd::owned(OwnedFd::from(file))?).close_when_done();
    driver.control().open("session", b"", &ChannelOptions::default(), Box::new(pump))?;
    driver.run(&mut End)?;
    let (elapsed, sender) = (start.elapsed(), thread_cpu().saturating_sub(cpu));
    driver.disconnect("done", Duration::from_secs(5));
    drop(driver);
    let receiver = server.join().map_err(|_| "the server thread failed")??;
    Ok(Run { elapsed, sender, receiver })
}

fn shake(config: lh_transport::Config, socket: TcpStream, key: Option<&PrivateKey>) -> Result<Link> {
    let transport = Transport::new(config, Box::new(SystemRandom), Instant::now());
    let mut link = Link::new(transport, Stream::socket(socket.into())?);
    loop {
        match link.next_event(None)? {
            Event::HostKey { blob, .. } => {
                link.host_key_accepted(&AcceptedHostKey::dangerous_vouch_for(&blob))?;
            }
            Event::SignExchangeHash { algorithm, data, .. } => {
                let signature = key.ok_or("no key to sign with")?.sign(&algorithm, &data)?;
                link.exchange_hash_signed(&signature)?;
            }
            Event::KexDone { .. } => break,
            _ => {}
        }
    }
    link.finish(Duration::from_secs(5));
    link.set_authenticated();
    Ok(link)
}

/// CPU time of this thread so far, from the first field of `/proc/thread-self/schedstat`, nanoseconds.
fn thread_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split_whitespace().next().and_then(|field| field.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}
