//! The server of [`lh_interop::lying`] as a program: its arguments are the words of lies.

fn main() {
    lh_interop::lying::serve(std::env::args().skip(1));
}
