//! SFTP by russh and russh-sftp, in both roles.
//!
//! `server LAB` serves holders of the lab's keys: prints its port, ends with stdin. `client PORT USER LAB`
//! does what the tests of clients expect.

mod client;
mod server;

/// Errors of any kind: they end the program.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server", lab] => server::run(lab).await,
        ["client", port, user, lab] => client::run(port.parse()?, user, lab).await,
        _ => Err("usage: server LAB | client PORT USER LAB".into()),
    }
}
