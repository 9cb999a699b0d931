//! Things in flight, found by a small number.

/// A key of a [`Table`].
pub(crate) type Key = u32;

/// Values by key; keys of removed values are used again.
///
/// A key stays valid while an answer for it is awaited: a value is removed only when no answer for it is
/// outstanding.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Vec<Option<T>>,
    free: Vec<Key>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> Key {
        match self.free.pop() {
            Some(key) => {
                self.slots[key as usize] = Some(value);
                key
            }
            None => {
                self.slots.push(Some(value));
                (self.slots.len() - 1) as Key
            }
        }
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        self.slots.get(key as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.slots.get_mut(key as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let value = self.slots.get_mut(key as usize)?.take();
        if value.is_some() {
            self.free.push(key);
        }
        value
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        (0..self.slots.len() as Key).filter(|&key| self.get(key).is_some()).collect()
    }
}
