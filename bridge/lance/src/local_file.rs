//! The file behind a writer on a local disk.
//!
//! Lance's own writer uses a temporary file of a random name, which nobody could tell from another
//! process's after a crash. This one carries the name that its caller chose: `<name>.tmp` until it
//! is complete, then renamed.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_trait::async_trait;
use lance_io::object_writer::WriteResult;
use lance_io::traits::Writer;
use tokio::io::AsyncWrite;

/// What is appended to a file's name while it is written.
pub const UNFINISHED: &str = ".tmp";

/// Written in pieces of this size, in bytes.
const BUFFER: usize = 256 << 10;

/// Blocks the thread that polls it, which is the caller's own: writers are driven by it.
pub struct LocalFile {
    output: Option<io::BufWriter<File>>,
    written: usize,
    path: PathBuf,
}

impl LocalFile {
    /// Creates `<path>.tmp` anew and the folders above it.
    pub fn create(path: PathBuf) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let output = File::create(unfinished(&path))?;
        Ok(Self {
            output: Some(io::BufWriter::with_capacity(BUFFER, output)),
            written: 0,
            path,
        })
    }

    /// A whole small file, which replaces one of that name.
    pub fn write(path: PathBuf, bytes: &[u8]) -> io::Result<()> {
        let mut file = Self::create(path)?;
        // Past the buffer, which would cut it into pieces.
        file.output()?.get_mut().write_all(bytes)?;
        file.finish()
    }

    fn output(&mut self) -> io::Result<&mut io::BufWriter<File>> {
        self.output
            .as_mut()
            .ok_or_else(|| io::Error::other("the file is closed already"))
    }

    fn finish(&mut self) -> io::Result<()> {
        if let Some(output) = &mut self.output {
            output.flush()?;
            std::fs::rename(unfinished(&self.path), &self.path)?;
        }
        // Kept until then: whoever drops it after a failure removes what is there.
        self.output = None;
        Ok(())
    }
}

fn unfinished(path: &std::path::Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(UNFINISHED);
    name.into()
}

impl Drop for LocalFile {
    fn drop(&mut self) {
        if self.output.take().is_some() {
            let _ = std::fs::remove_file(unfinished(&self.path));
        }
    }
}

impl AsyncWrite for LocalFile {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        Poll::Ready(
            this.output()
                .and_then(|output| output.write_all(bytes))
                .map(|()| {
                    this.written += bytes.len();
                    bytes.len()
                }),
        )
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing that is flushed can be read before the end: the buffer may stay.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.finish())
    }
}

#[async_trait]
impl Writer for LocalFile {
    async fn tell(&mut self) -> lance_core::Result<usize> {
        Ok(self.written)
    }

    async fn shutdown(&mut self) -> lance_core::Result<WriteResult> {
        self.finish()?;
        Ok(WriteResult {
            size: self.written,
            e_tag: None,
        })
    }
}
