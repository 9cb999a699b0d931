//! Delivery of readiness, budget, deadlines and notes to handlers, sources and the control.

use std::time::Instant;

use crate::control::{Control, ControlEvent};
use crate::handler::{ControlCx, Core, Source};
use crate::poller::{Interests, Owner, Ready};
use crate::slots::Slot;

impl Core {
    /// Lists the descriptors that handlers wait for.
    pub(crate) fn handlers_interests<'a>(&'a self, interests: &mut Interests<'a>) {
        for (index, slot) in self.slots.iter() {
            if let Some(handler) = &slot.handler {
                interests.set_owner(Owner::Handler(index, slot.id));
                handler.interests(interests);
            }
        }
    }

    /// Lists the descriptors that handlers and sources wait for.
    pub(crate) fn owners_interests<'a>(&'a self, interests: &mut Interests<'a>) {
        self.handlers_interests(interests);
        for (id, source) in &self.sources {
            if let Some(source) = source {
                interests.set_owner(Owner::Source(*id));
                source.interests(interests);
            }
        }
    }

    /// The first deadline of handlers, sources and the control.
    pub(crate) fn owners_deadline(&self, control: &dyn Control) -> Option<Instant> {
        let handlers = self.slots.iter().filter_map(|(_, slot)| slot.handler.as_ref()?.next_deadline());
        let sources = self.sources.iter().filter_map(|(_, source)| source.as_ref()?.next_deadline());
        handlers.chain(sources).chain(control.next_deadline()).min()
    }

    /// Calls the owners of ready descriptors, starting with another one each turn.
    pub(crate) fn serve(
        &mut self,
        control: &mut dyn Control,
        ready: &[(Owner, usize, Ready)],
        rotation: usize,
    ) {
        let start = rotation % ready.len().max(1);
        let (later, first) = ready.split_at(start);
        for &(owner, token, ready) in first.iter().chain(later) {
            if self.stop.is_some() {
                break;
            }
            match owner {
                Owner::Link => {}
                Owner::Control => control.on_ready(token, ready, &mut ControlCx::new(self)),
                Owner::Handler(index, id) => {
                    if self.slots.get(index).is_some_and(|slot| slot.id == id) {
                        self.call(index, |handler, cx| handler.on_ready(token, ready, cx));
                        self.reap(index);
                    }
                }
                Owner::Source(id) => {
                    if let Some(index) = self.sources.iter().position(|(other, _)| *other == id) {
                        self.call_source(index, |source, cx| source.on_ready(token, ready, cx));
                    }
                }
            }
        }
    }

    /// Calls producers that wait for budget and have some now, starting with another one each turn.
    pub(crate) fn produce(&mut self, rotation: usize) {
        let count = self.slots.len();
        for step in 0..count {
            let index = (rotation.wrapping_add(step)) % count;
            let waits = self.slots.get(index).is_some_and(Slot::waits_for_budget);
            if !waits || self.stop.is_some() || self.budget(index) == 0 {
                continue;
            }
            if let Some(slot) = self.slots.get_mut(index) {
                slot.wants_write = false;
            }
            self.call(index, |handler, cx| handler.on_writable(cx));
            self.reap(index);
        }
        if !self.sources_wait() {
            return;
        }
        let count = self.sources.len();
        for step in 0..count {
            let index = (rotation.wrapping_add(step)) % count;
            let waits = self.sources[index].1.as_ref().is_some_and(|source| source.waits_for_room());
            if waits && self.stop.is_none() && self.room() > 0 {
                self.call_source(index, |source, cx| source.on_room(cx));
            }
        }
    }

    /// Tells handlers, sources and the control that their deadlines have passed.
    pub(crate) fn time_out(&mut self, control: &mut dyn Control) {
        let now = self.now;
        let due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        for index in 0..self.slots.len() {
            let slot = self.slots.get(index);
            if due(slot.and_then(|slot| slot.handler.as_ref()?.next_deadline())) {
                self.call(index, |handler, cx| handler.on_timeout(cx));
                self.reap(index);
            }
        }
        for index in 0..self.sources.len() {
            if due(self.sources[index].1.as_ref().and_then(|source| source.next_deadline())) {
                self.call_source(index, |source, cx| source.on_timeout(cx));
            }
        }
        if due(control.next_deadline()) {
            control.on_timeout(&mut ControlCx::new(self));
        }
    }

    fn call_source(&mut self, index: usize, f: impl FnOnce(&mut dyn Source, &mut ControlCx<'_>)) {
        let Some(mut source) = self.sources.get_mut(index).and_then(|(_, source)| source.take()) else {
            return;
        };
        f(&mut *source, &mut ControlCx::new(self));
        if !source.finished()
            && let Some((_, place)) = self.sources.get_mut(index)
        {
            *place = Some(source);
        }
    }

    /// Delivers pending notes, calls [`Control::before_wait`], and delivers the notes that this caused.
    pub(crate) fn deliver_pending(&mut self, control: &mut dyn Control) {
        self.drain_notifications(control);
        control.before_wait(&mut ControlCx::new(self));
        self.drain_notifications(control);
    }

    /// Ends the batch and delivers pending notes and channel ends to the control, until there are none.
    pub(crate) fn drain_notifications(&mut self, control: &mut dyn Control) {
        loop {
            self.end_batch();
            if let Some((handler, id, note)) = self.notes.pop_front() {
                let event = ControlEvent::Note { handler, id, note };
                control.on_event(event, &mut ControlCx::new(self));
            } else if let Some((id, handler)) = self.gone.pop_front() {
                let event = ControlEvent::ChannelGone { id, handler };
                control.on_event(event, &mut ControlCx::new(self));
            } else {
                break;
            }
        }
        let removed = std::mem::take(&mut self.removed_sources);
        self.sources.retain(|(id, source)| source.is_some() && !removed.contains(id));
    }
}
