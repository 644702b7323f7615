//! Callers without a credential: all of them are one caller.

use std::sync::{Arc, LazyLock};

use crate::caller::{Caller, Identity, Principal};

impl Principal {
    /// The caller name of everybody who is anonymous. No key or agent may have it, in any realm.
    pub const ANONYMOUS: &'static str = "anonymous";

    /// Nobody in particular. All anonymous callers are the same one.
    pub fn anonymous() -> Self {
        static ANONYMOUS: LazyLock<Principal> =
            LazyLock::new(|| Principal::new("default", Principal::ANONYMOUS));
        ANONYMOUS.clone()
    }

    /// Whether this is the caller that all anonymous callers are.
    pub fn is_anonymous(&self) -> bool {
        &*self.id == Self::ANONYMOUS
    }
}

impl Identity {
    /// Nothing was proven.
    pub fn anonymous() -> Arc<Self> {
        static ANONYMOUS: LazyLock<Arc<Identity>> = LazyLock::new(Arc::default);
        ANONYMOUS.clone()
    }
}

impl Caller {
    /// Nobody in particular.
    pub fn anonymous() -> Self {
        Self { principal: Principal::anonymous(), identity: Identity::anonymous() }
    }
}
