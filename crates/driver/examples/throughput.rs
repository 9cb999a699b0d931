//! Cost of the whole data path, from descriptor to descriptor, over loopback TCP between two threads.
//!
//! `cargo run --release -p lh-driver --example throughput [MiB] [cipher] [KiB per packet, 64 at most]` pumps
//! a file into a channel at one end and into `/dev/null` at the other. The CPU time is that of both ends,
//! user and system.

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
    let mut args = std::env::args().skip(1);
    let mib: u64 = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(1024);
    let cipher = args.next().unwrap_or_else(|| "aes128-gcm@openssh.com".to_owned());
    let key = PrivateKey::generate(KeyType::Ed25519, None)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let server_key = key.clone();
    let server = std::thread::spawn(move || -> Result<()> {
        let (socket, _) = listener.accept()?;
        let host_key =
            HostKey { algorithms: vec!["ssh-ed25519".to_owned()], blob: server_key.public().blob().to_vec() };
        let link = shake(lh_transport::Config::server(vec![host_key]), socket, Some(&server_key))?;
        // The client disconnects when it is done.
        let mut driver = Driver::new(link, Config::default());
        driver.set_workers(Workers::configured(false));
        let _ = driver.run(&mut End);
        Ok(())
    });

    let mut config = lh_transport::Config::client();
    config.algorithms.cipher_c2s = vec![cipher.clone()];
    config.algorithms.cipher_s2c = vec![cipher.clone()];
    let link = shake(config, TcpStream::connect(address)?, None)?;
    let path = std::env::temp_dir().join(format!("lh-throughput-{}", std::process::id()));
    let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    // Written, not sparse: reading a hole costs less than reading cached data.
    let block: Vec<u8> = (0..1u32 << 18).flat_map(u32::to_be_bytes).collect();
    for _ in 0..mib {
        file.write_all(&block)?;
    }
    file.rewind()?;
    let (start, cpu) = (Instant::now(), cpu_time());
    let mut driver = Driver::new(link, Config::default());
    driver.set_workers(Workers::configured(false));
    let pump = FdPump::new().input(LocalFd::owned(OwnedFd::from(file))?).close_when_done();
    driver.control().open("session", b"", &ChannelOptions::default(), Box::new(pump))?;
    driver.run(&mut End)?;
    let (time, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
    println!(
        "{cipher}: {:.0} MiB/s, {:.3} CPU-ms/MiB (both ends)",
        mib as f64 / time.as_secs_f64(),
        cpu.as_secs_f64() * 1e3 / mib as f64
    );
    drop(driver);
    server.join().map_err(|_| "the server thread failed")?
}

fn shake(config: lh_transport::Config, socket: TcpStream, key: Option<&PrivateKey>) -> Result<Link> {
    let transport = Transport::new(config, Box::new(SystemRandom), Instant::now());
    let mut link = Link::new(transport, Stream::socket(socket.into())?);
    loop {
        match link.next_event(None)? {
            Event::HostKey { blob, .. } => {
                link.transport().host_key_accepted(&AcceptedHostKey::dangerous_vouch_for(&blob))?;
            }
            Event::SignExchangeHash { algorithm, data, .. } => {
                let signature = key.ok_or("no key to sign with")?.sign(&algorithm, &data)?;
                link.transport().exchange_hash_signed(&signature)?;
            }
            Event::KexDone { .. } => break,
            _ => {}
        }
    }
    link.finish(Duration::from_secs(5));
    link.transport().set_authenticated();
    Ok(link)
}

/// CPU time of this process so far, from `/proc/self/stat` (fields 14 and 15, in hundredths of a second).
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
