//! Files on disk, for the loading of scenarios.

use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use lasthop::scenario::Files;
use lasthop::schemes::catalogue::ForeignSchemes;

use crate::foreign::NamedSchemes;

/// Access to files on disk; records the opened paths, and the schemes in Python that were named.
pub struct Disk<'py> {
    /// The paths, in the order of opening.
    pub opened: RefCell<Vec<PathBuf>>,
    /// The schemes in Python.
    pub schemes: NamedSchemes<'py>,
}

/// True for a pipe or a socket, which can be read only once.
#[cfg(unix)]
fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|m| m.file_type().is_fifo() || m.file_type().is_socket())
}

#[cfg(not(unix))]
fn is_pipe(_: &Path) -> bool {
    false
}

impl Files for Disk<'_> {
    fn open(&self, path: &Path) -> std::io::Result<Box<dyn Read>> {
        if is_pipe(path) {
            return Err(std::io::Error::other(
                "it is a pipe, and a scenario is read several times; give a trace with --down or \
                 --up, which may be pipes, or write it to a file",
            ));
        }
        let file = File::open(path)?;
        let mut opened = self.opened.borrow_mut();
        if !opened.iter().any(|p| p == path) {
            opened.push(path.to_path_buf());
        }
        Ok(Box::new(file))
    }

    fn schemes(&self) -> &dyn ForeignSchemes {
        &self.schemes
    }
}
