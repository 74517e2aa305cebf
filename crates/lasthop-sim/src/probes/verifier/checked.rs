//! The verdict of one check: nothing, or what is wrong.

pub(super) type Checked = Result<(), String>;

pub(super) fn ensure(ok: bool, text: impl FnOnce() -> String) -> Checked {
    if ok { Ok(()) } else { Err(text()) }
}
