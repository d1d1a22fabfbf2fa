//! What stands for [`captures`](super::captures) and [`in_call`](super::in_call) without the feature `graph`: custack begins
//! no capture, so there is none that a call could break, and no call is published. Captures of other code are not known in
//! any build.

pub(crate) mod captures {
    use crate::context::handle::UnownedContext;
    use crate::error::CudaResult;

    pub(crate) const fn any() -> bool {
        false
    }

    pub(in crate::context) const fn forbid() -> bool {
        false
    }

    pub(crate) const fn forget_event(_: usize) {}

    pub(crate) const fn lose_in(_: usize) {}

    pub(crate) const fn lose_of_context(_: u64) {}

    pub(crate) const fn give_away(_: usize) {}

    pub(crate) const fn refuse_in(_: usize, _: &'static str) -> CudaResult<()> {
        Ok(())
    }

    pub(crate) const fn refuse_of(_: usize, _: &'static str) -> CudaResult<()> {
        Ok(())
    }

    pub(in crate::context) const fn refuse_forbidden(_: &'static str) -> CudaResult<()> {
        Ok(())
    }

    pub(in crate::context) const fn refuse_waiting(_: &UnownedContext, _: &'static str) -> CudaResult<()> {
        Ok(())
    }

    pub(in crate::context) const fn refuse_implicit(_: &UnownedContext, _: &'static str) -> CudaResult<()> {
        Ok(())
    }
}

pub(crate) mod in_call {
    use crate::context::handle::UnownedContext;
    use crate::error::CudaResult;

    /// Nothing waits for a driver call to return.
    #[must_use = "it is held during the call"]
    pub(crate) struct InCall(());

    /// Callers say by `drop` where the call is over.
    impl Drop for InCall {
        #[inline]
        fn drop(&mut self) {}
    }

    #[inline]
    pub(crate) const fn enter_legacy_stream(_: &UnownedContext) -> CudaResult<InCall> {
        Ok(InCall(()))
    }

    #[inline]
    pub(crate) const fn enter_whole_context(_: &UnownedContext, _: usize) -> CudaResult<InCall> {
        Ok(InCall(()))
    }

    #[inline]
    pub(crate) const fn enter_uncaptured(_: usize, _: &'static str) -> CudaResult<InCall> {
        Ok(InCall(()))
    }

    #[inline]
    pub(crate) const fn enter_breaking(
        _: usize,
        _: usize,
        _: Option<&UnownedContext>,
        _: &'static str,
    ) -> CudaResult<InCall> {
        Ok(InCall(()))
    }

    #[inline]
    pub(in crate::context) const fn enter(_: [usize; 2]) -> CudaResult<InCall> {
        Ok(InCall(()))
    }
}
