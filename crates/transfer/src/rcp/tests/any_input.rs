//! For any bytes of the peer, a side ends and stays inside of its target.

use proptest::strategy::Strategy as _;

use super::*;

proptest::proptest! {
    /// For any bytes from a source, nothing appears outside of the target, and it ends.
    #[test]
    fn any_bytes_stay_inside(parts in proptest::collection::vec(
        proptest::prop_oneof![
            "[CD]0[0-7]{3} [0-9]{1,2} [a./]{1,4}\n".prop_map(String::into_bytes),
            proptest::strategy::Just(b"E\n".to_vec()),
            proptest::strategy::Just(b"T1 0 1 0\n".to_vec()),
            proptest::collection::vec(proptest::prelude::any::<u8>(), 0..20),
            proptest::strategy::Just(vec![0]),
        ],
        0..12,
    )) {
        let outer = tempfile::tempdir().unwrap();
        let target = outer.path().join("target");
        fs::create_dir(&target).unwrap();
        let options = Options { recursive: true, preserve: false, ..Options::default() };
        let mut sink = Sink::new(path_of(&target), Request::anything(), options);
        for part in parts {
            sink.received(part.into(), Instant::now());
            sink.advance(&mut Vec::new(), Instant::now());
        }
        sink.closed();
        sink.advance(&mut Vec::new(), Instant::now());
        assert!(sink.is_finished());
        assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 1);
    }

    /// For any answer of a sink, the source ends or waits.
    #[test]
    fn any_answers(answers in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40)) {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("f"), "x").unwrap();
        let options = Options { recursive: true, ..Options::default() };
        let mut source = Source::new(vec![path_of(directory.path())], options, Instant::now());
        for answer in answers {
            source.received(vec![answer].into(), Instant::now());
            source.advance(&mut Vec::new(), Instant::now());
        }
        source.closed();
        source.advance(&mut Vec::new(), Instant::now());
        assert!(source.is_finished());
    }
}
