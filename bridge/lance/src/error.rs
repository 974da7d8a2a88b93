//! What a failure means to a caller behind the C ABI, and its message in one line.

use std::fmt;

use arrow::error::ArrowError;

/// The kinds of the header; the numbers are part of the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Kind {
    Invalid = 1,
    NotFound = 2,
    AlreadyExists = 3,
    Conflict = 4,
    Io = 5,
    Unknown = 6,
    NotSupported = 7,
    Internal = 8,
}

/// A failure on its way to the border.
#[derive(Clone, Debug)]
pub struct Failure {
    pub kind: Kind,
    pub message: String,
}

pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub fn new(kind: Kind, message: impl AsRef<str>) -> Self {
        Self {
            kind,
            message: one_line(message.as_ref()),
        }
    }

    pub fn invalid(message: impl AsRef<str>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    pub fn not_found(message: impl AsRef<str>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    pub fn conflict(message: impl AsRef<str>) -> Self {
        Self::new(Kind::Conflict, message)
    }

    pub fn not_supported(message: impl AsRef<str>) -> Self {
        Self::new(Kind::NotSupported, message)
    }

    pub fn internal(message: impl AsRef<str>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// The same failure with what was being done in front of its message.
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        self.message = one_line(&format!("{doing}: {}", self.message));
        self
    }

    /// As an Arrow error, for streams: the variant decides the errno that the C stream gives
    /// (EIO for storage, ENOSYS for what is not supported, EINVAL for the rest).
    pub fn into_arrow(self) -> ArrowError {
        match self.kind {
            Kind::Io => ArrowError::IoError(
                self.message.clone(),
                std::io::Error::other(self.message.clone()),
            ),
            Kind::NotSupported => ArrowError::NotYetImplemented(self.message),
            _ => ArrowError::InvalidArgumentError(self.message),
        }
    }
}

impl From<lance::Error> for Failure {
    fn from(error: lance::Error) -> Self {
        Self::new(kind_of(&error), error.to_string())
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::ExternalError(source) => match source.downcast::<lance::Error>() {
                Ok(error) => Self::from(*error),
                Err(source) => Self::invalid(source.to_string()),
            },
            ArrowError::IoError(message, _) => Self::new(Kind::Io, message),
            other => Self::invalid(other.to_string()),
        }
    }
}

impl From<object_store::path::Error> for Failure {
    fn from(error: object_store::path::Error) -> Self {
        Self::invalid(error.to_string())
    }
}

/// The kind of an error of the lance crate.
pub fn kind_of(error: &lance::Error) -> Kind {
    use lance::Error;
    // Both look through the wrappers and the chain of sources.
    if error.is_commit_status_unknown() {
        return Kind::Unknown;
    }
    if error.is_not_found() {
        return Kind::NotFound;
    }
    match error {
        Error::InvalidInput { .. }
        | Error::SchemaMismatch { .. }
        | Error::Schema { .. }
        | Error::Arrow { .. }
        | Error::CorruptFile { .. }
        | Error::Unprocessable { .. }
        | Error::InvalidTableLocation { .. }
        | Error::InvalidRef { .. }
        | Error::Index { .. } => Kind::Invalid,
        Error::DatasetNotFound { .. }
        | Error::NotFound { .. }
        | Error::IndexNotFound { .. }
        | Error::RefNotFound { .. }
        | Error::VersionNotFound { .. }
        | Error::FieldNotFound { .. } => Kind::NotFound,
        Error::DatasetAlreadyExists { .. } => Kind::AlreadyExists,
        Error::CommitConflict { .. }
        | Error::IncompatibleTransaction { .. }
        | Error::RetryableCommitConflict { .. }
        | Error::TooMuchWriteContention { .. }
        | Error::RefConflict { .. }
        | Error::Fenced { .. }
        | Error::Backpressure { .. } => Kind::Conflict,
        Error::NotSupported { .. } | Error::VersionConflict { .. } => Kind::NotSupported,
        Error::IO { .. }
        | Error::Timeout { .. }
        | Error::Namespace { .. }
        | Error::Cleanup { .. }
        | Error::DiskCapExceeded { .. } => Kind::Io,
        Error::Wrapped { error, .. } => kind_of_source(error.as_ref()),
        Error::External { source } => kind_of_source(source.as_ref()),
        Error::Shared { source } => kind_of(source),
        _ => Kind::Internal,
    }
}

/// The kind of an error that lance only passes on.
fn kind_of_source(source: &(dyn std::error::Error + 'static)) -> Kind {
    if let Some(error) = source.downcast_ref::<lance::Error>() {
        return kind_of(error);
    }
    if source.is::<object_store::Error>() || source.is::<std::io::Error>() {
        return Kind::Io;
    }
    source.source().map_or(Kind::Internal, kind_of_source)
}

/// What lance puts in front of the messages of its kinds.
const LABELS: [&str; 5] = [
    "LanceError(IO): ",
    "LanceError(Arrow): ",
    "LanceError(Schema): ",
    "LanceError(Index): ",
    "Invalid user input: ",
];

/// Longest message that is handed on, in bytes.
const MAX_MESSAGE: usize = 2000;

/// One line without the source positions that lance puts into its messages.
pub fn one_line(message: &str) -> String {
    // What follows the first backtrace line is of no use to a caller.
    let message = match message.find("Backtrace [") {
        Some(at) => &message[..at],
        None => message,
    };
    let mut line = String::with_capacity(message.len());
    for word in message.split_whitespace() {
        let cut = strip_position(word);
        if cut.len() == word.len() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
            continue;
        }
        // "…, location: /a/b.rs:1:2," loses the label and the comma before it as well.
        for tail in [" location:", " at"] {
            if let Some(rest) = line.strip_suffix(tail) {
                line.truncate(rest.len());
            }
        }
        if let Some(rest) = line.strip_suffix(',') {
            line.truncate(rest.len());
        }
        line.push_str(cut);
    }
    // The kind says it already.
    for label in LABELS {
        line = line.replace(label, "");
    }
    if line.len() > MAX_MESSAGE {
        let mut end = MAX_MESSAGE;
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        line.push('…');
    }
    line.replace('\0', "")
}

/// What is left of a word that is a position in a Rust source file ("/a/b.rs:12:3,"): its
/// punctuation. Other words come back whole.
fn strip_position(word: &str) -> &str {
    let Some(at) = word.find(".rs:") else {
        return word;
    };
    let tail = &word[at + 4..];
    let rest = tail.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':');
    if tail.len() == rest.len() { word } else { rest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_newlines_go() {
        assert_eq!(
            one_line("Not found: a/b,\n /root/.cargo/x-1/lance/src/io.rs:12:3"),
            "Not found: a/b"
        );
        assert_eq!(
            one_line("Append with different schema: x, location: /a/b.rs:1:22, and more"),
            "Append with different schema: x, and more"
        );
        assert_eq!(
            one_line("LanceError(IO): disk full, src/a.rs:1:2"),
            "disk full"
        );
        assert_eq!(
            one_line("column a.rs: of no type"),
            "column a.rs: of no type"
        );
    }

    #[test]
    fn kinds() {
        assert_eq!(kind_of(&lance::Error::io("x")), Kind::Io);
        assert_eq!(kind_of(&lance::Error::invalid_input("x")), Kind::Invalid);
        assert_eq!(kind_of(&lance::Error::not_found("x")), Kind::NotFound);
        assert_eq!(
            kind_of(&lance::Error::dataset_already_exists("x")),
            Kind::AlreadyExists
        );
        assert_eq!(
            kind_of(&lance::Error::retryable_commit_conflict_source(
                1,
                "x".into()
            )),
            Kind::Conflict
        );
        assert_eq!(
            kind_of(&lance::Error::commit_status_unknown_source(1, "x".into())),
            Kind::Unknown
        );
        assert_eq!(
            kind_of(&lance::Error::external(Box::new(lance::Error::io("x")))),
            Kind::Io
        );
    }
}
