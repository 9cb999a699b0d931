//! Agents and what talks to them: ours and OpenSSH's in every combination.

mod agent {
    mod certificates;
    mod forwarding;
    mod programs;
    mod rules;
    mod using;
}
