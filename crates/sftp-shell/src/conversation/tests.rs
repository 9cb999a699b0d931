use std::os::unix::net::UnixStream;

use super::*;

#[test]
fn silence_counts_from_the_login_on() {
    let (console, _other) = UnixStream::pair().expect("a pair");
    let mut conversation = Conversation::new(Rc::new(Watch::new(console, None)));
    let (mut out, mut now) = (Vec::new(), Instant::now());
    conversation.wait_for_login();
    conversation.advance(&mut out, now);
    assert!(!out.is_empty(), "INIT is sent before the login");
    assert_eq!(conversation.next_deadline(), None);
    now += 3 * MOST_QUIET;
    conversation.advance(&mut out, now);
    conversation.logged_in(now);
    conversation.advance(&mut out, now);
    assert!(!conversation.told_quiet && !conversation.settled());
    assert_eq!(conversation.next_deadline(), Some(now + MOST_QUIET));
    conversation.advance(&mut out, now + MOST_QUIET);
    assert!(conversation.told_quiet);
    assert_eq!(conversation.next_deadline(), None, "once");
}

#[test]
fn a_server_that_does_not_answer_init_is_given_up() {
    let (console, _other) = UnixStream::pair().expect("a pair");
    let mut conversation = Conversation::new(Rc::new(Watch::new(console, None)));
    let (mut out, now) = (Vec::new(), Instant::now());
    conversation.limit_wait_for_version(Duration::from_secs(5));
    conversation.logged_in(now);
    conversation.advance(&mut out, now + MOST_QUIET);
    assert!(conversation.told_quiet && !conversation.settled());
    assert_eq!(conversation.next_deadline(), Some(now + LEAST_PATIENCE));
    let later = now + LEAST_PATIENCE;
    conversation.extend_wait_for_version(later);
    conversation.advance(&mut out, later);
    assert!(!conversation.settled());
    conversation.advance(&mut out, later + LEAST_PATIENCE);
    assert_eq!(conversation.loss(), Some("the server has not answered INIT in 60 s"));
}
