//! Page of `longhaul`.

use super::page::Page;

pub(super) const LONGHAUL: Page = Page {
    name: "longhaul",
    description: "longhaul doctor measures the path to a host for about half a minute and prints what \
        limits it, first cause first: fixed windows, socket buffers, loss, congestion control, the \
        cipher, disks, long queues, throttled marks, swallowed packets, slow logins, slow start-up files. \
        Each has its evidence, the expected gain and the setting to change. The server may be any that \
        runs commands for the user.\n\nlonghaul bench prints the tables of a path: \
        throughput by cipher and MAC, session set-up by algorithm, latency beside bulk, and other clients \
        beside ours (of a server that offers SFTP alone: session set-up and files), in rounds whose \
        medians and spreads it shows; figures from which nothing follows are marked. With --hosts it \
        measures the paths of a list and prints them as a matrix.\n\nlonghaul \
        compare sets two results of bench --json side by side.\n\nlonghaul report makes one HTML page out of \
        results of bench --json, side by side, or out of files that Metrics of lhssh_config(5) has \
        written: throughput, round trip, \
                  congestion window, retransmissions and the windows of SSH over time, for as many runs \
                  and files as are named, \
                  and what was limiting, where there are enough samples to say so. The page refers to \
                  nothing outside itself. A file that \
                  is none of these, or that was cut off, is an error that names the file and the line.\n\nlonghaul \
                  verify checks a tree against the manifest that lhscp --manifest-out has left: on this \
                  host, or on an SFTP server, which makes the sums itself where it is Longhaul's. It \
                  reports what is missing, of another size, of other content or of another kind. Without \
                  a destination it checks where lhscp put the copy. With --in it takes the manifests of \
                  all shares of a copy, and names a share whose manifest is missing or not complete.\n\nlonghaul transfers lists the copies \
                  of this user that are not complete, by their journals. With resume it runs the command \
                  again that began a copy; with clean it removes its unfinished files, here or on its \
                  server, and its journal. An ID may be cut to a beginning that no other has.\n\nlonghaul sessions \
                  lists the sessions of lhsshd on this host: who is logged in, from where and since when, what runs, and \
                  which sessions wait for a client whose connection was lost (ResumeGrace of lhsshd_config(5)). Users \
                  see their own sessions, root all. With --end it ends one of them: its client is told, and its \
                  programs are hung up.",
    parts: &[],
    exit: "longhaul bench: 0 when it measured, 1 when a path of --hosts was not measured, 130 when a signal \
        ended it, 255 without a connection, 2 for mistakes on the command line.\n\nlonghaul compare: 0, or \
        1 when a figure is clearly below --fail-below, 3 when none is and the rounds of some are too noisy, \
        too few or too near the limit to tell, 2 when nothing can be compared.\n\nlonghaul \
        doctor: 0 when a page was printed, with problems or without, 255 without a connection, 2 for \
        mistakes on the command line.\n\nlonghaul report: 0 when the page was written, 1 when a file cannot be read or written, 2 for \
        mistakes on the command line.\n\nlonghaul verify: 0 when everything is as in the manifest, 1 when \
        something is missing or different, 2 when that cannot be said: no connection, no such manifest, \
        a file that cannot be read or has no sum, or a mistake on the command line.\n\nlonghaul transfers: 0, \
        or 1 when there is no such transfer, a process works on it, or something could not be removed; 2 \
        for mistakes on the command line. With resume, the exit status of lhscp.\n\nlonghaul sessions: 0, or 1 \
        when there is no such session, it does not end, a session does not answer, or /proc/net/unix cannot be \
        read; 2 for mistakes on the command line.",
    environment: &[("XDG_STATE_HOME", "Directory of the journals, instead of ~/.local/state.")],
    files: &[
        (
            "./ssh_stack_metrics.local, ./ssh_stack_metrics.remote",
            "What Metrics writes when MetricsPath says nothing else.",
        ),
        ("~/.local/state/longhaul/*.journal", "Journals of copies that are not complete."),
    ],
    see_also: &[("lhscp", 1), ("lhssh", 1), ("lhssh_config", 5)],
};
