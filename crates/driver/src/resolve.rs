//! Non-blocking name resolution: a few threads call the resolver while there are lookups.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::handler::Source;
use crate::poller::{Interest, Interests, Ready};
use crate::{ControlCx, Family};

/// Upper limit of resolver threads; further lookups queue up.
const THREADS: usize = 8;

/// Returns the addresses of this family, without duplicates; an error when there are none.
pub(crate) fn of_family(family: Family, all: Vec<SocketAddr>) -> io::Result<Vec<SocketAddr>> {
    let mut some: Vec<SocketAddr> = Vec::with_capacity(all.len());
    for address in all {
        if family.allows(&address) && !some.contains(&address) {
            some.push(address);
        }
    }
    if some.is_empty() {
        return Err(io::Error::other("No address associated with hostname"));
    }
    Ok(some)
}

/// Callback for the result.
type Callback = Box<dyn FnOnce(io::Result<Vec<SocketAddr>>, &mut ControlCx<'_>)>;

/// Looks up names beside the loop. Clones share the threads, which exist only during lookups.
#[derive(Clone, Default)]
pub struct Resolver {
    burst: Rc<RefCell<Option<Burst>>>,
}

/// The lookups and threads since the resolver was last idle.
struct Burst {
    desk: Arc<SharedState>,
    waiting: HashMap<u64, (Family, Callback)>,
    next: u64,
}

/// State that the threads share.
struct SharedState {
    state: Mutex<State>,
    /// Socket to the loop; a byte wakes it.
    wake: UnixStream,
}

#[derive(Default)]
struct State {
    questions: VecDeque<(u64, String, u16)>,
    answers: Vec<(u64, io::Result<Vec<SocketAddr>>)>,
    threads: usize,
}

impl Resolver {
    /// A resolver without threads or lookups.
    pub fn new() -> Self {
        Self::default()
    }

    /// Finds the addresses of `host` that `family` allows. Calls `then` at once for literal addresses, and
    /// from the loop for names. The result is an error where there are none.
    pub fn resolve(
        &self,
        host: &str,
        port: u16,
        family: Family,
        cx: &mut ControlCx<'_>,
        then: impl FnOnce(io::Result<Vec<SocketAddr>>, &mut ControlCx<'_>) + 'static,
    ) {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return then(of_family(family, vec![SocketAddr::new(ip, port)]), cx);
        }
        if let Err((error, then)) = self.ask(host, port, family, Box::new(then), cx) {
            then(Err(error), cx);
        }
    }

    fn ask(
        &self,
        host: &str,
        port: u16,
        family: Family,
        then: Callback,
        cx: &mut ControlCx<'_>,
    ) -> Result<(), (io::Error, Callback)> {
        let mut place = self.burst.borrow_mut();
        let mut source = None;
        if place.is_none() {
            let pair = UnixStream::pair().and_then(|(here, there)| {
                here.set_nonblocking(true)?;
                there.set_nonblocking(true)?;
                Ok((here, there))
            });
            let (here, there) = match pair {
                Ok(pair) => pair,
                Err(error) => return Err((error, then)),
            };
            let desk = Arc::new(SharedState { state: Mutex::default(), wake: there });
            *place = Some(Burst { desk: Arc::clone(&desk), waiting: HashMap::new(), next: 0 });
            source = Some(Answers { resolver: self.clone(), desk, wake: here, over: false });
        }
        let Some(burst) = place.as_mut() else { return Ok(()) };
        if let Err(error) = burst.desk.ask(burst.next, host, port) {
            if source.is_some() {
                *place = None;
            }
            return Err((error, then));
        }
        burst.waiting.insert(burst.next, (family, then));
        burst.next += 1;
        if let Some(source) = source {
            cx.add_source(Box::new(source));
        }
        Ok(())
    }
}

impl SharedState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a lookup, and starts another thread for it where the limit allows.
    fn ask(self: &Arc<Self>, id: u64, host: &str, port: u16) -> io::Result<()> {
        let mut state = self.lock();
        state.questions.push_back((id, host.to_owned(), port));
        if state.threads < THREADS {
            let desk = Arc::clone(self);
            match std::thread::Builder::new().name("resolve".to_owned()).spawn(move || desk.work()) {
                Ok(_) => state.threads += 1,
                // A running thread will take it.
                Err(_) if state.threads > 0 => {}
                Err(error) => {
                    state.questions.pop_back();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn work(&self) {
        loop {
            let mut state = self.lock();
            let Some((id, host, port)) = state.questions.pop_front() else {
                state.threads -= 1;
                return;
            };
            drop(state);
            let answer = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
            self.lock().answers.push((id, answer));
            // A full socket already holds a byte that wakes the loop.
            let _ = rustix::io::write(&self.wake, &[0]);
        }
    }
}

/// The loop's side of a burst: passes results to their callbacks.
struct Answers {
    resolver: Resolver,
    desk: Arc<SharedState>,
    wake: UnixStream,
    over: bool,
}

impl Source for Answers {
    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        out.add(0, self.wake.as_fd(), Interest::READ);
    }

    fn on_ready(&mut self, _token: usize, _ready: Ready, cx: &mut ControlCx<'_>) {
        while rustix::io::read(&self.wake, &mut [0; 64]).is_ok_and(|n| n > 0) {}
        let answers = std::mem::take(&mut self.desk.lock().answers);
        for (id, answer) in answers {
            let waiting = match &mut *self.resolver.burst.borrow_mut() {
                Some(burst) => burst.waiting.remove(&id),
                None => None,
            };
            if let Some((family, then)) = waiting {
                then(answer.and_then(|addresses| of_family(family, addresses)), cx);
            }
        }
        let mut place = self.resolver.burst.borrow_mut();
        if place.as_ref().is_some_and(|burst| burst.waiting.is_empty()) {
            *place = None;
            self.over = true;
        }
    }

    fn finished(&self) -> bool {
        self.over
    }
}
