//! The traits, in both versions: what each asks is in [`Session`] and its streams.

use std::{
    future::poll_fn,
    task::{Context, Poll},
};

use bytes::{BufMut, Bytes};

use crate::{RecvStream, SendStream, Session, SessionError, SessionStats, StreamError};

/// The versions differ in how streams are ordered.
macro_rules! traits {
    ($version:ident, $order:ty) => {
        mod $version {
            use super::*;
            use ::$version as traits;

            type Bi = (SendStream, RecvStream);

            impl traits::poll::Session for Session {
                type SendStream = SendStream;
                type RecvStream = RecvStream;
                type Error = SessionError;

                fn poll_accept_uni(
                    &mut self,
                    cx: &mut Context<'_>,
                ) -> Poll<Result<RecvStream, SessionError>> {
                    self.poll_accept_uni(cx)
                }

                fn poll_accept_bi(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bi, SessionError>> {
                    self.poll_accept_bi(cx)
                }

                fn poll_open_uni(&mut self, cx: &mut Context<'_>) -> Poll<Result<SendStream, SessionError>> {
                    self.poll_open_uni(cx)
                }

                fn poll_open_bi(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bi, SessionError>> {
                    self.poll_open_bi(cx)
                }

                fn poll_send_datagram(
                    &mut self,
                    cx: &mut Context<'_>,
                    payload: &[u8],
                ) -> Poll<Result<(), SessionError>> {
                    self.poll_send_datagram(cx, payload)
                }

                fn poll_recv_datagram(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, SessionError>> {
                    self.poll_recv_datagram(cx)
                }

                fn max_datagram_size(&self) -> usize {
                    self.max_datagram_size()
                }

                fn protocol(&self) -> Option<&str> {
                    self.protocol()
                }

                fn close(&mut self, code: u32, reason: &str) {
                    Session::close(self, code, reason);
                }

                fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<SessionError> {
                    self.poll_closed(cx)
                }

                #[allow(refining_impl_trait, reason = "the type is public")]
                fn stats(&self) -> SessionStats {
                    self.stats()
                }
            }

            impl traits::poll::SendStream for SendStream {
                type Error = StreamError;

                fn poll_write(
                    &mut self,
                    cx: &mut Context<'_>,
                    buf: &[u8],
                ) -> Poll<Result<usize, StreamError>> {
                    self.poll_write(cx, buf)
                }

                fn set_priority(&mut self, order: $order) {
                    self.order(order.into());
                }

                fn finish(&mut self) -> Result<(), StreamError> {
                    self.finish()
                }

                fn reset(&mut self, code: u32) {
                    self.reset(code);
                }

                fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
                    self.poll_closed(cx)
                }
            }

            impl traits::poll::RecvStream for RecvStream {
                type Error = StreamError;

                fn poll_read(
                    &mut self,
                    cx: &mut Context<'_>,
                    dst: &mut [u8],
                ) -> Poll<Result<Option<usize>, StreamError>> {
                    self.poll_read(cx, dst)
                }

                fn poll_read_buf<B: BufMut>(
                    &mut self,
                    cx: &mut Context<'_>,
                    buf: &mut B,
                ) -> Poll<Result<Option<usize>, StreamError>> {
                    self.poll_read_buf(cx, buf)
                }

                fn poll_read_chunk(
                    &mut self,
                    cx: &mut Context<'_>,
                    max: usize,
                ) -> Poll<Result<Option<Bytes>, StreamError>> {
                    self.poll_read_chunk(cx, max)
                }

                fn stop(&mut self, code: u32) {
                    self.stop(code);
                }

                fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
                    self.poll_closed(cx)
                }
            }

            impl traits::Session for Session {
                type SendStream = SendStream;
                type RecvStream = RecvStream;
                type Error = SessionError;

                async fn accept_uni(&self) -> Result<RecvStream, SessionError> {
                    self.waiting(Session::poll_accept_uni).await
                }

                async fn accept_bi(&self) -> Result<Bi, SessionError> {
                    self.waiting(Session::poll_accept_bi).await
                }

                async fn open_uni(&self) -> Result<SendStream, SessionError> {
                    self.waiting(Session::poll_open_uni).await
                }

                async fn open_bi(&self) -> Result<Bi, SessionError> {
                    self.waiting(Session::poll_open_bi).await
                }

                fn send_datagram(&self, payload: Bytes) -> Result<(), SessionError> {
                    self.try_send_datagram(payload)
                }

                async fn recv_datagram(&self) -> Result<Bytes, SessionError> {
                    self.waiting(Session::poll_recv_datagram).await
                }

                fn max_datagram_size(&self) -> usize {
                    self.max_datagram_size()
                }

                fn protocol(&self) -> Option<&str> {
                    self.protocol()
                }

                fn close(&self, code: u32, reason: &str) {
                    self.close(code, reason);
                }

                async fn closed(&self) -> SessionError {
                    self.closed().await
                }

                #[allow(refining_impl_trait, reason = "the type is public")]
                fn stats(&self) -> SessionStats {
                    self.stats()
                }
            }

            impl traits::SendStream for SendStream {
                type Error = StreamError;

                async fn write(&mut self, buf: &[u8]) -> Result<usize, StreamError> {
                    poll_fn(|cx| self.poll_write(cx, buf)).await
                }

                fn set_priority(&mut self, order: $order) {
                    self.order(order.into());
                }

                fn finish(&mut self) -> Result<(), StreamError> {
                    self.finish()
                }

                fn reset(&mut self, code: u32) {
                    self.reset(code);
                }

                async fn closed(&mut self) -> Result<(), StreamError> {
                    poll_fn(|cx| self.poll_closed(cx)).await
                }
            }

            impl traits::RecvStream for RecvStream {
                type Error = StreamError;

                async fn read(&mut self, dst: &mut [u8]) -> Result<Option<usize>, StreamError> {
                    poll_fn(|cx| self.poll_read(cx, dst)).await
                }

                async fn read_buf<B: BufMut + traits::MaybeSend>(
                    &mut self,
                    buf: &mut B,
                ) -> Result<Option<usize>, StreamError> {
                    poll_fn(|cx| self.poll_read_buf(cx, buf)).await
                }

                async fn read_chunk(&mut self, max: usize) -> Result<Option<Bytes>, StreamError> {
                    poll_fn(|cx| self.poll_read_chunk(cx, max)).await
                }

                fn stop(&mut self, code: u32) {
                    self.stop(code);
                }

                async fn closed(&mut self) -> Result<(), StreamError> {
                    poll_fn(|cx| self.poll_closed(cx)).await
                }
            }
        }
    };
}

traits!(web_transport_trait, i32);
#[cfg(feature = "trait-0-4")]
traits!(trait_0_4, u8);
