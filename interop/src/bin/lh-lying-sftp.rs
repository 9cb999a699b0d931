//! The server of [`lh_interop::lying`] as a program; its arguments name the faults to inject.

fn main() {
    lh_interop::lying::serve(std::env::args().skip(1));
}
