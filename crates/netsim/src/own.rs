//! Parts that a program brings along: what makes one for each place that needs it.

use std::{fmt, sync::Arc};

type Make<G, T> = dyn Fn(G) -> Box<T> + Send + Sync;

/// Makes parts of one's own, each from a `G`; `T` is the trait that they have.
///
/// Two are equal if they are clones of one.
pub struct Own<G, T: ?Sized> {
    name: Arc<str>,
    make: Arc<Make<G, T>>,
}

impl<G, T: ?Sized> Own<G, T> {
    /// Parts that are called `name`.
    pub fn new(name: &str, make: impl Fn(G) -> Box<T> + Send + Sync + 'static) -> Self {
        Self { name: name.into(), make: Arc::new(make) }
    }

    /// What they are called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One of them.
    pub fn make(&self, given: G) -> Box<T> {
        (self.make)(given)
    }
}

impl<G, T: ?Sized> Clone for Own<G, T> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), make: self.make.clone() }
    }
}

impl<G, T: ?Sized> PartialEq for Own<G, T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.make, &other.make)
    }
}

impl<G, T: ?Sized> fmt::Debug for Own<G, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Own").field(&self.name).finish()
    }
}
