//! Tasks that wait for a callback.

use std::task::{Context, Waker};

#[derive(Debug, Default)]
pub struct Wakers(Vec<Waker>);

impl Wakers {
    pub fn add(&mut self, context: &Context) {
        if !self.0.iter().any(|waker| waker.will_wake(context.waker())) {
            self.0.push(context.waker().clone());
        }
    }

    pub fn wake(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}
