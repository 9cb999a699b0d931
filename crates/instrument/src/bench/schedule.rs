//! Which cell of a run comes next, so that the run ends in time on a slow machine or path, too.
//!
//! What does not fit into the time is left out in this order: first rounds, then cells that were not measured
//! yet, the last of the list first. A cell is not begun unless the time that it is expected to take is left:
//! the time that it took last or, for the first time, a guess that grows with how much longer the others took
//! than guessed.
//!
//! The first cells of the list may have rounds reserved: others are not begun unless the time for those is
//! left.

use std::time::Duration;

/// The cells of a run, by their place in the list, and the time that is left.
pub(super) struct Schedule {
    /// When the last cell has to be done.
    limit: Duration,
    cells: Vec<Timing>,
    /// How many of the first cells have how many rounds reserved.
    reserved: (usize, u32),
    /// Rounds that are complete.
    rounds: usize,
    /// Cells of this round that had their turn.
    step: usize,
    /// Whether a cell was begun in this round.
    has_begun: bool,
    taken: Duration,
    guessed: Duration,
}

struct Timing {
    guess: Duration,
    last: Option<Duration>,
    measured: u32,
    /// It failed, or is measured once.
    is_done: bool,
}

impl Schedule {
    /// A schedule of cells with the guesses of the time that each takes, until `limit`.
    pub(super) fn new(limit: Duration, guesses: impl IntoIterator<Item = Duration>) -> Self {
        let cells =
            guesses.into_iter().map(|guess| Timing { guess, last: None, measured: 0, is_done: false });
        Self {
            limit,
            cells: cells.collect(),
            reserved: (0, 0),
            rounds: 0,
            step: 0,
            has_begun: false,
            taken: Duration::ZERO,
            guessed: Duration::ZERO,
        }
    }

    /// Reserves the time for this many rounds of the first `count` cells.
    pub(super) fn reserve(&mut self, count: usize, rounds: u32) {
        self.reserved = (count, rounds);
    }

    /// Time that the reserved rounds still take, apart from the next one of `index`.
    fn still_reserved(&self, index: usize) -> Duration {
        let (count, rounds) = self.reserved;
        let left = |(number, cell): (usize, &Timing)| {
            let rounds = rounds.saturating_sub(cell.measured + u32::from(number == index));
            if cell.is_done { Duration::ZERO } else { self.expected(cell) * rounds }
        };
        self.cells.iter().take(count).enumerate().map(left).sum()
    }

    /// The cell to measure at this time; `None` where none fits any more. The caller reports it with
    /// [`on_measured`](Self::on_measured).
    pub(super) fn next(&mut self, now: Duration) -> Option<usize> {
        loop {
            if self.step == self.cells.len() {
                if !self.has_begun {
                    return None;
                }
                (self.step, self.has_begun) = (0, false);
                self.rounds += 1;
            }
            // Odd rounds go backwards, so that a drift of the path favours no row.
            let index =
                if self.rounds.is_multiple_of(2) { self.step } else { self.cells.len() - 1 - self.step };
            self.step += 1;
            // Reserved cells go on as long as there is time for the next one.
            let reserved = if index < self.reserved.0 { Duration::ZERO } else { self.still_reserved(index) };
            if self
                .cells
                .get(index)
                .is_some_and(|cell| !cell.is_done && now + self.expected(cell) + reserved <= self.limit)
            {
                self.has_begun = true;
                return Some(index);
            }
        }
    }

    fn expected(&self, cell: &Timing) -> Duration {
        cell.last.unwrap_or_else(|| {
            let slower = self.taken.as_secs_f64() / self.guessed.as_secs_f64().max(1e-3);
            cell.guess.mul_f64(slower.clamp(1.0, 100.0))
        })
    }

    /// Records how long a cell took, and whether it is to be measured again.
    pub(super) fn on_measured(&mut self, index: usize, took: Duration, again: bool) {
        let Some(cell) = self.cells.get_mut(index) else { return };
        cell.last = Some(took);
        cell.measured += 1;
        cell.is_done |= !again;
        self.taken += took;
        self.guessed += cell.guess;
    }

    /// Number of the round that runs, from 0.
    pub(super) const fn round(&self) -> usize {
        self.rounds
    }

    /// Turns in this round so far.
    pub(super) const fn step(&self) -> usize {
        self.step
    }

    /// Complete rounds, with the one that has just ended; of the reserved cells, where there are any.
    pub(super) fn complete(&self) -> usize {
        let reserved = self.cells.iter().take(self.reserved.0).filter(|cell| !cell.is_done);
        if let Some(rounds) = reserved.map(|cell| cell.measured).min() {
            return rounds as usize;
        }
        self.rounds + usize::from(self.step == self.cells.len() && self.has_begun)
    }

    /// Cells that were never begun.
    pub(super) fn left_out(&self) -> Vec<usize> {
        let never = |(index, cell): (usize, &Timing)| cell.last.is_none().then_some(index);
        self.cells.iter().enumerate().filter_map(never).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUESS: Duration = Duration::from_millis(500);
    const LIMIT: Duration = Duration::from_secs(20);

    /// A run of ten cells in virtual time, each of which takes this; the end, cells in order, and those left
    /// out.
    fn run(takes: impl Fn(usize) -> Duration) -> (Duration, Vec<usize>, Vec<usize>) {
        let mut schedule = Schedule::new(LIMIT, [GUESS; 10]);
        let (mut now, mut order) = (Duration::ZERO, Vec::new());
        while let Some(index) = schedule.next(now) {
            now += takes(index);
            order.push(index);
            schedule.on_measured(index, takes(index), true);
        }
        (now, order, schedule.left_out())
    }

    #[test]
    fn quick_cells_have_whole_rounds_in_turns() {
        let (end, order, left_out) = run(|_| GUESS);
        assert_eq!((end, left_out), (LIMIT, vec![]));
        let forwards: Vec<usize> = (0..10).collect();
        let backwards: Vec<usize> = (0..10).rev().collect();
        assert_eq!(order, [&forwards[..], &backwards, &forwards, &backwards].concat());
    }

    #[test]
    fn slow_machine_loses_rounds_first_and_then_the_last_cells() {
        let (end, order, left_out) = run(|_| GUESS * 3);
        assert!(end <= LIMIT, "{end:?}");
        assert_eq!((order.len(), left_out), (13, vec![]), "one round, and a part of the second");
        let (end, order, left_out) = run(|_| GUESS * 8);
        assert!(end <= LIMIT, "{end:?}");
        assert_eq!((order, left_out), ((0..5).collect(), (5..10).collect::<Vec<usize>>()));
    }

    #[test]
    fn reserved_rounds_come_before_other_cells() {
        let mut schedule = Schedule::new(LIMIT, [GUESS; 10]);
        schedule.reserve(4, 3);
        let (mut now, mut counts) = (Duration::ZERO, [0; 10]);
        while let Some(index) = schedule.next(now) {
            // Three times what was guessed: ten cells would have one round, and a part of the second.
            now += GUESS * 3;
            counts[index] += 1;
            schedule.on_measured(index, GUESS * 3, true);
        }
        assert_eq!(schedule.complete(), counts[..4].iter().copied().min().unwrap());
        assert!(now <= LIMIT && counts[..4].iter().all(|count| *count >= 3), "{now:?} {counts:?}");
    }

    #[test]
    fn end_is_in_time_whatever_cells_take() {
        for factor in 1..40 {
            let (end, ..) = run(|index| Duration::from_millis(40) * factor * (1 + index as u32 % 3));
            // A cell that takes longer than all before it may go beyond the limit by what it takes longer.
            assert!(end <= LIMIT.mul_f64(1.1), "{factor}: {end:?}");
        }
    }

    #[test]
    fn failed_cells_have_no_second_turn() {
        let mut schedule = Schedule::new(LIMIT, [GUESS; 2]);
        assert_eq!(schedule.next(Duration::ZERO), Some(0));
        schedule.on_measured(0, GUESS, false);
        assert_eq!(schedule.next(GUESS), Some(1));
        schedule.on_measured(1, GUESS, false);
        assert_eq!(schedule.complete(), 1);
        assert_eq!((schedule.next(GUESS * 2), schedule.left_out()), (None, vec![]));
    }
}
