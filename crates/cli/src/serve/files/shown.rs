//! A file as an answer.

use std::{fs::Metadata, ops::Range};

use bytes::Bytes;
use headers::{AcceptRanges, ContentLength, ContentRange, HeaderMap, HeaderMapExt as _};
use hyper::{
    Response, StatusCode,
    header::{
        ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, VARY,
        X_CONTENT_TYPE_OPTIONS,
    },
};

use super::{
    body::{Content, FileBody},
    conditions::{Answer, Validators, weaken},
    memory::State,
};
use crate::accounts::now;

/// A file that answers requests.
#[derive(Debug)]
pub(super) struct Shown {
    content: Content,
    len: u64,
    validators: Validators,
    /// The fields of an answer with all of it.
    whole: HeaderMap,
    /// What is to be compressed for those who take that.
    text: Option<Text>,
}

/// A short text that is in memory.
#[derive(Debug)]
pub(super) struct Text {
    /// Under which its compressed form is kept.
    pub(super) name: Box<str>,
    /// In which the file was.
    pub(super) state: State,
    pub(super) bytes: Bytes,
}

impl Shown {
    /// A file of this kind and coding, whose content is what the system says of it.
    pub(super) fn new(
        content: Content,
        metadata: &Metadata,
        kind: HeaderValue,
        coding: Option<&'static str>,
        text: Option<Text>,
    ) -> Self {
        let (len, validators) = (metadata.len(), Validators::new(metadata, coding, now()));
        let mut whole = HeaderMap::new();
        if let Some(tag) = &validators.tag {
            whole.typed_insert(tag.clone());
        }
        if let Some(modified) = validators.modified {
            whole.typed_insert(modified);
        }
        whole.insert(VARY, HeaderValue::from_static("accept-encoding"));
        whole.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        whole.typed_insert(AcceptRanges::bytes());
        whole.typed_insert(ContentLength(len));
        whole.insert(CONTENT_TYPE, kind);
        if let Some(coding) = coding {
            whole.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
        Self { content, len, validators, whole, text }
    }

    /// What is to be compressed of it.
    pub(super) fn text(&self) -> Option<&Text> {
        self.text.as_ref()
    }

    /// The answer with all of it, compressed.
    pub(super) fn carry_packed(&self, packed: Bytes) -> Response<FileBody> {
        let len = packed.len() as u64;
        let mut response = Response::new(FileBody::new(&Content::Bytes(packed), 0..len, false));
        let fields = response.headers_mut();
        *fields = self.whole.clone();
        fields.remove(ACCEPT_RANGES);
        fields.typed_insert(ContentLength(len));
        fields.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        weaken(fields);
        response
    }

    /// The answer to a request with these fields.
    pub(super) fn answer(&self, fields: &HeaderMap) -> Response<FileBody> {
        match self.validators.answer(fields, self.len) {
            Answer::Whole => self.carry(StatusCode::OK, 0..self.len),
            Answer::Part(part) => {
                let mut response = self.carry(StatusCode::PARTIAL_CONTENT, part.clone());
                let said = response.headers_mut();
                said.typed_insert(ContentLength(part.end - part.start));
                if let Ok(range) = ContentRange::bytes(part, self.len) {
                    said.typed_insert(range);
                }
                response
            }
            Answer::NotModified => {
                let mut response = self.carry_nothing(StatusCode::NOT_MODIFIED);
                if self.validators.are_known_weakly(fields) {
                    weaken(response.headers_mut());
                }
                response
            }
            Answer::PreconditionFailed => self.carry_nothing(StatusCode::PRECONDITION_FAILED),
            Answer::NotSatisfiable => {
                let mut response = self.carry_nothing(StatusCode::RANGE_NOT_SATISFIABLE);
                response.headers_mut().typed_insert(ContentRange::unsatisfied_bytes(self.len));
                response
            }
        }
    }

    fn carry(&self, status: StatusCode, sent: Range<u64>) -> Response<FileBody> {
        let mut response = Response::new(FileBody::new(&self.content, sent, self.validators.are_strong()));
        *response.status_mut() = status;
        *response.headers_mut() = self.whole.clone();
        response
    }

    fn carry_nothing(&self, status: StatusCode) -> Response<FileBody> {
        let mut response = self.carry(status, 0..0);
        for of_content in [ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_TYPE, CONTENT_ENCODING] {
            response.headers_mut().remove(of_content);
        }
        response
    }
}

#[cfg(test)]
impl Shown {
    /// A file without contents.
    pub(super) fn empty() -> Self {
        let file = tempfile::tempfile().expect("a file");
        let metadata = file.metadata().expect("of an open file");
        let content = Content::Bytes(Bytes::new());
        Self::new(content, &metadata, HeaderValue::from_static("text/plain"), None, None)
    }
}
