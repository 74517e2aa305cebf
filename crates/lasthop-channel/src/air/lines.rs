//! The lines of a trace: text in bounded memory, without blank lines and comments.

use std::io::{self, BufRead, BufReader, Read};

/// Longer lines are read to this length only; numbers and messages need less.
const LONGEST: u64 = 256;

/// Reads a text line by line.
pub struct Lines<R> {
    reader: BufReader<R>,
    text: Vec<u8>,
    number: u64,
    /// Bytes that may still be read.
    left: u64,
}

/// A line with text that is not a comment.
pub struct Line<'a> {
    /// From 1.
    pub number: u64,
    /// Without blanks at its ends, and without the byte order mark of the file.
    pub text: &'a [u8],
    /// True if the line is longer than what a trace may have, and `text` is its beginning.
    pub is_cut: bool,
}

/// Why the next line is refused.
pub enum LineError {
    /// Reading failed.
    Io(io::Error),
    /// The text has more bytes than allowed.
    TooLong,
}

impl From<io::Error> for LineError {
    fn from(error: io::Error) -> LineError {
        LineError::Io(error)
    }
}

impl<R: Read> Lines<R> {
    /// The lines of a text of at most `limit` bytes.
    pub fn new(reader: R, limit: u64) -> Lines<R> {
        let reader = BufReader::with_capacity(1 << 16, reader);
        Lines { reader, text: Vec::with_capacity(LONGEST as usize), number: 0, left: limit }
    }

    /// The next line that is neither blank nor starts with `#`; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Line<'_>>, LineError> {
        loop {
            self.text.clear();
            let bytes = self.reader.by_ref().take(LONGEST).read_until(b'\n', &mut self.text)?;
            if bytes == 0 {
                return Ok(None);
            }
            self.count(bytes as u64)?;
            self.number += 1;
            let is_cut = bytes as u64 == LONGEST && !self.text.ends_with(b"\n");
            let text = without_mark(&self.text, self.number);
            let (is_comment, is_blank) = (text.starts_with(b"#"), text.is_empty() && !is_cut);
            if !is_comment && !is_blank {
                // A second look at the text, since a loop cannot return what it borrows.
                let text = without_mark(&self.text, self.number);
                return Ok(Some(Line { number: self.number, text, is_cut }));
            }
            if is_cut {
                let bytes = skip_line(&mut self.reader, self.left)?;
                self.count(bytes)?;
            }
        }
    }

    fn count(&mut self, bytes: u64) -> Result<(), LineError> {
        self.left = self.left.checked_sub(bytes).ok_or(LineError::TooLong)?;
        Ok(())
    }
}

/// A text without blanks at its ends and, on the first line, without the byte order mark.
fn without_mark(text: &[u8], number: u64) -> &[u8] {
    let mark = if number == 1 { "\u{feff}".as_bytes() } else { b"" };
    text.strip_prefix(mark).unwrap_or(text).trim_ascii()
}

/// At most 24 characters, control characters escaped.
pub fn shorten(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut short: String = text.chars().take(24).flat_map(char::escape_debug).collect();
    if text.chars().nth(24).is_some() {
        short.push('…');
    }
    short
}

/// Reads to the end of the line, or a little more than `limit` bytes; returns the number of bytes.
fn skip_line(reader: &mut impl BufRead, limit: u64) -> io::Result<u64> {
    let mut skipped = 0;
    while skipped <= limit {
        let buffer = reader.fill_buf()?;
        let end = buffer.iter().position(|&b| b == b'\n');
        let bytes = end.map_or(buffer.len(), |i| i + 1);
        reader.consume(bytes);
        skipped += bytes as u64;
        if end.is_some() || bytes == 0 {
            break;
        }
    }
    Ok(skipped)
}
