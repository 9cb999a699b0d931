//! Joins the records of the two ends of a connection.

use lh_metrics::{Run, RunHeader, Side};

/// One connection, with the records of one end or of both.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Record of the client, the end that wrote the files.
    pub(crate) local: Option<Run>,
    /// Record of the server.
    pub(crate) remote: Option<Run>,
    /// Files of the records.
    pub(crate) files: Vec<String>,
}

impl Connection {
    /// Description of the connection from its files.
    pub(crate) fn about(&self) -> Option<&RunHeader> {
        self.ends().next().map(|(_, run)| &run.about)
    }

    /// The existing records, the client's first.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (Side, &Run)> {
        let local = self.local.as_ref().map(|run| (Side::Local, run));
        local.into_iter().chain(self.remote.as_ref().map(|run| (Side::Remote, run)))
    }

    fn end(&mut self, side: Side) -> &mut Option<Run> {
        match side {
            Side::Local => &mut self.local,
            Side::Remote => &mut self.remote,
        }
    }
}

/// Joins the records of each connection, in the order in which connections first appear. A duplicate record
/// is used once.
pub(crate) fn pair(runs: Vec<(String, Run)>) -> Vec<Connection> {
    let mut connections: Vec<Connection> = Vec::new();
    for (file, run) in runs {
        let known = connections
            .iter_mut()
            .find(|connection| connection.about().is_some_and(|about| about.run == run.about.run));
        let connection = match known {
            Some(connection) => connection,
            None => {
                connections.push(Connection { local: None, remote: None, files: Vec::new() });
                let Some(last) = connections.last_mut() else { continue };
                last
            }
        };
        let side = run.side;
        connection.end(side).get_or_insert(run);
        if !connection.files.contains(&file) {
            connection.files.push(file);
        }
    }
    connections
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str, side: Side) -> Run {
        Run { about: RunHeader { run: id.to_owned(), ..RunHeader::default() }, side, points: Vec::new() }
    }

    #[test]
    fn records_of_both_ends_are_joined() {
        let named = |file: &str, run: Run| (file.to_owned(), run);
        let got = pair(vec![
            named("a.local", run("1", Side::Local)),
            named("a.local", run("2", Side::Local)),
            named("a.remote", run("2", Side::Remote)),
            named("a.remote", run("1", Side::Remote)),
            named("a.remote", run("3", Side::Remote)),
            named("copy.local", run("1", Side::Local)),
        ]);
        let ids: Vec<_> = got.iter().map(|each| each.about().unwrap().run.as_str()).collect();
        assert_eq!(ids, ["1", "2", "3"]);
        let ends: Vec<_> = got.iter().map(|each| each.ends().count()).collect();
        assert_eq!(ends, [2, 2, 1]);
        assert_eq!(got[0].files, ["a.local", "a.remote", "copy.local"]);
    }
}
