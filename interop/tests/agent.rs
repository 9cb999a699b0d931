//! Key agents and their clients: Longhaul's and OpenSSH's in every combination.

mod agent {
    mod certificates;
    mod floods;
    mod forwarding;
    mod programs;
    mod rules;
    mod service;
    mod socket_path;
    mod using;
}
